"""What the endpoints work on: everything the Hub keeps while it runs."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hubpublish.localhub.accounts import Accounts, Token
from hubpublish.localhub.faults import Faults
from hubpublish.localhub.lfs import LfsStore
from hubpublish.localhub.protocol import HubHTTPError
from hubpublish.localhub.registry import Registry


@dataclass(frozen=True)
class LogEntry:
    """One request that was answered, or cut off.

    Attributes:
        method: HTTP method.
        path: Path and query as they came, percent-encoded; tokens blotted out.
        status: Status of the answer; 0 when there was none.
        fault: Action of the fault that struck it.
        request_bytes: Size of the request's body.
        has_auth: Whether it came with an Authorization header.
        range: Its Range header.
    """

    method: str
    path: str
    status: int
    fault: str | None
    request_bytes: int
    has_auth: bool
    range: str | None


class HubState:
    """Repos, large files, accounts, rules for faults, and what happened.

    Attributes:
        endpoint: The Hub's URL; set when it starts.
        storage: The URL of the storage of large files: the endpoint, or a server of its own.
        lfs_part_size: Bytes of a part; larger files come in parts. None: none does.
        publishers: Trusted publishers: repo id to the one ``sub`` claim that may publish to it.
        log: Requests, oldest first.
        errors: Tracebacks of bugs in the Hub itself.
    """

    def __init__(
        self,
        root: Path,
        tokens: Mapping[str, Token],
        organizations: Mapping[str, frozenset[str]],
        lfs_part_size: int | None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.accounts = Accounts(tokens, organizations)
        self.lfs = LfsStore(root)
        self.registry = Registry(root)
        self.lfs_part_size = lfs_part_size
        self.publishers: dict[str, str] = {}
        self.faults = Faults()
        self.log: list[LogEntry] = []
        self.errors: list[str] = []
        self.endpoint = ""
        self.storage = ""
        self._key = secrets.token_bytes(32)

    @property
    def separate_storage(self) -> bool:
        return self.storage != self.endpoint

    def signed(self, base: str, path: str) -> str:
        """A URL that works without a token, as those of the Hub's storage do."""
        return f"{base}{path}?sig={self._signature(path)}"

    def check_signature(self, path: str, signature: str | None) -> None:
        """Refuse a storage URL that the Hub did not hand out.

        Raises:
            HubHTTPError: 403.
        """
        if not hmac.compare_digest((signature or "").encode(), self._signature(path).encode()):
            raise HubHTTPError(403, "SignatureDoesNotMatch")

    def _signature(self, path: str) -> str:
        return hmac.new(self._key, path.encode(), hashlib.sha256).hexdigest()[:32]
