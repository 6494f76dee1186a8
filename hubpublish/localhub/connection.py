"""One connection: read requests, answer them, and let faults strike."""

from __future__ import annotations

import io
import re
import secrets
import socket
import struct
import threading
import traceback
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from hubpublish.localhub.faults import Fault, corrupted, truncated
from hubpublish.localhub.protocol import (
    BLOCK_BYTES,
    BodyStream,
    HubHTTPError,
    Request,
    Response,
    error_response,
)
from hubpublish.localhub.routes import Route, dispatch
from hubpublish.localhub.state import HubState, LogEntry

_SLOW_BLOCK_BYTES = 64 * 1024
_EXPOSED = (
    "X-Repo-Commit, X-Request-Id, X-Error-Code, X-Error-Message, ETag, Link, Accept-Ranges, "
    "Content-Range, Content-Length, X-Linked-Size, X-Linked-Etag"
)
# A page from any origin may load files. It may not send a token: those of a local Hub are well known.
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": _EXPOSED,
    "Cross-Origin-Resource-Policy": "cross-origin",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Range, Content-Type, If-None-Match, User-Agent, X-Requested-With",
    "Access-Control-Allow-Private-Network": "true",
    "Access-Control-Max-Age": "600",
}


class Connection(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "hubpublish-localhub"
    sys_version = ""

    state: ClassVar[HubState]
    routes: ClassVar[Sequence[Route]]
    stopping: ClassVar[threading.Event]

    def _serve(self) -> None:
        fault = self.state.faults.take(f"{self.command} {self.path}")
        stream = BodyStream(self.rfile, self.headers)
        try:
            self._exchange(stream, fault)
        except (ConnectionError, TimeoutError):
            self._log(0, stream, fault)
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _serve  # noqa: N815

    def _exchange(self, stream: BodyStream, fault: Fault | None) -> None:
        action = fault.action if fault else None
        if fault and action == "hang":
            self.stopping.wait(fault.options.get("seconds", 30))
        if action == "reset" or (action == "hang" and self.stopping.is_set()):
            self._log(0, stream, fault)
            self._cut()
            return
        body: io.BufferedReader = io.BufferedReader(stream, BLOCK_BYTES)
        response = self._answer(body, fault)
        # A client that is still sending does not listen yet, and the next request comes after this body.
        while body.read(BLOCK_BYTES):
            pass
        self._log(response.status, stream, fault)
        if action == "drop_response":
            self._cut()
            return
        try:
            self._send(response, fault)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _answer(self, body: io.BufferedReader, fault: Fault | None) -> Response:
        try:
            if fault and fault.action == "status":
                return _injected(fault)
            if self.command == "OPTIONS":
                return Response(204, headers=dict(_PREFLIGHT))
            url = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            request = Request(self.command, self.path, url.path, query, self.headers, body)
            return dispatch(self.routes, self.state, request)
        except HubHTTPError as error:
            return error_response(error)
        except ConnectionError:
            raise
        except Exception as error:
            self.state.errors.append(self.state.accounts.redact(traceback.format_exc()))
            return error_response(HubHTTPError(500, f"This is a bug in the local Hub: {error!r}"))

    # -- answering

    def _send(self, response: Response, fault: Fault | None) -> None:
        self.send_response(response.status)
        headers = {"Content-Type": "application/octet-stream", **response.headers, **_CORS}
        headers["X-Request-Id"] = secrets.token_hex(8)
        if response.status not in (204, 304):
            headers["Content-Length"] = str(response.length)
        for name, value in headers.items():
            self.send_header(name, _header_safe(value))
        self.end_headers()
        if self.command == "HEAD" or response.status in (204, 304):
            return
        sent = 0
        for block in self._struck(response, fault):
            self.wfile.write(block)
            sent += len(block)
            if fault and fault.action == "slow":
                self.stopping.wait(fault.options.get("delay", 0.05))
        if sent < response.length:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def _struck(self, response: Response, fault: Fault | None) -> Iterator[bytes]:
        """The body, as the fault leaves it."""
        action = fault.action if fault else None
        blocks = _blocks(response, _SLOW_BLOCK_BYTES if action == "slow" else BLOCK_BYTES)
        if action == "corrupt":
            return corrupted(blocks)
        if fault and action == "truncate":
            return truncated(blocks, fault.options.get("after", response.length // 2))
        return blocks

    def _cut(self) -> None:
        """Reset the connection: the client sees it break, not end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _log(self, status: int, stream: BodyStream, fault: Fault | None) -> None:
        # Before the answer goes out: whoever has the answer finds the request in the log.
        self.state.log.append(
            LogEntry(
                method=self.command,
                path=self.state.accounts.redact(self.path),
                status=status,
                fault=fault.action if fault else None,
                request_bytes=stream.bytes_read,
                has_auth="Authorization" in self.headers,
                range=self.headers.get("Range"),
            )
        )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing: the log is `HubState.log`."""


def _injected(fault: Fault) -> Response:
    status, body = fault.options.get("status", 503), fault.options.get("body", "injected fault")
    message = body if isinstance(body, str) else "injected fault"
    document = None if isinstance(body, str) else body
    headers = fault.options.get("headers")
    return error_response(HubHTTPError(status, message, headers=headers, body=document))


def _blocks(response: Response, size: int) -> Iterator[bytes]:
    body = response.body
    if isinstance(body, bytes):
        for start in range(0, len(body), size):
            yield body[start : start + size]
        return
    with body.path.open("rb") as file:
        file.seek(body.offset)
        left = body.length
        while left and (block := file.read(min(size, left))):
            left -= len(block)
            yield block


def _header_safe(value: str) -> str:
    """One line of Latin-1, whatever a path or message held."""
    return re.sub(r"[\r\n\x00]+", " ", value).encode("latin-1", "replace").decode("latin-1")
