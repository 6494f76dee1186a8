"""Every exception of the Hub's client as one clear error: what, where, what to do."""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    OIDCError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hubpublish.errors import HubpublishError
from hubpublish.hub.causes import is_unreadable, latest_url, raised_in, root_of, seconds_to_wait, status_of
from hubpublish.hub.redact import redact, without_query

E = TypeVar("E", bound=HubpublishError)

_TOKEN_HINT = "check HF_TOKEN (or run `hf auth login`): the token may be missing, expired or revoked"
_NETWORK_HINT = "check the network, the proxy settings and the endpoint, then run again"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_EXCHANGE = "/oauth/token"  # where a keyless job's identity becomes a token
_UPLOAD_REFUSED = "LFS batch API returned errors:"
_LONGEST = 300  # characters of a server's message


@dataclass(frozen=True)
class _Reason:
    """Why something failed: a stable word, the end of the sentence, and what to do."""

    kind: str
    text: str
    hint: str


@contextmanager
def translated(error_class: type[HubpublishError], action: str, *, repo: str | None = None) -> Iterator[None]:
    """Turn what the client raises inside into one ``error_class``; our own errors pass unchanged.

    Args:
        error_class: SourceError or HubError.
        action: What is being done, as it follows "cannot", e.g. ``"fetch onnx/model.onnx"``.
        repo: The repo id, named in the message.
    """
    try:
        yield
    except HubpublishError:
        raise
    except Exception as error:
        # `from None`: the client's message may hold a signed URL, and a chain would print it.
        found = translate(error, error_class, action, repo=repo)
        if found is None:
            raise
        raise found from None


def translate(error: Exception, error_class: type[E], action: str, *, repo: str | None = None) -> E | None:
    """The error as ``translated`` would raise it; None if it is none of the client's."""
    root = root_of(error)
    reason = _reason(root)
    if reason is None:
        return None
    of = f" of {repo}" if repo else ""
    status = status_of(root)
    return error_class(
        f"cannot {action}{of}: {reason.text}",
        where=_where(root) or repo,
        hint=reason.hint,
        kind=reason.kind,
        details={} if status is None else {"status": status},
    )


def _where(error: BaseException) -> str | None:
    if is_unreadable(error):
        return without_query(latest_url() or "") or None
    if not isinstance(error, httpx2.HTTPError):
        return None
    try:
        # An HfHubHTTPError forgets its own request: its base class resets it.
        request = error.response.request if isinstance(error, HfHubHTTPError) else error.request
        return without_query(str(request.url))
    except RuntimeError:  # raised before there was a request
        return None


def _reason(error: BaseException) -> _Reason | None:
    if isinstance(error, HfHubHTTPError):
        return _not_found(error) or _by_status(error)
    return _network(error) or _local(error)


def _not_found(error: HfHubHTTPError) -> _Reason | None:
    if isinstance(error, GatedRepoError):
        return _Reason(
            "gated",
            "the repository is gated and this token has no access",
            "accept the conditions on the repository's page, then set HF_TOKEN to a token of that account",
        )
    if isinstance(error, DisabledRepoError):
        return _Reason("disabled", "the repository was disabled", "ask its author, or use another repository")
    if isinstance(error, RevisionNotFoundError):
        return _Reason(
            "revision_not_found", "there is no such revision", "name a branch, a tag or a full commit hash"
        )
    if isinstance(error, RemoteEntryNotFoundError):
        return _Reason(
            "file_not_found", "there is no such file at this revision", "check the path; it is case-sensitive"
        )
    if isinstance(error, RepositoryNotFoundError):
        return _Reason(
            "repo_not_found",
            "there is no such repository, or it is private and the token may not see it",
            "check the name; for a private repository set HF_TOKEN",
        )
    return None


def _by_status(error: HfHubHTTPError) -> _Reason:
    status, said = error.response.status_code, _said(error)
    if status < 500 and error.response.request.url.path == _EXCHANGE:
        return _Reason(
            "unauthorized",
            f"the Hub gives no token for the identity of this job{said}",
            "check HF_OIDC_RESOURCE, and the Trusted Publisher in the settings of that repo",
        )
    if status == 401:
        return _Reason("unauthorized", f"the Hub does not accept the token{said}", _TOKEN_HINT)
    if status == 403:
        return _Reason("forbidden", f"the token has no permission{said}", "use a token that has it")
    if status == 404:
        return _Reason("not_found", f"the Hub knows no such address{said}", "check names and endpoint")
    if status in (409, 412):
        return _Reason("conflict", f"it changed meanwhile{said}", "run again")
    if status == 408:
        return _Reason("timeout", f"the Hub waited in vain for the request{said}", _NETWORK_HINT)
    if status == 429:
        asked = seconds_to_wait(error.response)
        wait = "a few minutes" if asked is None else f"{math.ceil(asked)} seconds"
        return _Reason("rate_limited", f"too many requests{said}", f"wait {wait}, then run again")
    if status >= 500:
        return _Reason(
            "server_error", f"the Hub answered with status {status}{said}", "run again in a few minutes"
        )
    return _Reason("refused", f"the Hub refused it with status {status}{said}", "check the recipe's names")


def _network(error: BaseException) -> _Reason | None:
    if isinstance(error, OfflineModeIsEnabled):
        return _Reason("no_network", "offline mode is enabled", "unset HF_HUB_OFFLINE")
    if _is_about_the_token(error):
        return _Reason("unauthorized", "the token holds characters that no token has", _TOKEN_HINT)
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return _Reason("bad_endpoint", "the endpoint is not a URL", "give it as https://host")
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return _Reason("no_network", "no connection to the Hub", _NETWORK_HINT)
    if isinstance(error, httpx2.TimeoutException):
        return _Reason("timeout", "the Hub did not answer in time", _NETWORK_HINT)
    if isinstance(error, httpx2.HTTPError | ConnectionError):
        return _Reason("connection_lost", "the connection broke", _NETWORK_HINT)
    if isinstance(error, LocalEntryNotFoundError):
        return _Reason("no_network", "no connection to the Hub, and it is not in the cache", _NETWORK_HINT)
    if isinstance(error, ValueError) and str(error).startswith(_UPLOAD_REFUSED):
        said = _line(str(error).removeprefix(_UPLOAD_REFUSED))
        return _Reason(
            "refused", f"the Hub does not take an upload: {said}", "do what it says, then run again"
        )
    if is_unreadable(error):
        return _Reason(
            "not_a_hub",
            "what answers there is not a Hub, or its answer was garbled on the way",
            "check the endpoint and the proxy, then run again",
        )
    return None


def _is_about_the_token(error: BaseException) -> bool:
    """Whether a header could not be sent: of all that the client puts there, users write the token."""
    if isinstance(error, httpx2.LocalProtocolError):
        return "header" in str(error).lower()
    return isinstance(error, UnicodeEncodeError) and raised_in(error).startswith("httpx2.")


def _local(error: BaseException) -> _Reason | None:
    if isinstance(error, OIDCError | LocalTokenNotFoundError):
        return _Reason("unauthorized", _line(str(error)), _TOKEN_HINT)
    if isinstance(error, HFValidationError):
        return _Reason("bad_name", _line(str(error)), "write it as namespace/name")
    if not isinstance(error, OSError):
        return None
    if "Consistency check failed" in str(error):
        return _Reason("corrupt_download", "what arrived has the wrong size", "run again")
    if error.errno in _FULL:
        return _Reason(
            "disk_full", f"no space left{_at(error)}", "free some space, or use another cache folder"
        )
    if error.errno is not None:
        return _Reason(
            "cache_not_writable",
            f"cannot write{_at(error)}: {error.strerror or error}",
            "make the folder writable, or use another cache folder",
        )
    return None


def _at(error: OSError) -> str:
    path = error.filename2 or error.filename  # of two, the second is written
    return f" at {path}" if path else ""


def _said(error: HfHubHTTPError) -> str:
    message = _line(error.server_message or "")
    return f" ({message})" if message else ""


def _line(text: str) -> str:
    line = " ".join(redact(text).split()).rstrip(".")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
