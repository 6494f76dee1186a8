"""The client, set up the same way everywhere: bounded waits, no telemetry, no secrets in logs."""

from __future__ import annotations

import re
import sys
import warnings

import httpx2
from huggingface_hub import HfApi, constants, set_client_factory
from huggingface_hub.utils import (
    build_hf_headers,
    disable_progress_bars,
    enable_progress_bars,
    get_session,
    hf_raise_for_status,
)
from huggingface_hub.utils._http import default_client_factory

import hubpublish
from hubpublish.errors import HubError, UsageError
from hubpublish.hub.causes import note_request
from hubpublish.hub.redact import guard_logs, redact, remember, without_query
from hubpublish.hub.retry import refuse_long_wait, retried
from hubpublish.hub.translate import translated

DEFAULT_ENDPOINT = "https://huggingface.co"
CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 120.0  # seconds without a byte; the Hub answers a commit of many files late
LIBRARY = "hubpublish"

_ENDPOINT = re.compile(r"https?://[^/?#\s]+(/[^?#\s]*)?")
_xet_disabled_by_user = constants.HF_HUB_DISABLE_XET
_installed_timeout: float | None = None


def connect(endpoint: str | None, token: str | bool | None, *, timeout: float = READ_TIMEOUT) -> HfApi:
    """An API client for one endpoint.

    Args:
        endpoint: Base URL; None: ``HF_ENDPOINT``, else the public Hub.
        token: A token; None: the machine's own (keyless, ``HF_TOKEN``, ``hf auth login``); False: none.
        timeout: Seconds that a read or write may stall; the client's own default is to wait for ever.

    Raises:
        UsageError: ``bad_endpoint``.
    """
    url = (constants.ENDPOINT if endpoint is None else endpoint).rstrip("/")
    if not _ENDPOINT.fullmatch(url):
        raise UsageError(
            f"the endpoint {redact(without_query(url))!r} is not the address of a Hub",
            hint="give --endpoint, or HF_ENDPOINT, as https://host",
            kind="bad_endpoint",
        )
    guard_logs()
    # Its warnings (of little room, of the card) come before an error of ours that says it, or are told by us.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"huggingface_hub\.")
    _bound_waits(timeout)
    # The client reads these two environment variables when it is imported, and the constants at each
    # call: to set the constants works in either order. Only the public Hub speaks xet, and the client
    # has no fallback where a Hub does not.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    constants.HF_HUB_DISABLE_XET = _xet_disabled_by_user or url != DEFAULT_ENDPOINT
    _show_progress(sys.stderr is not None and sys.stderr.isatty())
    return HfApi(endpoint=url, token=token, library_name=LIBRARY, library_version=hubpublish.__version__)


def request_headers(api: HfApi, *, anonymous: bool = False) -> dict[str, str]:
    """Headers for a request of our own, as the client would send them."""
    return dict(
        build_hf_headers(
            token=False if anonymous else api.token,
            library_name=api.library_name,
            library_version=api.library_version,
        )
    )


def validate_card(api: HfApi, text: str) -> list[str]:
    """Have the Hub check a model card's metadata; returns its warnings. Needs no token.

    ``RepoCard.validate`` would ask the global endpoint, not the one that ``api`` talks to.

    Raises:
        HubError: ``card_invalid``, with the Hub's words.
    """
    url = f"{api.endpoint}/api/validate-yaml"
    body = {"content": text, "repoType": "model"}

    def ask() -> tuple[int, object]:
        response = get_session().post(url, json=body, headers=request_headers(api, anonymous=True))
        if response.status_code != 400:
            hf_raise_for_status(response)
        return response.status_code, response.json()

    with translated(HubError, "validate the model card"):
        status, found = retried(ask)
    if status == 400:
        why = "; ".join(_messages(found, "errors")) or "no reason given"
        raise HubError(
            f"the Hub refuses the model card's metadata: {why}",
            where="README.md",
            hint="correct the recipe's card section",
            kind="card_invalid",
        )
    return _messages(found, "warnings")


def _messages(answer: object, key: str) -> list[str]:
    entries = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return []
    texts = [str(entry.get("message")) for entry in entries if isinstance(entry, dict)]
    return [" ".join(redact(text).split()) for text in texts]


def _remember_token(request: httpx2.Request) -> None:
    # Wherever it came from: a keyless one is not known before it is sent, and a server may repeat it.
    remember(request.headers.get("Authorization", "").removeprefix("Bearer ").strip())


def _bound_waits(timeout: float) -> None:
    global _installed_timeout
    if timeout == _installed_timeout:
        return  # setting the factory closes the session, which another thread may be using

    limits = httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))

    def bound(request: httpx2.Request) -> None:
        # Some of the client's calls pass `timeout=None`, which overrides the session's.
        asked = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {
            name: limit if asked.get(name) is None else asked[name]
            for name, limit in limits.as_dict().items()
        }

    def bounded() -> httpx2.Client:
        client = default_client_factory()
        client.timeout = limits
        hooks = client.event_hooks
        client.event_hooks = {
            "request": [_remember_token, note_request, *hooks["request"], bound],
            "response": [*hooks["response"], refuse_long_wait],
        }
        return client

    set_client_factory(bounded)
    _installed_timeout = timeout


def _show_progress(wanted: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the environment variable has priority, and the client says so
        if wanted:
            enable_progress_bars()
        else:
            disable_progress_bars()
