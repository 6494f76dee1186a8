"""Ask again when the Hub or the network fails for a moment. For reads only: a commit is never repeated."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import TypeVar

import httpx2
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import hf_raise_for_status

from hubpublish.hub.causes import is_unreadable, root_of, seconds_to_wait

T = TypeVar("T")

ATTEMPTS = 4
FEW_ATTEMPTS = 2  # no route, no server, an answer that makes no sense: that rarely passes in seconds
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
    if is_unreadable(error):
        return True
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


def refuse_long_wait(response: httpx2.Response) -> None:
    """Raise for an answer that asks to wait for longer than `LONGEST_WAIT`.

    The client repeats some requests by itself, and would wait for as long as it is told.

    Raises:
        HfHubHTTPError: As if the client had given up.
    """
    if response.status_code in _STATUSES and (seconds_to_wait(response) or 0.0) > LONGEST_WAIT:
        hf_raise_for_status(response)


def _wait(error: Exception, attempt: int) -> float | None:
    """Seconds until the next attempt, None when there is none."""
    root = root_of(error)
    rarely_passes = isinstance(root, httpx2.ConnectError | httpx2.ConnectTimeout) or is_unreadable(error)
    if not is_transient(error) or attempt >= (FEW_ATTEMPTS if rarely_passes else ATTEMPTS):
        return None
    asked = seconds_to_wait(root.response) if isinstance(root, HfHubHTTPError) else None
    if asked is None:
        return BASE_DELAY * 2.0 ** (attempt - 1)
    return asked if asked <= LONGEST_WAIT else None
