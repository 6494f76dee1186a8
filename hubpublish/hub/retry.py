"""Ask again when the Hub or the network fails for a moment. For reads only: a commit is never repeated."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import TypeVar

import httpx2
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils._http import parse_ratelimit_headers

from hubpublish.hub.translate import root_of

T = TypeVar("T")

ATTEMPTS = 4
CONNECT_ATTEMPTS = 2  # no route or no server: that rarely passes in seconds
BASE_DELAY = 0.5  # seconds, doubled each time
LONGEST_WAIT = 60.0  # seconds; a rate limit that lasts longer is reported instead
_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_PERMANENT = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may well succeed in a moment."""
    root = root_of(error)
    if isinstance(root, HfHubHTTPError):
        return root.response.status_code in _STATUSES
    if isinstance(root, httpx2.TransportError):
        return not isinstance(root, _PERMANENT)
    return isinstance(root, OSError) and "Consistency check failed" in str(root)


def retried(call: Callable[[], T]) -> T:
    """The call's result; transient failures are tried again with growing waits.

    Raises whatever the last attempt raised.
    """
    attempt = 1
    while True:
        try:
            return call()
        except Exception as error:
            wait = _wait(error, attempt)
            if wait is None:
                raise
        sleep(wait)
        attempt += 1


def _wait(error: Exception, attempt: int) -> float | None:
    """Seconds until the next attempt, None when there is none."""
    root = root_of(error)
    unreachable = isinstance(root, httpx2.ConnectError | httpx2.ConnectTimeout)
    if not is_transient(error) or attempt >= (CONNECT_ATTEMPTS if unreachable else ATTEMPTS):
        return None
    asked = seconds_to_wait(root)
    if asked is None:
        return BASE_DELAY * 2.0 ** (attempt - 1)
    return asked if asked <= LONGEST_WAIT else None


def seconds_to_wait(error: BaseException) -> float | None:
    """What a 429 or 503 asks for: RateLimit or Retry-After header, in seconds."""
    if not isinstance(error, HfHubHTTPError):
        return None
    headers = error.response.headers
    limit = parse_ratelimit_headers(headers)
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    after = headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else None
