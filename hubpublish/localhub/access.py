"""Who may do what with which repo, with the status and code that the Hub refuses with."""

from __future__ import annotations

from enum import Enum

from hubpublish.localhub.accounts import Token
from hubpublish.localhub.protocol import HubHTTPError, Request
from hubpublish.localhub.repo import Repo
from hubpublish.localhub.state import HubState

SIGN_IN = "Invalid username or password."


class Need(Enum):
    """What a request wants of a repo."""

    SEE = "see that it is there, its tree and its history"
    FILES = "read its files (a gated repo asks for more than seeing it)"
    PROPOSE = "open discussions and pull requests, and comment"
    WRITE = "change it"


def signed_in(state: HubState, request: Request) -> Token:
    """The token of a request that needs one.

    Raises:
        HubHTTPError: 401.
    """
    token = state.accounts.identify(request.headers.get("Authorization"))
    if token is None:
        raise HubHTTPError(401, SIGN_IN)
    return token


def owns(state: HubState, token: Token | None, repo: Repo) -> bool:
    """Whether a token has an owner's rights in a repo."""
    return token is not None and token.covers(repo.id) and state.accounts.owns(token, repo.namespace)


def visible_repo(state: HubState, request: Request, kind: str, repo_id: str) -> tuple[Repo, Token | None]:
    """A repo that the request may see, and its token if it has one.

    Raises:
        HubHTTPError: 307 to where it moved, 401 or 404 when there is none to be seen.
    """
    token = state.accounts.identify(request.headers.get("Authorization"))
    repo = state.registry.get(kind, repo_id)
    if repo and (not repo.meta.private or owns(state, token, repo)):
        return repo, token
    new_id = None if repo else state.registry.moved_to(kind, repo_id)
    if new_id and repo_id in request.target:
        location = request.target.replace(repo_id, new_id, 1)
        raise HubHTTPError(307, f"Moved to {new_id}", headers={"Location": location})
    # Without a token the Hub does not tell a missing repo from a private one. The code is a must:
    # on plain http the client does not infer a missing repo from a 401.
    raise HubHTTPError(404 if token else 401, "Repository not found", "RepoNotFound")


def open_repo(state: HubState, request: Request, kind: str, repo_id: str, need: Need = Need.SEE) -> Repo:
    """A repo, for one who may do that with it.

    The kind is the path's: ``models``, ``datasets``, ``spaces`` or ``kernels``.

    Raises:
        HubHTTPError: 307, 401, 403 or 404.
    """
    repo, token = visible_repo(state, request, kind.removesuffix("s"), repo_id)
    if need is Need.FILES:
        _check_gate(state, token, repo)
    if need in (Need.PROPOSE, Need.WRITE):
        _check_writer(state, token, repo, need)
    return repo


def writer(state: HubState, request: Request, kind: str, repo_id: str, need: Need) -> tuple[Repo, str]:
    """`open_repo` for one who writes, and the writer's name."""
    repo = open_repo(state, request, kind, repo_id, need)
    return repo, signed_in(state, request).user


def _check_gate(state: HubState, token: Token | None, repo: Repo) -> None:
    if not repo.meta.gated or owns(state, token, repo):
        return
    if token is None:
        message = f"Access to {repo.kind} {repo.id} is restricted. You must be authenticated to access it."
        raise HubHTTPError(401, message, "GatedRepo")
    if token.user not in repo.meta.granted:
        message = f"Access to {repo.kind} {repo.id} is restricted and you are not in the authorized list."
        raise HubHTTPError(403, message, "GatedRepo")


def _check_writer(state: HubState, token: Token | None, repo: Repo, need: Need) -> None:
    if token is None:
        raise HubHTTPError(401, SIGN_IN)
    if token.role == "read":
        raise HubHTTPError(403, "Forbidden: you must use a write token to upload to a repository.")
    if not token.covers(repo.id) or (need is Need.WRITE and not owns(state, token, repo)):
        raise HubHTTPError(
            403, f"You don't have the required permissions to perform this action on {repo.id}"
        )
