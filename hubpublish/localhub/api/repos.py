"""Accounts and whole repos: who am I, create, delete, rename, settings, access."""

from __future__ import annotations

import hashlib
from typing import Any

from hubpublish.localhub.access import Need, open_repo, owns, signed_in, writer
from hubpublish.localhub.api.files import repo_info
from hubpublish.localhub.protocol import HubHTTPError, Request, Response, json_response, ok, required
from hubpublish.localhub.registry import KINDS
from hubpublish.localhub.state import HubState


def whoami(state: HubState, request: Request) -> Response:
    """``GET /api/whoami-v2``."""
    token = signed_in(state, request)
    organizations = sorted(state.accounts.organizations.get(token.user, ()))
    role = "fineGrained" if token.repos is not None else token.role
    return json_response(
        {
            "type": "user",
            "id": hashlib.sha256(token.user.encode()).hexdigest()[:24],
            "name": token.user,
            "fullname": token.user,
            "isPro": False,
            "orgs": [
                {"type": "org", "name": name, "fullname": name, "roleInOrg": "admin"}
                for name in organizations
            ],
            "auth": {"type": "access_token", "accessToken": {"displayName": "local", "role": role}},
        }
    )


def create_repo(state: HubState, request: Request) -> Response:
    """``POST /api/repos/create``."""
    token, body = signed_in(state, request), request.json()
    kind = _kind(body)
    namespace = str(body.get("organization") or token.user)
    repo_id = f"{namespace}/{required(body, 'name')}"
    if token.role == "read" or token.repos is not None or not state.accounts.owns(token, namespace):
        message = f'You don\'t have the rights to create a {kind} under the namespace "{namespace}"'
        raise HubHTTPError(403, message)
    private = body.get("visibility") == "private" or bool(body.get("private"))
    try:
        repo = state.registry.create(kind, repo_id, token.user, private=private)
    except HubHTTPError as error:
        taken = state.registry.get(kind, repo_id)
        if error.status == 409 and taken:
            error.body = {"error": error.message, "url": state.endpoint + taken.web_path}
        raise
    return json_response({"url": state.endpoint + repo.web_path, "name": repo.id, "id": repo.id})


def delete_repo(state: HubState, request: Request) -> Response:
    """``DELETE /api/repos/delete``."""
    token, body = signed_in(state, request), request.json()
    repo_id = f"{body.get('organization') or token.user}/{required(body, 'name')}"
    state.registry.delete(open_repo(state, request, _kind(body), repo_id, Need.WRITE))
    return ok()


def move_repo(state: HubState, request: Request) -> Response:
    """``POST /api/repos/move``."""
    token, body = signed_in(state, request), request.json()
    repo = open_repo(state, request, _kind(body), required(body, "fromRepo"), Need.WRITE)
    target = required(body, "toRepo")
    if not state.accounts.owns(token, target.split("/")[0]):
        raise HubHTTPError(403, f"You don't have the rights to move a repo to {target}")
    state.registry.rename(repo, target)
    return ok()


def list_repos(state: HubState, request: Request, kind: str) -> Response:
    """``GET /api/models``: those that the request may see."""
    token = state.accounts.identify(request.headers.get("Authorization"))
    author, search = request.query.get("author"), request.query.get("search", "").lower()
    repos = [
        repo
        for repo in state.registry.all(kind.removesuffix("s"))
        if (not repo.meta.private or owns(state, token, repo))
        and author in (None, repo.namespace)
        and search in repo.id.lower()
    ]
    return json_response([repo_info(repo, request) for repo in repos])


def settings(state: HubState, request: Request, kind: str, repo_id: str) -> Response:
    """``PUT .../settings``: private or not, gated or not."""
    repo, body = open_repo(state, request, kind, repo_id, Need.WRITE), request.json()
    if "gated" in body:
        if body["gated"] not in ("auto", "manual", False):
            raise HubHTTPError(400, '"gated" must be "auto", "manual" or false')
        repo.change_meta(gated=body["gated"])
    if "visibility" in body or "private" in body:
        repo.change_meta(private=body.get("visibility") == "private" or body.get("private") is True)
    return json_response({"private": repo.meta.private, "gated": repo.meta.gated})


def grant_access(state: HubState, request: Request, kind: str, repo_id: str) -> Response:
    """``POST .../user-access-request/grant``: let a user through the gate."""
    repo, user = open_repo(state, request, kind, repo_id, Need.WRITE), required(request.json(), "user")
    if not repo.meta.gated:
        raise HubHTTPError(400, "This repo is not gated")
    if not state.accounts.knows(user):
        raise HubHTTPError(404, f"There is no user {user}")
    if user in repo.meta.granted:
        raise HubHTTPError(400, f"{user} already has access")
    repo.change_meta(granted=(*repo.meta.granted, user))
    return json_response({"success": True})


def auth_check(
    state: HubState, request: Request, kind: str, repo_id: str, write: str | None = None
) -> Response:
    """``GET .../auth-check`` and ``GET .../auth-check/write``."""
    open_repo(state, request, kind, repo_id, Need.FILES)
    if write:
        writer(state, request, kind, repo_id, Need.WRITE)
    return ok()


def no_xet(state: HubState, request: Request, kind: str, repo_id: str, revision: str) -> Response:
    """``GET .../xet-write-token/...``: the client would take this path if it were not told otherwise."""
    raise HubHTTPError(501, "This Hub speaks Git LFS only: set HF_HUB_DISABLE_XET=1 before importing")


def _kind(body: dict[str, Any]) -> str:
    kind = str(body.get("type") or "model")
    if kind not in KINDS:
        raise HubHTTPError(400, f"Unknown repo type: {kind}")
    return kind
