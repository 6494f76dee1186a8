"""Commits: one request, one commit, on a branch that did not move meanwhile.

The body is one JSON document a line: a header, then operations. Files are spooled to disk as their
lines come in, so what is held in memory is one line.
"""

from __future__ import annotations

import base64
import binascii
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hubpublish.localhub.access import Need, owns, signed_in, writer
from hubpublish.localhub.api.uploads import LFS_FROM_BYTES
from hubpublish.localhub.attributes import lfs_line, lfs_patterns, matches
from hubpublish.localhub.git import NO_OBJECT, Change, Snapshot, lfs_pointer
from hubpublish.localhub.protocol import HubHTTPError, Request, Response, json_response, required
from hubpublish.localhub.repo import MOVED, Repo, entry_not_found
from hubpublish.localhub.state import HubState

_MAX_LINE_BYTES = 2 * LFS_FROM_BYTES


@dataclass
class _Operations:
    """The operations of one commit, before they meet a parent."""

    title: str
    description: str
    parent: str | None
    files: dict[str, Path] = field(default_factory=dict)
    in_lfs: set[str] = field(default_factory=set)
    deleted_files: list[str] = field(default_factory=list)
    deleted_folders: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        return f"{self.title}\n\n{self.description}".rstrip() + "\n"


def commit(state: HubState, request: Request, kind: str, repo_id: str, revision: str) -> Response:
    """``POST .../commit/<revision>``; with ``?create_pr`` as a new pull request."""
    as_pr = request.flag("create_pr")
    on_pr = revision.startswith("refs/pr/")
    repo, user = writer(state, request, kind, repo_id, Need.PROPOSE if as_pr or on_pr else Need.WRITE)
    if on_pr:
        _check_pr_author(state, request, repo, revision)
    with tempfile.TemporaryDirectory(prefix="commit-", dir=state.root / "uploads") as folder:
        operations = _read_operations(state, request, Path(folder))
        with repo.moving():
            if as_pr:
                oid, number = _commit_as_pr(repo, operations, revision, user)
            else:
                oid, number = _commit_to(repo, operations, revision, user), None
    web = state.endpoint + repo.web_path
    # The client finds the commit and the pull request's number in these URLs.
    document = {"success": True, "commitOid": oid, "commitUrl": f"{web}/commit/{oid}", "hookOutput": ""}
    if number is not None:
        document["pullRequestUrl"] = f"{web}/discussions/{number}"
    return json_response(document)


def _check_pr_author(state: HubState, request: Request, repo: Repo, revision: str) -> None:
    token = signed_in(state, request)
    number = revision.removeprefix("refs/pr/")
    author = repo.discussions.get(int(number))["author"]["name"] if number.isdecimal() else None
    if author != token.user and not owns(state, token, repo):
        raise HubHTTPError(403, f"Only its author and the owners of {repo.id} may push to {revision}")


def _commit_to(repo: Repo, operations: _Operations, revision: str, user: str) -> str:
    ref = repo.writable_ref(revision)
    head = repo.commit_id(ref)
    if operations.parent and not head.startswith(operations.parent):
        raise HubHTTPError(412, MOVED)
    oid = _commit_on(repo, operations, head, user)
    repo.git.set_ref(ref, oid, head)
    if ref.startswith("refs/pr/"):
        _note_commit(repo, int(ref.removeprefix("refs/pr/")), operations, oid, user)
    return oid


def _commit_as_pr(repo: Repo, operations: _Operations, revision: str, user: str) -> tuple[str, int]:
    target = repo.writable_ref(revision)
    base = repo.commit_id(operations.parent or target)
    oid = _commit_on(repo, operations, base, user)
    opened = repo.discussions.open(user, operations.title, operations.description, base=target)
    number = int(opened["num"])
    repo.git.set_ref(f"refs/pr/{number}", oid, NO_OBJECT)
    _note_commit(repo, number, operations, oid, user)
    return oid, number


def _note_commit(repo: Repo, number: int, operations: _Operations, oid: str, user: str) -> None:
    repo.discussions.add_event(number, user, "commit", {"subject": operations.title, "oid": oid})


def _commit_on(repo: Repo, operations: _Operations, parent: str, user: str) -> str:
    """The commit's id; no ref knows it yet."""
    snapshot = repo.git.snapshot(parent)
    deleted = _deleted(operations, snapshot)
    oids = repo.git.store(list(operations.files.values()))
    change = Change(dict(zip(operations.files, oids, strict=True)), deleted)
    _track_in_lfs(repo, operations, change, parent)
    _refuse_clashes(snapshot, change)
    return repo.git.commit([parent], change, operations.message, user)


def _deleted(operations: _Operations, snapshot: Snapshot) -> set[str]:
    gone: set[str] = set()
    for path in operations.deleted_files:
        if path not in snapshot.files:
            raise entry_not_found(path)
        gone.add(path)
    for folder in operations.deleted_folders:
        if folder not in snapshot.folders:
            raise entry_not_found(folder)
        gone |= {path for path in snapshot.files if path.startswith(f"{folder}/")}
    return gone


def _track_in_lfs(repo: Repo, operations: _Operations, change: Change, parent: str) -> None:
    """Add LFS files that no pattern covers to ``.gitattributes``, as the Hub does by itself."""
    if ".gitattributes" in change.adds:
        return
    attributes = repo.git.text(parent, ".gitattributes") or ""
    patterns = lfs_patterns(attributes)
    lines = [lfs_line(path) for path in sorted(operations.in_lfs) if not matches(path, patterns)]
    if lines:
        change.adds[".gitattributes"] = repo.git.store_bytes((attributes + "".join(lines)).encode())


def _refuse_clashes(snapshot: Snapshot, change: Change) -> None:
    """A path cannot be a file and a folder."""
    files = (snapshot.files.keys() - change.deletes) | change.adds.keys()
    folders = {folder for path in files for folder in _folders_of(path)}
    for path in sorted(files & folders):
        raise HubHTTPError(400, f"{path} would be both a file and a folder")


def _folders_of(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


# -- reading the request


def _read_operations(state: HubState, request: Request, folder: Path) -> _Operations:
    lines = _lines(request)
    key, header = next(lines, ("", {}))
    if key != "header":
        raise HubHTTPError(400, "The first line must be the header")
    title = required(header, "summary").strip()
    if not title:
        raise HubHTTPError(400, '"summary" must not be empty')
    parent = str(header["parentCommit"]) if header.get("parentCommit") else None
    operations = _Operations(title, str(header.get("description") or ""), parent)
    for number, (key, value) in enumerate(lines):
        path = _checked_path(required(value, "path"))
        if key == "file":
            operations.files[path] = folder / str(number)
            operations.files[path].write_bytes(_content(path, value))
        elif key == "lfsFile":
            operations.files[path] = folder / str(number)
            operations.files[path].write_bytes(_pointer(state, path, value))
            operations.in_lfs.add(path)
        elif key == "deletedFile":
            operations.deleted_files.append(path)
        elif key == "deletedFolder":
            operations.deleted_folders.append(path)
        else:
            raise HubHTTPError(400, f"Unknown operation: {key}")
    return operations


def _lines(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    while line := request.body.readline(_MAX_LINE_BYTES):
        if len(line) == _MAX_LINE_BYTES:
            raise HubHTTPError(413, "Payload too large: use LFS for large files")
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            raise HubHTTPError(400, "Invalid JSON") from error
        if not isinstance(document, dict) or not isinstance(document.get("value"), dict):
            raise HubHTTPError(400, 'Each line must be an object with "key" and "value"')
        yield str(document.get("key")), document["value"]


def _checked_path(path: str) -> str:
    path = path.strip("/")
    control = any(ord(character) < 0x20 or character == "\x7f" for character in path)
    if control or "\\" in path or any(part.lower() in ("", ".", "..", ".git") for part in path.split("/")):
        raise HubHTTPError(400, f"Invalid path: {path!r}")
    return path


def _content(path: str, value: dict[str, Any]) -> bytes:
    content = required(value, "content")
    try:
        data = (
            base64.b64decode(content, validate=True)
            if value.get("encoding") == "base64"
            else content.encode()
        )
    except binascii.Error as error:
        raise HubHTTPError(400, f"Invalid base64: {path}") from error
    if len(data) >= LFS_FROM_BYTES:
        message = f"Your push was rejected because it contains files larger than 10 MiB: {path}. Use git-lfs."
        raise HubHTTPError(400, message)
    return data


def _pointer(state: HubState, path: str, value: dict[str, Any]) -> bytes:
    oid = required(value, "oid")
    size = state.lfs.size(oid)
    if value.get("algo") != "sha256" or size is None or value.get("size", size) != size:
        message = f"LFS pointer pointed to a file that does not exist: {path}. Offending file: {oid}"
        raise HubHTTPError(400, message)
    return lfs_pointer(oid, size)
