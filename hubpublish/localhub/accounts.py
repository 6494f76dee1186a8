"""Who is asking: tokens, users and their organizations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hubpublish.localhub.protocol import HubHTTPError


@dataclass(frozen=True)
class Token:
    """An access token.

    Attributes:
        user: Whom it speaks for.
        role: A ``read`` token never writes.
        repos: The only repo ids it has its user's rights in; None: all. A token that has such a
            scope cannot create repos.
        expires: Unix time in seconds; None: never.
    """

    user: str
    role: Literal["read", "write"] = "write"
    repos: frozenset[str] | None = None
    expires: float | None = None

    def covers(self, repo_id: str) -> bool:
        """Whether the token's scope has this repo in it."""
        return self.repos is None or repo_id in self.repos


DEFAULT_TOKENS: Mapping[str, Token] = {
    "hf_alice_write": Token("alice"),
    "hf_alice_read": Token("alice", "read"),
    "hf_bob_write": Token("bob"),
}
DEFAULT_ORGANIZATIONS: Mapping[str, frozenset[str]] = {"alice": frozenset({"acme"})}


class Accounts:
    """The tokens that the Hub accepts, and which organizations a user belongs to."""

    def __init__(self, tokens: Mapping[str, Token], organizations: Mapping[str, frozenset[str]]) -> None:
        self.tokens = dict(tokens)
        self.organizations = dict(organizations)

    def identify(self, authorization: str | None) -> Token | None:
        """The token of an ``Authorization`` header; None when there is none.

        Raises:
            HubHTTPError: 401 for a token that is unknown or expired.
        """
        if not authorization:
            return None
        token = self.tokens.get(authorization.removeprefix("Bearer ").strip())
        if token is None or (token.expires is not None and token.expires < time.time()):
            # The client tells a bad token from a missing repo by this very text.
            raise HubHTTPError(401, "Invalid credentials in Authorization header")
        return token

    def owns(self, token: Token | None, namespace: str) -> bool:
        """Whether a token's user is the namespace or a member of it."""
        if token is None:
            return False
        return token.user == namespace or namespace in self.organizations.get(token.user, ())

    def knows(self, user: str) -> bool:
        """Whether there is such a user."""
        return any(token.user == user for token in self.tokens.values())

    def redact(self, text: str) -> str:
        """The text with every known token blotted out."""
        for secret in sorted(self.tokens, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text
