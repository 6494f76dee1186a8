"""May this token write there? Asked first, before anything costs time."""

from __future__ import annotations

from dataclasses import dataclass

from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.utils import get_token_to_send

from hubpublish.errors import HubError
from hubpublish.hub import may_have_landed, retried, status_of, translated


@dataclass(frozen=True)
class Account:
    """Who a token belongs to; ``role`` is read, write or fineGrained."""

    name: str
    role: str


def whoami(api: HfApi) -> Account:
    """The account behind the token.

    Raises:
        HubError: ``unauthorized``, no network.
    """
    with translated(HubError, "ask who the token belongs to"):
        found = retried(lambda: api.whoami(cache=True))  # asked often, and the Hub limits it
    try:
        token = (found.get("auth") or {}).get("accessToken") or {}
        return Account(str(found["name"]), str(token.get("role", "")))
    except (AttributeError, KeyError):
        raise HubError(
            "the Hub does not say who the token belongs to",
            where=api.endpoint,
            hint="check the endpoint and the proxy, then run again",
            kind="not_a_hub",
        ) from None


def require_write_token(api: HfApi, repo: str) -> None:
    """Make sure that there is a token, and that it is not one that may only read.

    That is all that can be asked about a repo that does not exist yet.

    Raises:
        HubError: ``unauthorized``, ``read_only_token``.
    """
    _require_token(api, repo)
    if whoami(api).role == "read":
        raise _read_only(repo)


def ensure_target(
    api: HfApi, repo: str, *, create: bool = False, private: bool = False, as_pr: bool = False
) -> None:
    """Make sure that the target exists and that the token may publish to it.

    The write access is checked first: to create a repo that exists "succeeds" with a token that may
    only read. A pull request needs no write access to the repo.

    Raises:
        HubError: ``unauthorized``, ``read_only_token``, ``forbidden``, ``repo_not_found``.
    """
    _require_token(api, repo)
    if as_pr:
        require_write_token(api, repo)
    try:
        with translated(HubError, f"publish to {repo}"):
            try:
                retried(lambda: api.auth_check(repo, write=not as_pr))
            except RepositoryNotFoundError as error:
                if error.response.status_code == 401 or not create:
                    raise
                _create(api, repo, private)
    except HubError as error:
        raise explained(api, repo, error) from None


def _create(api: HfApi, repo: str, private: bool) -> None:
    try:
        api.create_repo(repo, private=private, exist_ok=False)
    except Exception as error:
        faster = status_of(error) == 409  # somebody else was
        if not faster and not (may_have_landed(error) and retried(lambda: api.repo_exists(repo))):
            raise
    retried(lambda: api.auth_check(repo, write=True))


def _require_token(api: HfApi, repo: str) -> None:
    with translated(HubError, "find a token"):
        token = get_token_to_send(api.token)
    if token is None:
        raise HubError(
            f"publishing to {repo} needs a token, and there is none",
            where=api.endpoint,
            hint="set HF_TOKEN to a token with write access, or run `hf auth login`",
            kind="unauthorized",
        )


def explained(api: HfApi, repo: str, error: HubError) -> HubError:
    """The error, made precise where the Hub's answer alone is not."""
    if error.kind == "forbidden" and _may_only_read(api):
        return _read_only(repo)
    if error.kind == "repo_not_found" and error.details.get("status") == 401:
        # Over https the client takes any 401 for a missing repo; here the token is what is wrong.
        hint = "set HF_TOKEN to a valid token with write access to the repo"
        text = f"cannot publish to {repo}: the Hub does not accept the token"
        return HubError(text, where=error.where, hint=hint, kind="unauthorized", details=error.details)
    if error.kind == "repo_not_found":
        hint = "check the name, create the repo, or let the recipe do it: `target: {create: true}`"
        return HubError(error.what, where=error.where, hint=hint, kind=error.kind, details=error.details)
    return error


def _may_only_read(api: HfApi) -> bool:
    try:
        return whoami(api).role == "read"
    except HubError:
        return False


def _read_only(repo: str) -> HubError:
    return HubError(
        f"the token may only read, so nothing can be published to {repo}",
        where=repo,
        hint="set HF_TOKEN to a token with write access",
        kind="read_only_token",
    )
