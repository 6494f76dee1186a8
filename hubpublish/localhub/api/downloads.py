"""Downloads: files of a revision, whole or in ranges, streamed from disk."""

from __future__ import annotations

import re
from urllib.parse import quote

from hubpublish.localhub.access import Need, open_repo
from hubpublish.localhub.git import FileEntry
from hubpublish.localhub.protocol import FilePart, HubHTTPError, Request, Response
from hubpublish.localhub.repo import Repo, entry_not_found
from hubpublish.localhub.state import HubState

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
# What is not here goes out as octets. HTML and scripts of a repo must not run under the Hub's origin.
_CONTENT_TYPES = {
    "json": "application/json",
    "wasm": "application/wasm",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    **dict.fromkeys(("md", "txt", "yaml", "yml", "html", "js", "mjs", "py"), "text/plain; charset=utf-8"),
}


def resolve(
    state: HubState, request: Request, repo_id: str, revision: str, path: str, kind: str | None = None
) -> Response:
    """``GET|HEAD /<id>/resolve/<revision>/<path>``: the content of a file."""
    repo, commit, entry = _find(state, request, kind, repo_id, revision, path)
    headers = {"X-Repo-Commit": commit, "Content-Disposition": _disposition(path)}
    if entry.lfs is None:
        body = repo.git.blob(entry.oid)
        return _ranged(request, body, entry.oid, {**headers, "Content-Type": _content_type(path)})
    headers |= {"X-Linked-Etag": f'"{entry.lfs.oid}"', "X-Linked-Size": str(entry.lfs.size)}
    # The client follows a redirect within an origin by itself and then misses X-Repo-Commit,
    # so large files are redirected only when their storage has an origin of its own.
    if state.separate_storage:
        location = state.signed(state.storage, f"/_storage/{entry.lfs.oid}")
        etag = {"ETag": f'"{entry.lfs.oid}"', "Location": location, "Accept-Ranges": "bytes"}
        return Response(302, headers={**headers, **etag})
    return _ranged(request, _object(state, entry.lfs.oid), entry.lfs.oid, headers)


def raw(
    state: HubState, request: Request, repo_id: str, revision: str, path: str, kind: str | None = None
) -> Response:
    """``GET|HEAD /<id>/raw/<revision>/<path>``: the git blob itself; of an LFS file, the pointer."""
    repo, commit, entry = _find(state, request, kind, repo_id, revision, path)
    headers = {"X-Repo-Commit": commit, "Content-Type": "text/plain; charset=utf-8"}
    return _ranged(request, repo.git.blob(entry.oid), entry.oid, headers)


def storage_get(state: HubState, request: Request, oid: str) -> Response:
    """``GET|HEAD /_storage/<sha256>``: an object, by a URL that the Hub handed out."""
    state.check_signature(request.path, request.query.get("sig"))
    if state.lfs.size(oid) is None:
        raise HubHTTPError(404, "NoSuchKey")
    return _ranged(request, _object(state, oid), oid, {})


def _find(
    state: HubState, request: Request, kind: str | None, repo_id: str, revision: str, path: str
) -> tuple[Repo, str, FileEntry]:
    repo = open_repo(state, request, kind or "models", repo_id, Need.FILES)
    commit = repo.commit_id(revision)
    entry = repo.git.snapshot(commit).files.get(path)
    if entry is None:
        raise entry_not_found(path, commit)
    return repo, commit, entry


def _object(state: HubState, oid: str) -> FilePart:
    path, size = state.lfs.path(oid), state.lfs.size(oid)
    if size is None:  # of a pointer that was committed as text
        raise HubHTTPError(404, f"No such LFS object: {oid}")
    return FilePart(path, 0, size)


def _ranged(request: Request, body: bytes | FilePart, etag: str, headers: dict[str, str]) -> Response:
    """The body, or the one range of it that was asked for, or nothing if the asker has it."""
    headers = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", **headers}
    if f'"{etag}"' in (request.headers.get("If-None-Match") or ""):
        return Response(304, headers=headers)
    response = Response(200, body, headers)
    size = response.length
    match = _RANGE.fullmatch((request.headers.get("Range") or "").strip())
    if not match or match.groups() == ("", ""):
        return response
    first, last = match.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last), size - 1) if first and last else size - 1
    if start > end:
        return Response(416, headers={**headers, "Content-Range": f"bytes */{size}"})
    piece: bytes | FilePart
    if isinstance(body, bytes):
        piece = body[start : end + 1]
    else:
        piece = FilePart(body.path, body.offset + start, end + 1 - start)
    return Response(206, piece, {**headers, "Content-Range": f"bytes {start}-{end}/{size}"})


def _content_type(path: str) -> str:
    return _CONTENT_TYPES.get(path.rpartition(".")[2].lower(), "application/octet-stream")


def _disposition(path: str) -> str:
    return f"inline; filename*=UTF-8''{quote(path.rpartition('/')[2])}"
