"""A Hub on this machine: `LocalHub` for programs and tests, `serve` for the command line."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hubpublish.errors import UsageError
from hubpublish.localhub.accounts import DEFAULT_ORGANIZATIONS, DEFAULT_TOKENS, Token
from hubpublish.localhub.api.oidc import IDENTITY_PATH
from hubpublish.localhub.connection import Connection
from hubpublish.localhub.faults import Fault, Faults, make_fault
from hubpublish.localhub.routes import HUB_ROUTES, STORAGE_ROUTES, Route
from hubpublish.localhub.state import HubState, LogEntry

HOST = "127.0.0.1"


class LocalHub:
    """A Hugging Face Hub that only this machine can reach, for the unmodified client.

    Every repo is a git repository below ``root``, which outlives the Hub: a second one on the same
    root serves the same repos. It starts with ``with LocalHub(root) as hub:`` or `start`.

    Args:
        root: Folder for everything it keeps; made if it is not there.
        port: TCP port; 0: any that is free.
        tokens: Access tokens; by default a write and a read token of user ``alice`` (``hf_alice_write``,
            ``hf_alice_read``) and a write token of ``bob`` (``hf_bob_write``).
        organizations: User to the organizations it belongs to; by default ``alice`` to ``acme``.
        separate_cdn: Serve large files from a second origin, by redirect, as the real Hub does.
        lfs_part_size: Uploads of more bytes come in parts of this size; None: in one piece.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        port: int = 0,
        tokens: Mapping[str, Token] | None = None,
        organizations: Mapping[str, frozenset[str]] | None = None,
        separate_cdn: bool = False,
        lfs_part_size: int | None = None,
    ) -> None:
        self.state = HubState(
            _usable_root(Path(root)),
            DEFAULT_TOKENS if tokens is None else tokens,
            DEFAULT_ORGANIZATIONS if organizations is None else organizations,
            lfs_part_size,
        )
        self._port = port
        self._separate_cdn = separate_cdn
        self._servers: list[_Server] = []

    # -- running

    def start(self) -> Self:
        """Serve, on threads of its own, until `stop`.

        Raises:
            UsageError: The port is taken.
        """
        if self._servers:
            return self
        own = HUB_ROUTES if self._separate_cdn else STORAGE_ROUTES + HUB_ROUTES
        self._servers.append(_Server(self.state, own, self._port))
        if self._separate_cdn:
            self._servers.append(_Server(self.state, STORAGE_ROUTES, 0))
        self.state.endpoint = self._servers[0].url
        self.state.storage = self._servers[-1].url
        for server in self._servers:
            server.run()
        return self

    def stop(self) -> None:
        """Stop serving, and cut what is under way."""
        while self._servers:
            self._servers.pop().end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """The URL to give to the client, such as ``http://127.0.0.1:40123``."""
        if not self.state.endpoint:
            raise RuntimeError("the local Hub has no endpoint before it is started")
        return self.state.endpoint

    # -- what it is made to do

    def fault(self, pattern: str, action: str, times: int | None = 1, skip: int = 0, **options: Any) -> Fault:
        """Make requests go wrong. The rule is returned, and in `faults` to be taken out again.

        ==============  ============================================  ==================================
        action          what happens                                  options
        ==============  ============================================  ==================================
        status          an error instead of the work                  status (503), headers, body
        reset           the connection breaks before the work         none
        truncate        the body ends early                           after (bytes; half of it)
        corrupt         the body's last byte is another               none
        slow            the body takes its time                       delay (seconds per 64 KiB; 0.05)
        hang            nothing happens for a while                   seconds (30)
        drop_response   the work is done, then the connection breaks  none
        ==============  ============================================  ==================================

        Args:
            pattern: Regular expression, searched for in ``METHOD /raw/path?query``.
            action: See above.
            times: How often; None: always.
            skip: How many requests that match pass before.
            **options: The action's options.

        Raises:
            ValueError: An unknown action or option, or a value that it cannot take.
        """
        fault = make_fault(pattern, action, times, skip, options)
        self.faults.append(fault)
        return fault

    @property
    def faults(self) -> Faults:
        """The rules that were made, spent ones too."""
        return self.state.faults

    @property
    def tokens(self) -> dict[str, Token]:
        """The access tokens; add to them freely."""
        return self.state.accounts.tokens

    @property
    def publishers(self) -> dict[str, str]:
        """Trusted publishers: repo id to the ``sub`` claim that may publish to it; add to them freely."""
        return self.state.publishers

    @property
    def identity_url(self) -> str:
        """A stand-in for ``ACTIONS_ID_TOKEN_REQUEST_URL``; its request token is the ``sub`` claim."""
        return self.endpoint + IDENTITY_PATH

    @property
    def lfs_part_size(self) -> int | None:
        """Uploads of more bytes come in parts of this size; None: in one piece."""
        return self.state.lfs_part_size

    @lfs_part_size.setter
    def lfs_part_size(self, size: int | None) -> None:
        self.state.lfs_part_size = size

    # -- what it saw

    @property
    def log(self) -> list[LogEntry]:
        """The requests so far, oldest first, without tokens."""
        return self.state.log

    def requests(self, pattern: str) -> list[LogEntry]:
        """Those requests of the log whose ``METHOD /raw/path?query`` the pattern is found in."""
        return [entry for entry in list(self.log) if re.search(pattern, f"{entry.method} {entry.path}")]

    @property
    def errors(self) -> list[str]:
        """Tracebacks of bugs in the Hub itself; each was answered with a 500."""
        return self.state.errors


def _print_at_once(line: str) -> None:
    # Whoever started the Hub through a pipe waits for the endpoint.
    print(line, flush=True)


def serve(root: Path | str, port: int = 0, *, announce: Callable[[str], None] = _print_at_once) -> None:
    """Serve a Hub until interrupted (Ctrl-C), with the tokens of `LocalHub`.

    Args:
        root: See `LocalHub`.
        port: See `LocalHub`.
        announce: Gets the lines that tell a person where it is and how to use it.

    Raises:
        UsageError: The folder cannot be used, the port is taken, or there is no git.
    """
    with LocalHub(root, port=port) as hub:
        announce(f"Local Hub at {hub.endpoint} (files in {hub.state.root})")
        announce(f"To use it: export HF_ENDPOINT={hub.endpoint} HF_TOKEN=hf_alice_write HF_HUB_DISABLE_XET=1")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            announce("Stopped.")
        for error in hub.errors:
            announce(error)


def _usable_root(root: Path) -> Path:
    if shutil.which("git") is None:
        raise UsageError("the local Hub needs git, and there is none", hint="install git")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"the local Hub cannot keep its files there: {reason}",
            where=str(root),
            hint="name another folder with --root",
        ) from error
    return root.resolve()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A listening socket, a thread that accepts, and one thread a connection."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, state: HubState, routes: Sequence[Route], port: int) -> None:
        self._state = state
        self._stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        bound = {"state": state, "routes": routes, "stopping": self._stopping}
        try:
            super().__init__((HOST, port), type("BoundConnection", (Connection,), bound))
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}",
                hint="name another with --port, or 0 for any that is free",
            ) from error

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

    def run(self) -> None:
        """Accept, on a thread of its own, until `end`."""
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            self.handle_request()

    def end(self) -> None:
        """Stop accepting, cut every connection, and wait for their threads for a while."""
        self._stopping.set()
        # The acceptor waits for a connection: this is its last one.
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, self.server_address[1]), timeout=1).close()
        self._acceptor.join(timeout=10)
        self.server_close()
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, timeout=10)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self._stopping.is_set()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what went wrong outside of an endpoint; a client that goes away is nothing wrong."""
        if not self._stopping.is_set() and not isinstance(sys.exception(), ConnectionError):
            self._state.errors.append(self._state.accounts.redact(traceback.format_exc()))


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
