"""A job that proves who it is instead of holding a token (Trusted Publishers): when the proof is used.

The client exchanges the identity of a job for a token of one repo at its first request, and the token
lives an hour. So whatever comes before publishing, and may take longer, is done without it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from huggingface_hub import HfApi, constants

from hubpublish.errors import UsageError
from hubpublish.hub.client import connect
from hubpublish.hub.redact import without_query

RESOURCE = "HF_OIDC_RESOURCE"  # the repo that the token will be for


@dataclass(frozen=True)
class Access:
    """The Hub, as a run meets it.

    Attributes:
        read: For all that comes before publishing.
        target: To look at the target with; as ``read``, unless only ``write`` sees it.
        write: For publishing; the same client, unless keyless.
        keyless: Whether ``write`` exchanges the job's identity at its first request.
    """

    read: HfApi
    target: HfApi
    write: HfApi
    keyless: bool


def access(endpoint: str | None, token: str | bool | None) -> Access:
    """Clients for a run; see `hubpublish.hub.connect` for the arguments.

    A keyless job reads anonymously, or with ``HF_TOKEN`` if it is set too (for a gated source).

    Raises:
        UsageError: ``bad_endpoint``.
    """
    write = connect(endpoint, token)
    if token is not None or not os.environ.get(RESOURCE):
        return Access(write, write, write, keyless=False)
    read = connect(endpoint, os.environ.get("HF_TOKEN") or False)
    return Access(read, read, write, keyless=True)


def require_exchange_for(api: HfApi, repo: str) -> None:
    """Make sure that the identity of this job will be exchanged where, and for what, it is meant.

    Raises:
        UsageError: ``bad_endpoint``: the client exchanges it at HF_ENDPOINT, whatever ``api`` talks to;
            ``oidc_resource``: the token would be another repo's.
    """
    if api.endpoint != constants.ENDPOINT.rstrip("/"):
        raise UsageError(
            f"the job's identity would be exchanged at {without_query(constants.ENDPOINT)}, "
            f"and the token used at {without_query(api.endpoint)}",
            hint="name the Hub by HF_ENDPOINT instead of --endpoint",
            kind="bad_endpoint",
        )
    resource = os.environ.get(RESOURCE, "")
    if resource.removeprefix("models/") != repo:
        raise UsageError(
            f"{RESOURCE} is {resource!r}, but what is published goes to {repo}",
            hint=f"set {RESOURCE} to the target: the token is for that repo alone",
            kind="oidc_resource",
        )
