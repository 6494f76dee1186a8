"""Refs and history: branches, tags, commits, squashing."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from hubpublish.localhub.access import Need, open_repo, writer
from hubpublish.localhub.git import NO_OBJECT
from hubpublish.localhub.protocol import HubHTTPError, Request, Response, json_response, ok, required
from hubpublish.localhub.repo import MAIN, Repo, revision_not_found
from hubpublish.localhub.state import HubState

_GROUPS = {"heads": "branches", "tags": "tags", "convert": "converts", "pr": "pullRequests"}
COMMITS_PAGE, LARGEST_COMMITS_PAGE = 50, 1000
_LAST_PAGE = 10**6  # git counts in 32 bits


def refs(state: HubState, request: Request, kind: str, repo_id: str) -> Response:
    """``GET .../refs``; pull requests only with ``?include_prs``."""
    repo = open_repo(state, request, kind, repo_id)
    groups: dict[str, list[dict[str, Any]]] = {group: [] for group in _GROUPS.values()}
    for ref, commit in repo.git.refs():
        _, group, name = ref.split("/", 2)
        if group in _GROUPS:
            groups[_GROUPS[group]].append({"name": name, "ref": ref, "targetCommit": commit})
    if not request.flag("include_prs"):
        del groups["pullRequests"]
    return json_response(groups)


def commits(state: HubState, request: Request, kind: str, repo_id: str, revision: str) -> Response:
    """``GET .../commits/<revision>?p=&limit=``, newest first; in pages, linked by header."""
    repo = open_repo(state, request, kind, repo_id)
    number = min(request.number("p", 0), _LAST_PAGE)
    limit = min(request.number("limit", COMMITS_PAGE), LARGEST_COMMITS_PAGE) or COMMITS_PAGE
    found = repo.git.history(repo.commit_id(revision), skip=number * limit, limit=limit + 1)
    headers = {}
    if len(found) > limit:
        following = urlencode({**request.query, "p": str(number + 1)})
        headers["Link"] = f'<{state.endpoint}{request.path}?{following}>; rel="next"'
    page = [
        {
            "id": commit.oid,
            "title": commit.title,
            "message": commit.message,
            "authors": [{"user": commit.author}],
            "date": commit.date,
        }
        for commit in found[:limit]
    ]
    return json_response(page, headers=headers)


def create_branch(state: HubState, request: Request, kind: str, repo_id: str, name: str) -> Response:
    """``POST .../branch/<name>``."""
    repo = open_repo(state, request, kind, repo_id, Need.WRITE)
    start = request.json().get("startingPoint")
    with repo.moving():
        ref = _new_ref(repo, f"refs/heads/{name}")
        repo.git.set_ref(ref, repo.commit_id("main" if start is None else str(start)), NO_OBJECT)
    return ok()


def delete_branch(state: HubState, request: Request, kind: str, repo_id: str, name: str) -> Response:
    """``DELETE .../branch/<name>``."""
    repo = open_repo(state, request, kind, repo_id, Need.WRITE)
    if f"refs/heads/{name}" == MAIN:
        raise HubHTTPError(403, "Cannot delete the default branch")
    return _delete(repo, f"refs/heads/{name}", name)


def create_tag(state: HubState, request: Request, kind: str, repo_id: str, name: str) -> Response:
    """``POST .../tag/<revision>``: tag that revision."""
    repo, user = writer(state, request, kind, repo_id, Need.WRITE)
    body = request.json()
    tag = required(body, "tag")
    with repo.lock:
        _new_ref(repo, f"refs/tags/{tag}")
        repo.git.tag(tag, repo.commit_id(name), str(body.get("message") or tag), user)
    return ok()


def delete_tag(state: HubState, request: Request, kind: str, repo_id: str, name: str) -> Response:
    """``DELETE .../tag/<name>``."""
    return _delete(open_repo(state, request, kind, repo_id, Need.WRITE), f"refs/tags/{name}", name)


def super_squash(state: HubState, request: Request, kind: str, repo_id: str, name: str) -> Response:
    """``POST .../super-squash/<branch>``: the branch's files as its only commit."""
    repo, user = writer(state, request, kind, repo_id, Need.WRITE)
    message = required(request.json(), "message")
    with repo.moving():
        ref = repo.writable_ref(name)
        old = repo.commit_id(ref)
        new = repo.git.commit_tree(f"{old}^{{tree}}", [], message, user)
        repo.git.set_ref(ref, new, old)
    return ok()


def _new_ref(repo: Repo, ref: str) -> str:
    if not repo.git.may_be_ref(ref):
        raise HubHTTPError(400, f"Invalid reference name: {ref}")
    if repo.git.has_ref(ref):
        raise HubHTTPError(409, f"Reference already exists: {ref}")
    return ref


def _delete(repo: Repo, ref: str, name: str) -> Response:
    with repo.lock:
        if not repo.git.may_be_ref(ref) or not repo.git.has_ref(ref):
            raise revision_not_found(name)
        repo.git.delete_ref(ref)
    return ok()
