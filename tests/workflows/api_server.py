"""An API in JSON over HTTP: requests to one method, and what it refuses, sends elsewhere or fails at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit


class Refusal(Exception):
    def __init__(self, status: int, message: str, *reasons: str) -> None:
        super().__init__(message)
        self.status, self.reasons = status, reasons


@dataclass(frozen=True)
class Redirect:
    location: str


@dataclass(frozen=True)
class Call:
    """A request, and what became of it."""

    method: str
    path: str
    status: int
    authorized: bool


class Api(Protocol):
    calls: list[Call]
    errors: list[str]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, token: str) -> Any: ...


def handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def _serve(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            path = address.path
            try:
                answer = api.answer(self.command, path, query, json.loads(sent or b"null"), token)
                status = 302 if isinstance(answer, Redirect) else 204 if answer is None else 200
            except Refusal as refusal:
                errors = [{"message": reason} for reason in refusal.reasons]
                status, answer = refusal.status, {"message": str(refusal), "errors": errors}
            except Exception as error:
                api.errors.append(f"{self.command} {path}: {error!r}")
                status, answer = 500, {"message": "internal"}
            api.calls.append(Call(self.command, path, status, bool(token)))
            self._send(status, answer)

        def _send(self, status: int, answer: Any) -> None:
            if status in (204, 302):
                data = b""
            else:
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if isinstance(answer, Redirect):
                self.send_header("Location", answer.location)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _serve

    return Handler
