"""Before a commit: which files go to LFS, and taking those in."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from hubpublish.localhub.access import Need, open_repo
from hubpublish.localhub.attributes import ignore_patterns, lfs_patterns, matches
from hubpublish.localhub.git import FileEntry
from hubpublish.localhub.protocol import HubHTTPError, Request, Response, json_response, required
from hubpublish.localhub.state import HubState

# Above this the Hub takes no file but through LFS.
LFS_FROM_BYTES = 10 * 1024 * 1024
_SAMPLE_BYTES = 512
_LFS_JSON = {"Content-Type": "application/vnd.git-lfs+json"}


def preupload(state: HubState, request: Request, kind: str, repo_id: str, revision: str) -> Response:
    """``POST .../preupload/<revision>``: for each file, how to upload it, and what is there now."""
    by_pr = request.flag("create_pr") or revision.startswith("refs/pr/")
    repo = open_repo(state, request, kind, repo_id, Need.PROPOSE if by_pr else Need.WRITE)
    body, commit = request.json(), repo.commit_id(revision)
    files = repo.git.snapshot(commit).files
    large = lfs_patterns(repo.git.text(commit, ".gitattributes"))
    ignore = body.get("gitIgnore")
    ignored = ignore_patterns(repo.git.text(commit, ".gitignore") if ignore is None else str(ignore))
    answers = []
    for file in _objects(body, "files"):
        path = required(file, "path")
        lfs = (
            matches(path, large) or _count(file, "size") >= LFS_FROM_BYTES or not _is_text(file.get("sample"))
        )
        answer = {"path": path, "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
        answers.append({**answer, "shouldIgnore": matches(path, ignored), **_known(files.get(path))})
    return json_response({"files": answers, "commitOid": commit})


def _known(entry: FileEntry | None) -> dict[str, str]:
    """The id from which the client sees that a file is unchanged."""
    if entry is None:
        return {}
    return {"oid": entry.lfs.oid if entry.lfs else entry.oid}


def _is_text(sample: object) -> bool:
    try:
        data = base64.b64decode(str(sample or ""), validate=True)
    except binascii.Error as error:
        raise HubHTTPError(400, '"sample" must be base64') from error
    if len(data) == _SAMPLE_BYTES:
        data = _without_cut_character(data)
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _without_cut_character(data: bytes) -> bytes:
    """UTF-8 text cut anywhere, without the bytes of a character that the cut went through."""
    for dropped in range(1, 4):
        if data[-dropped] >= 0xC0:
            return data[:-dropped]
    return data


def lfs_batch(state: HubState, request: Request, repo_id: str, kind: str | None = None) -> Response:
    """``POST /<id>.git/info/lfs/objects/batch``: where to upload the objects that are not there yet."""
    repo = open_repo(state, request, kind or "models", repo_id, Need.PROPOSE)
    body = request.json()
    if body.get("operation") != "upload":
        raise HubHTTPError(422, "Only uploads go through the LFS batch API here")
    multipart = "multipart" in (body.get("transfers") or [])
    verify = {"href": f"{state.endpoint}{repo.web_path}.git/info/lfs/verify"}
    objects = []
    for asked in _objects(body, "objects"):
        oid, size = required(asked, "oid"), _count(asked, "size")
        answer: dict[str, Any] = {"oid": oid, "size": size, "authenticated": True}
        if state.lfs.size(oid) is None:
            upload = _upload_action(state, oid, size, multipart=multipart)
            answer["actions"] = {"upload": upload, "verify": verify}
        objects.append(answer)
    return json_response({"transfer": "basic", "objects": objects}, headers=_LFS_JSON)


def _upload_action(state: HubState, oid: str, size: int, *, multipart: bool) -> dict[str, Any]:
    part = state.lfs_part_size
    if part is None or size <= part or not multipart:
        return {"href": state.signed(state.storage, f"/_storage/{oid}")}
    parts = range(1, -(-size // part) + 1)
    urls = {f"{n:05d}": state.signed(state.storage, f"/_storage/{oid}/parts/{n}") for n in parts}
    complete = state.signed(state.endpoint, f"/_storage/{oid}/complete")
    return {"href": complete, "header": {"chunk_size": str(part), **urls}}


def lfs_verify(state: HubState, request: Request, repo_id: str, kind: str | None = None) -> Response:
    """``POST /<id>.git/info/lfs/verify``: did it arrive whole?"""
    open_repo(state, request, kind or "models", repo_id, Need.PROPOSE)
    body = request.json()
    if state.lfs.size(required(body, "oid")) != _count(body, "size"):
        raise HubHTTPError(404, "Object not found")
    return json_response({}, headers=_LFS_JSON)


def storage_put(state: HubState, request: Request, oid: str) -> Response:
    """``PUT /_storage/<sha256>``: the bytes of an object."""
    state.check_signature(request.path, request.query.get("sig"))
    state.lfs.receive(oid, request.body)
    return Response(200)


def storage_part(state: HubState, request: Request, oid: str, number: str) -> Response:
    """``PUT /_storage/<sha256>/parts/<n>``: the bytes of one part."""
    state.check_signature(request.path, request.query.get("sig"))
    etag = state.lfs.receive_part(oid, int(number), request.body)
    return Response(200, headers={"ETag": f'"{etag}"'})


def storage_complete(state: HubState, request: Request, oid: str) -> Response:
    """``POST /_storage/<sha256>/complete``: join the parts."""
    state.check_signature(request.path, request.query.get("sig"))
    parts = _objects(request.json(), "parts")
    etags = [(_count(part, "partNumber"), required(part, "etag").strip('"')) for part in parts]
    state.lfs.complete(oid, etags)
    return json_response({}, headers=_LFS_JSON)


def _objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = body.get(name)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise HubHTTPError(400, f'"{name}" must be an array of objects')
    return items


def _count(document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or value < 0:
        raise HubHTTPError(400, f'"{name}" must be a number')
    return value
