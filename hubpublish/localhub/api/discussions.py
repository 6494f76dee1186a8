"""Discussions and pull requests."""

from __future__ import annotations

from typing import Any

from hubpublish.localhub import pull_requests
from hubpublish.localhub.access import Need, open_repo, owns, signed_in, writer
from hubpublish.localhub.discussions import OPEN
from hubpublish.localhub.git import NO_OBJECT
from hubpublish.localhub.protocol import HubHTTPError, Request, Response, json_response, required
from hubpublish.localhub.repo import MAIN, Repo
from hubpublish.localhub.state import HubState

_PAGE = 50


def list_discussions(state: HubState, request: Request, kind: str, repo_id: str) -> Response:
    """``GET .../discussions``: newest first, in pages; by ``type``, ``status``, ``author``."""
    repo = open_repo(state, request, kind, repo_id)
    query = request.query
    page = query.get("p", "0")
    if not page.isdecimal():
        raise HubHTTPError(400, '"p" must be a number')
    wanted = [item for item in reversed(repo.discussions.all()) if _is_wanted(item, query)]
    start = int(page) * _PAGE
    shown = [
        {key: value for key, value in item.items() if key not in ("events", "changes")}
        for item in wanted[start : start + _PAGE]
    ]
    return json_response({"discussions": shown, "count": len(wanted), "start": start})


def _is_wanted(item: dict[str, Any], query: dict[str, str]) -> bool:
    kind, status, author = query.get("type"), query.get("status"), query.get("author")
    return (
        (kind not in ("discussion", "pull_request") or item["isPullRequest"] == (kind == "pull_request"))
        and (status not in ("open", "closed") or (item["status"] in OPEN) == (status == "open"))
        and author in (None, item["author"]["name"])
    )


def create_discussion(state: HubState, request: Request, kind: str, repo_id: str) -> Response:
    """``POST .../discussions``: a discussion, or an empty pull request as a draft."""
    repo, user = writer(state, request, kind, repo_id, Need.PROPOSE)
    body = request.json()
    title, description = required(body, "title"), str(body.get("description") or "")
    as_pr = body.get("pullRequest") is True
    with repo.moving():
        if as_pr:
            opened = repo.discussions.open(user, title, description, base=MAIN, status="draft")
            repo.git.set_ref(f"refs/pr/{opened['num']}", repo.commit_id(MAIN), NO_OBJECT)
        else:
            opened = repo.discussions.open(user, title, description)
    number = opened["num"]
    url = f"{state.endpoint}{repo.web_path}/discussions/{number}"
    return json_response({"num": number, "pullRequest": as_pr, "url": url})


def discussion(state: HubState, request: Request, kind: str, repo_id: str, number: str) -> Response:
    """``GET .../discussions/<number>``: with its events, of a pull request also diff and conflicts."""
    repo = open_repo(state, request, kind, repo_id)
    document = repo.discussions.get(int(number))
    if document["isPullRequest"]:
        target, is_open = document["changes"]["base"], document["status"] in OPEN
        document["diff"] = pull_requests.diff(repo, target, int(number))
        conflicts = pull_requests.conflicts(repo, target, int(number)) if is_open else []
        document["filesWithConflicts"] = conflicts
    return json_response(document)


def comment(state: HubState, request: Request, kind: str, repo_id: str, number: str) -> Response:
    """``POST .../discussions/<number>/comment``."""
    repo, user = writer(state, request, kind, repo_id, Need.PROPOSE)
    event = repo.discussions.comment(int(number), user, required(request.json(), "comment"))
    return json_response({"newMessage": event})


def edit_comment(
    state: HubState, request: Request, kind: str, repo_id: str, number: str, comment_id: str
) -> Response:
    """``POST .../discussions/<number>/comment/<id>/edit``."""
    repo, user = _comment_author(state, request, kind, repo_id, number, comment_id)
    text = required(request.json(), "content")
    return json_response(
        {"updatedComment": repo.discussions.edit_comment(int(number), comment_id, user, text)}
    )


def hide_comment(
    state: HubState, request: Request, kind: str, repo_id: str, number: str, comment_id: str
) -> Response:
    """``POST .../discussions/<number>/comment/<id>/hide``."""
    repo, user = _comment_author(state, request, kind, repo_id, number, comment_id)
    return json_response({"updatedComment": repo.discussions.hide_comment(int(number), comment_id, user)})


def change_title(state: HubState, request: Request, kind: str, repo_id: str, number: str) -> Response:
    """``POST .../discussions/<number>/title``."""
    repo, user = _author(state, request, kind, repo_id, number)
    new = required(request.json(), "title")
    with repo.lock:
        old = repo.discussions.get(int(number))["title"]
        repo.discussions.change(int(number), title=new)
        event = repo.discussions.add_event(int(number), user, "title-change", {"from": old, "to": new})
    return json_response({"newTitle": event})


def change_status(state: HubState, request: Request, kind: str, repo_id: str, number: str) -> Response:
    """``POST .../discussions/<number>/status``: open or close it, with a comment if there is one."""
    repo, user = _author(state, request, kind, repo_id, number)
    body = request.json()
    status = required(body, "status")
    with repo.lock:
        if status not in ("open", "closed"):
            raise HubHTTPError(400, '"status" must be "open" or "closed"')
        if repo.discussions.get(int(number))["status"] == "merged":
            raise HubHTTPError(409, "This pull request is merged")
        repo.discussions.change(int(number), status=status)
        event = repo.discussions.add_event(int(number), user, "status-change", {"status": status})
        if body.get("comment"):
            repo.discussions.comment(int(number), user, str(body["comment"]))
    return json_response({"newStatus": event})


def merge(state: HubState, request: Request, kind: str, repo_id: str, number: str) -> Response:
    """``POST .../discussions/<number>/merge``."""
    repo, user = writer(state, request, kind, repo_id, Need.WRITE)
    text = request.json().get("comment")
    with repo.moving():
        document = repo.discussions.get(int(number))
        if not document["isPullRequest"] or document["status"] not in OPEN:
            raise HubHTTPError(409, f"Not an open pull request: {number} is {document['status']}")
        oid = pull_requests.merge(repo, document["changes"]["base"], int(number), document["title"], user)
        changes = {**document["changes"], "mergeCommitId": oid}
        repo.discussions.change(int(number), status="merged", changes=changes)
        repo.discussions.add_event(int(number), user, "status-change", {"status": "merged"})
        if text:
            repo.discussions.comment(int(number), user, str(text))
    return json_response({"oid": oid})


def _author(state: HubState, request: Request, kind: str, repo_id: str, number: str) -> tuple[Repo, str]:
    """For what only the author of a discussion and the owners of the repo may do."""
    repo, user = writer(state, request, kind, repo_id, Need.PROPOSE)
    author = repo.discussions.get(int(number))["author"]["name"]
    if user != author and not owns(state, signed_in(state, request), repo):
        raise HubHTTPError(403, f"Only {author} and the owners of {repo.id} may do this")
    return repo, user


def _comment_author(
    state: HubState, request: Request, kind: str, repo_id: str, number: str, comment_id: str
) -> tuple[Repo, str]:
    repo, user = writer(state, request, kind, repo_id, Need.PROPOSE)
    for event in repo.discussions.get(int(number))["events"]:
        if event["id"] == comment_id and event["author"]["name"] != user:
            raise HubHTTPError(403, "Only its author may change a comment")
    return repo, user
