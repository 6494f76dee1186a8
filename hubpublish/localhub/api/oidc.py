"""Trusted publishing: a CI job proves who it is and gets a token for one repo, for an hour.

The identity provider is played here too. It vouches for whatever ``sub`` claim is given to it as its
bearer token, so a test chooses which job it is. Nothing is signed.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
from typing import Any

from hubpublish.localhub.accounts import Token
from hubpublish.localhub.protocol import HubHTTPError, Request, Response, json_response, required
from hubpublish.localhub.state import HubState

IDENTITY_PATH = "/_identity"
_ISSUER = "https://token.actions.githubusercontent.com"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_LIFETIME_SECONDS = 3600


def identity_token(state: HubState, request: Request) -> Response:
    """``GET /_identity?audience=...``: the id token of a CI job, as GitHub Actions gives it out."""
    subject = (request.headers.get("Authorization") or "").removeprefix("Bearer ").strip()
    claims = {"iss": _ISSUER, "aud": request.query.get("audience", ""), "sub": subject}
    return json_response({"value": f"{_segment({'alg': 'none'})}.{_segment(claims)}."})


def exchange(state: HubState, request: Request) -> Response:
    """``POST /oauth/token``: an id token for a Hub token (RFC 8693)."""
    body = request.json()
    claims = _claims(required(body, "subject_token"))
    resource = required(body, "resource")
    trusted = state.publishers.get(resource)
    fits = body.get("grant_type") == _EXCHANGE and claims.get("aud") == state.endpoint
    if not fits or trusted is None or claims.get("sub") != trusted:
        raise _refused("no trusted publisher matches")
    repo_id = "/".join(resource.split("/")[-2:])
    secret = f"hf_jwt_{secrets.token_hex(16)}"
    expires = time.time() + _LIFETIME_SECONDS
    state.accounts.tokens[secret] = Token(
        repo_id.split("/")[0], "write", repos=frozenset({repo_id}), expires=expires
    )
    return json_response({"access_token": secret, "token_type": "bearer", "expires_in": _LIFETIME_SECONDS})


def _segment(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def _claims(token: str) -> dict[str, Any]:
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    except (IndexError, ValueError, binascii.Error) as error:
        raise _refused("the subject token is no JWT") from error
    if not isinstance(claims, dict):
        raise _refused("the subject token is no JWT")
    return claims


def _refused(why: str) -> HubHTTPError:
    return HubHTTPError(400, why, body={"error": "invalid_grant", "error_description": why})
