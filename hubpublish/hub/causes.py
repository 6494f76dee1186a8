"""What an exception of the client says: the cause behind it, its status, whether waiting may help."""

from __future__ import annotations

import json
import threading
import traceback

import httpx2
from huggingface_hub.errors import FileMetadataError, HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.utils import parse_ratelimit_headers

# What code raises that takes an answer apart without a look at it.
_PARSING = (KeyError, IndexError, TypeError, AttributeError)
# Where, or with which words, it raises a ValueError because of an answer and not of an argument.
_DATES = frozenset({"huggingface_hub.utils._datetime", "_strptime"})
_OF_ANSWERS = ("improperly formatted", "Malformed response", "Invalid server response", "Invalid etag")
_latest = threading.local()


def root_of(error: BaseException) -> BaseException:
    """The exception that says why: the client wraps it when it looks into its cache, or uploads."""
    while error.__cause__ is not None and (
        isinstance(error, LocalEntryNotFoundError) or type(error) in (ValueError, RuntimeError)
    ):
        error = error.__cause__
    return error


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception carries, if any."""
    root = root_of(error)
    return root.response.status_code if isinstance(root, HfHubHTTPError) else None


def seconds_to_wait(response: httpx2.Response) -> float | None:
    """What an answer asks for: RateLimit (of a 429) or Retry-After header, in seconds."""
    limit = parse_ratelimit_headers(response.headers) if response.status_code == 429 else None
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    after = response.headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else None


def is_unreadable(error: BaseException) -> bool:
    """Whether an answer came that the client can make nothing of: garbled on the way, or not a Hub's.

    The client checks nothing that it parses. An exception of the kinds that bugs raise is the answer's
    fault where the client's own code raised it, and a bug of ours anywhere else.
    """
    root = root_of(error)
    if isinstance(root, FileMetadataError | json.JSONDecodeError | UnicodeDecodeError):
        return True
    if isinstance(root, _PARSING):
        return raised_in(root).startswith("huggingface_hub.")
    if not isinstance(root, ValueError):
        return False
    return raised_in(root) in _DATES or any(words in str(root) for words in _OF_ANSWERS)


def raised_in(error: BaseException) -> str:
    """The name of the module whose code raised it."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return modules[-1] if modules else ""


def note_request(request: httpx2.Request) -> None:
    """Keep in mind what this thread asked for last: an answer that cannot be read does not say."""
    _latest.url = str(request.url)


def latest_url() -> str | None:
    """What this thread asked for last."""
    return getattr(_latest, "url", None)


def may_have_landed(error: BaseException) -> bool:
    """Whether the Hub may have done what it was asked, although no answer says so."""
    status = status_of(error)
    return (
        isinstance(root_of(error), httpx2.TransportError)
        or is_unreadable(error)
        or (status is not None and (status == 408 or status >= 500))
    )
