"""What a revision holds: repo info, trees, paths."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode

from hubpublish.localhub.access import open_repo
from hubpublish.localhub.api.cards import base_models, metadata_of
from hubpublish.localhub.git import FileEntry
from hubpublish.localhub.protocol import Request, Response, is_true, json_response
from hubpublish.localhub.repo import Repo, entry_not_found
from hubpublish.localhub.state import HubState

PAGE = 1000


def info(state: HubState, request: Request, kind: str, repo_id: str, revision: str = "main") -> Response:
    """``GET /api/models/<id>`` and ``GET /api/models/<id>/revision/<revision>``."""
    return json_response(repo_info(open_repo(state, request, kind, repo_id), request, revision))


def repo_info(repo: Repo, request: Request, revision: str = "main") -> dict[str, Any]:
    """The document of a repo at a revision; sizes and hashes with ``?blobs=true``."""
    commit = repo.commit_id(revision)
    files = repo.git.snapshot(commit).files
    card = metadata_of(repo.git.text(commit, "README.md"))
    document: dict[str, Any] = {
        "_id": "0" * 24,
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.namespace,
        "sha": commit,
        "private": repo.meta.private,
        "gated": repo.meta.gated,
        "disabled": False,
        "createdAt": repo.meta.created,
        "lastModified": repo.git.history(commit, limit=1)[0].date,
        "downloads": 0,
        "likes": 0,
        "tags": _tags(card),
        "pipeline_tag": card.get("pipeline_tag"),
        "library_name": card.get("library_name"),
        "cardData": _json_safe(card) or None,
        "siblings": [_sibling(entry, blobs=request.flag("blobs")) for entry in files.values()],
        "spaces": [],
        "usedStorage": sum(entry.size for entry in files.values()),
    }
    if request.flag("securityStatus"):
        document["securityRepoStatus"] = {"scansDone": True, "filesWithIssues": []}
    return document


def _tags(card: dict[str, Any]) -> list[str]:
    own = card.get("tags") or []
    bases, relation = base_models(card), card.get("base_model_relation")
    tags = [str(tag) for tag in (own if isinstance(own, list) else [own])]
    tags += [f"base_model:{base}" for base in bases]
    return tags + [f"base_model:{relation}:{base}" for base in bases if relation]


def _json_safe(value: Any) -> Any:
    """YAML knows dates and non-string keys; JSON does not."""
    if isinstance(value, dict):
        return {str(key): _json_safe(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_safe(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _sibling(entry: FileEntry, *, blobs: bool) -> dict[str, Any]:
    sibling: dict[str, Any] = {"rfilename": entry.path}
    if blobs:
        sibling |= {"size": entry.size, "blobId": entry.oid}
        if entry.lfs:
            pointer = {"sha256": entry.lfs.oid, "size": entry.lfs.size, "pointerSize": entry.blob_size}
            sibling["lfs"] = pointer
    return sibling


def tree(
    state: HubState, request: Request, kind: str, repo_id: str, revision: str, path: str = ""
) -> Response:
    """``GET .../tree/<revision>[/<folder>]``, ``?recursive``, ``?expand``; in pages, linked by header."""
    repo = open_repo(state, request, kind, repo_id)
    commit = repo.commit_id(revision)
    rows = _rows(repo, commit, path.strip("/"), recursive=request.flag("recursive"))
    start, limit = request.number("cursor", 0), min(request.number("limit", PAGE), PAGE) or PAGE
    page = [_row(repo, commit, row, expand=request.flag("expand")) for row in rows[start : start + limit]]
    headers = {}
    if start + limit < len(rows):
        following = urlencode({**request.query, "cursor": str(start + limit)})
        headers["Link"] = f'<{state.endpoint}{request.path}?{following}>; rel="next"'
    return json_response(page, headers=headers)


def _rows(repo: Repo, commit: str, folder: str, *, recursive: bool) -> list[FileEntry | tuple[str, str]]:
    """Folders (path, tree id), then files, below a folder."""
    snapshot = repo.git.snapshot(commit)
    if folder and folder not in snapshot.folders:
        raise entry_not_found(folder, commit)
    prefix = f"{folder}/" if folder else ""

    def listed(path: str) -> bool:
        return path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :])

    folders = [(path, oid) for path, oid in snapshot.folders.items() if listed(path)]
    return [*folders, *(entry for path, entry in snapshot.files.items() if listed(path))]


def _row(repo: Repo, commit: str, row: FileEntry | tuple[str, str], *, expand: bool) -> dict[str, Any]:
    if not isinstance(row, FileEntry):
        document: dict[str, Any] = {"type": "directory", "oid": row[1], "size": 0, "path": row[0]}
    else:
        document = {"type": "file", "oid": row.oid, "size": row.size, "path": row.path}
        if row.lfs:
            document["lfs"] = {"oid": row.lfs.oid, "size": row.lfs.size, "pointerSize": row.blob_size}
    if expand:
        last = repo.git.history(commit, path=document["path"], limit=1)[0]
        document["lastCommit"] = {"id": last.oid, "title": last.title, "date": last.date}
        if document["type"] == "file":
            safe = {"status": "safe", "avScan": None, "pickleImportScan": None}
            document["securityFileStatus"] = safe
    return document


def paths_info(state: HubState, request: Request, kind: str, repo_id: str, revision: str) -> Response:
    """``POST .../paths-info/<revision>``: those of the asked paths that are there."""
    repo = open_repo(state, request, kind, repo_id)
    paths, expand = _asked(request)
    commit = repo.commit_id(revision)
    snapshot = repo.git.snapshot(commit)
    rows: list[dict[str, Any]] = []
    for path in (str(path).strip("/") for path in paths):
        if path in snapshot.files:
            rows.append(_row(repo, commit, snapshot.files[path], expand=expand))
        elif path in snapshot.folders:
            rows.append(_row(repo, commit, (path, snapshot.folders[path]), expand=expand))
    return json_response(rows)


def _asked(request: Request) -> tuple[list[Any], bool]:
    """The paths and the flag, from a JSON body or, as the Python client sends them, a form."""
    if "json" in (request.headers.get("Content-Type") or ""):
        body = request.json()
        paths = body.get("paths", [])
        return (paths if isinstance(paths, list) else [paths]), is_true(body.get("expand"))
    form = parse_qs(request.read().decode(errors="replace"))
    return form.get("paths", []), is_true(form.get("expand", [""])[0])
