"""GitHub's REST API, as far as the workflows need it, and their annotations.

Standard library only: a job that may write installs no packages.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

TIMEOUT = 60.0  # seconds
ANSWER_LIMIT = 32 * 2**20  # bytes; of an answer in JSON
_PAGE = 100  # the most that GitHub gives at once
_PAGES = 30
_CODES_OF_REDIRECTS = (301, 302, 303, 307, 308)


class GitHubError(Exception):
    """What GitHub answered, in a line; ``status`` is 0 where it did not answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _NoRedirects(HTTPRedirectHandler):
    """urllib would send the token along to wherever it is sent."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = build_opener(_NoRedirects)


class GitHub:
    """One repository on GitHub; paths are relative to ``/repos/OWNER/NAME``."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        self.repository = repository
        self._base = f"{url.rstrip('/')}/repos/{repository}"
        self._headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "hubpublish-workflows",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }

    @classmethod
    def of_environment(cls) -> GitHub:
        """The repository of GITHUB_REPOSITORY, with GITHUB_TOKEN; GITHUB_API_URL is another GitHub."""
        repository = os.environ.get("GITHUB_REPOSITORY")
        if not repository:
            raise GitHubError("GITHUB_REPOSITORY is not set; it is OWNER/NAME")
        url = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
        return cls(url, repository, os.environ.get("GITHUB_TOKEN", ""))

    def get(self, path: str = "", **query: str | int) -> Any:
        return self._json("GET", path, query)

    def pages(self, path: str, key: str | None = None, **query: str | int) -> list[Any]:
        """Everything of a list that GitHub gives in pages; ``key`` is where an answer has the list."""
        found: list[Any] = []
        for page in range(1, _PAGES + 1):
            answer = self.get(path, per_page=_PAGE, page=page, **query)
            entries = answer[key] if key else answer
            found += entries
            if len(entries) < _PAGE:
                return found
        raise GitHubError(f"{path} has more than {_PAGES * _PAGE} entries")

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        return self._json(method, path, {}, json.dumps(body).encode())

    def download(self, path: str, limit: int) -> bytes:
        """A file that GitHub redirects to; the token stays here.

        Raises:
            GitHubError: Also for more than ``limit`` bytes.
        """
        try:
            return self._read(Request(f"{self._base}/{path}", headers=self._headers), limit)
        except HTTPError as error:
            place = error.headers.get("Location", "")
            if error.code not in _CODES_OF_REDIRECTS:
                raise _refusal("GET", path, error) from error
        # plain http only where the API itself is on this machine
        if urlsplit(place).scheme not in {"https", urlsplit(self._base).scheme}:
            raise GitHubError(f"{path} redirects to a place that is not https")
        try:
            return self._read(Request(place), limit)
        except HTTPError as error:
            raise GitHubError(f"the file of {path}: HTTP {error.code}", error.code) from error

    def _json(self, method: str, path: str, query: Mapping[str, Any], body: bytes | None = None) -> Any:
        address = f"{self._base}/{path}".rstrip("/") + (f"?{urlencode(query)}" if query else "")
        headers = {**self._headers, **({"Content-Type": "application/json"} if body else {})}
        try:
            answer = self._read(Request(address, body, headers, method=method), ANSWER_LIMIT)
        except HTTPError as error:
            raise _refusal(method, path, error) from error
        try:
            return json.loads(answer) if answer else None
        except ValueError as error:
            raise GitHubError(f"{method} {path}: the answer is not JSON") from error

    @staticmethod
    def _read(request: Request, limit: int) -> bytes:
        try:
            with _opener.open(request, timeout=TIMEOUT) as response:
                data: bytes = response.read(limit + 1)
        except HTTPError:
            raise
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            raise GitHubError(f"GitHub does not answer: {getattr(error, 'reason', error)}") from error
        if len(data) > limit:
            raise GitHubError(f"more than {limit} bytes")
        return data


def _refusal(method: str, path: str, error: HTTPError) -> GitHubError:
    try:
        said = json.loads(error.read(ANSWER_LIMIT))
        # the reason of a 422 is not in its message
        more = [str(each["message"]) for each in said.get("errors", []) if "message" in each]
        words = "; ".join([str(said["message"]), *more])
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        words = "no reason given"
    return GitHubError(f"{method} {path}: HTTP {error.code}: {words}", error.code)


def notice(text: str, file: str | None = None) -> None:
    _annotate("notice", text, file)


def warning(text: str, file: str | None = None) -> None:
    _annotate("warning", text, file)


def error(text: str, file: str | None = None) -> None:
    _annotate("error", text, file)


def _annotate(level: str, text: str, file: str | None) -> None:
    place = f" file={_escaped(file).replace(':', '%3A').replace(',', '%2C')}" if file else ""
    print(f"::{level}{place}::{_escaped(text)}", file=sys.stderr)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
