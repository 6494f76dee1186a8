"""The HTTP vocabulary that every part of the local Hub speaks: request, response, error, body.

Bodies stream. A request's body is read from the socket as it comes, and a response may name a piece
of a file instead of holding bytes, so a model of any size passes through in small blocks.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

BLOCK_BYTES = 256 * 1024
MAX_JSON_BYTES = 32 * 1024 * 1024


class HubHTTPError(Exception):
    """A refusal, sent as ``{"error": message}`` with the headers that the client reads.

    Args:
        status: HTTP status.
        message: What is wrong; also goes out as ``X-Error-Message``.
        code: ``X-Error-Code``, from which the client picks the exception it raises
            (``RepoNotFound``, ``RevisionNotFound``, ``EntryNotFound``, ``GatedRepo``).
        headers: Further headers.
        body: The JSON document to send instead.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: object = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = {"X-Error-Message": message, **(headers or {})}
        if code:
            self.headers["X-Error-Code"] = code
        self.body = {"error": message} if body is None else body


@dataclass(frozen=True)
class FilePart:
    """``length`` bytes of a file, from ``offset``."""

    path: Path
    offset: int
    length: int


@dataclass
class Response:
    """A status, a body of known length, and headers."""

    status: int = 200
    body: bytes | FilePart = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.body) if isinstance(self.body, bytes) else self.body.length


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON document as a response."""
    content_type = {"Content-Type": "application/json; charset=utf-8"}
    return Response(status, json.dumps(value).encode(), {**content_type, **(headers or {})})


def error_response(error: HubHTTPError) -> Response:
    """What the client gets for a refusal."""
    return json_response(error.body, error.status, error.headers)


def ok() -> Response:
    """The answer of an endpoint that has nothing to tell."""
    return Response(200, b"OK", {"Content-Type": "text/plain; charset=utf-8"})


class BodyStream(io.RawIOBase):
    """A request's body, of a length given beforehand or chunked; counts what it has read.

    Raises:
        ConnectionError: The client went away in the middle, or does not speak HTTP.
    """

    def __init__(self, source: io.BufferedIOBase, headers: Message) -> None:
        self._source = source
        self._chunked = (headers.get("Transfer-Encoding") or "").lower() == "chunked"
        self._left = 0 if self._chunked else _number(headers.get("Content-Length") or "0", 10)
        self._ended = not self._chunked and self._left == 0
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._chunked and not self._left and not self._ended:
            self._next_chunk()
        if self._ended:
            return 0
        data = self._source.read(min(len(buffer), self._left))
        if not data:
            raise ConnectionResetError("the client went away in the middle of its request")
        buffer[: len(data)] = data
        self._left -= len(data)
        self.bytes_read += len(data)
        if not self._left:
            self._finish_piece()
        return len(data)

    def _finish_piece(self) -> None:
        if self._chunked:
            self._source.readline()
        else:
            self._ended = True

    def _next_chunk(self) -> None:
        size = self._source.readline(1024).split(b";")[0].strip()
        self._left = _number(size.decode("latin-1"), 16)
        if not self._left:
            self._ended = True
            while self._source.readline(BLOCK_BYTES).strip():
                pass


def _number(digits: str, base: int) -> int:
    """A length from the wire; there is no going on after one that is none."""
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", digits):
        raise ConnectionAbortedError("the length of the request's body is no number")
    try:
        return int(digits, base)
    except ValueError as error:
        raise ConnectionAbortedError("the length of the request's body is no number") from error


@dataclass
class Request:
    """One request.

    Attributes:
        method: ``GET``, ``HEAD``, ``POST``, ...
        target: Path and query as they came.
        path: The path as it came, percent-encoded.
        query: The query's parameters; the last of each name.
        headers: The request's headers (names in any case).
        body: The body, to be read once, in blocks.
    """

    method: str
    target: str
    path: str
    query: dict[str, str]
    headers: Message
    body: io.BufferedReader

    def json(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            HubHTTPError: 413 when it is larger than `MAX_JSON_BYTES`, 400 when it is no JSON object.
        """
        try:
            value = json.loads(self.read() or b"{}")
        except ValueError as error:
            raise HubHTTPError(400, "Invalid JSON") from error
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise HubHTTPError(400, "The body must be a JSON object")
        return value

    def read(self) -> bytes:
        """The whole body of a request that is small by nature."""
        data = self.body.read(MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise HubHTTPError(413, "Payload too large")
        return data

    def flag(self, name: str) -> bool:
        """Whether a query parameter is set to ``1`` or ``true``."""
        return is_true(self.query.get(name))

    def number(self, name: str, default: int) -> int:
        """A query parameter that counts.

        Raises:
            HubHTTPError: 400 when it is no number.
        """
        text = self.query.get(name, str(default))
        if not text.isdecimal():
            raise HubHTTPError(400, f'"{name}" must be a number')
        return int(text)


def is_true(value: object) -> bool:
    """Whether a value from a query, form or JSON body means yes."""
    return str(value).lower() in ("1", "true")


def required(document: Mapping[str, Any], name: str) -> str:
    """A string field of a JSON body.

    Raises:
        HubHTTPError: 400 when it is not there or no string.
    """
    value = document.get(name)
    if not isinstance(value, str):
        raise HubHTTPError(400, f'"{name}" is required and must be a string')
    return value
