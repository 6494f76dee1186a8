"""A repo's discussions and pull requests, kept as the JSON documents that the client reads."""

from __future__ import annotations

import html
import json
import secrets
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from hubpublish.localhub.files import write_text_atomically
from hubpublish.localhub.git import hub_date
from hubpublish.localhub.protocol import HubHTTPError

Status = Literal["draft", "open", "closed", "merged"]
Document = dict[str, Any]
OPEN = ("open", "draft")


class Discussions:
    """The discussions of one repo, numbered from 1; a pull request is one that has ``refs/pr/N``."""

    def __init__(self, path: Path, kind: str, repo_id: str) -> None:
        self._path = path
        self._repo = {"name": repo_id, "type": kind}
        self._lock = threading.RLock()

    def all(self) -> list[Document]:
        """Every discussion, oldest first; a copy."""
        if not self._path.exists():
            return []
        documents: list[Document] = json.loads(self._path.read_text(encoding="utf-8"))
        return [{**document, "repo": self._repo} for document in documents]

    def get(self, number: int) -> Document:
        """One discussion; a copy.

        Raises:
            HubHTTPError: 404 when there is none of that number.
        """
        everything = self.all()
        if not 1 <= number <= len(everything):
            raise HubHTTPError(404, f"Discussion not found: {number}")
        return everything[number - 1]

    def open(
        self, user: str, title: str, description: str, *, base: str | None = None, status: Status = "open"
    ) -> Document:
        """Begin a discussion, or a pull request onto the ref ``base``."""
        with self._lock:
            everything = self.all()
            document: Document = {
                "num": len(everything) + 1,
                "title": title,
                "author": {"name": user},
                "createdAt": _now(),
                "status": status,
                "isPullRequest": base is not None,
                "events": [],
            }
            if base is not None:
                document["changes"] = {"base": base, "mergeCommitId": None}
            self._save([*everything, document])
            self.comment(document["num"], user, description)
            return self.get(document["num"])

    def comment(self, number: int, user: str, text: str) -> Document:
        """Add a comment; the event."""
        data = {"edited": False, "hidden": False, "latest": _content(user, text), "history": []}
        return self.add_event(number, user, "comment", data)

    def add_event(self, number: int, user: str, kind: str, data: Document) -> Document:
        """Add an event to a discussion; the event."""
        event = {
            "id": secrets.token_hex(12),
            "type": kind,
            "createdAt": _now(),
            "author": {"name": user},
            "data": data,
        }
        with self._lock:
            document = self.get(number)
            self._replace({**document, "events": [*document["events"], event]})
        return event

    def change(self, number: int, **fields: object) -> None:
        """Set fields of a discussion."""
        with self._lock:
            self._replace({**self.get(number), **fields})

    def edit_comment(self, number: int, comment_id: str, user: str, text: str) -> Document:
        """Give a comment a new text; the event."""
        with self._lock:
            document, event = self._find_comment(number, comment_id)
            data = event["data"]
            history = [*data["history"], data["latest"]]
            event["data"] = {**data, "edited": True, "latest": _content(user, text), "history": history}
            self._replace(document)
            return event

    def hide_comment(self, number: int, comment_id: str, user: str) -> Document:
        """Take a comment's text away; the event."""
        with self._lock:
            document, event = self._find_comment(number, comment_id)
            event["data"] = {**event["data"], "hidden": True, "latest": _content(user, ""), "history": []}
            self._replace(document)
            return event

    def _find_comment(self, number: int, comment_id: str) -> tuple[Document, Document]:
        document = self.get(number)
        for event in document["events"]:
            if event["id"] == comment_id and event["type"] == "comment":
                return document, event
        raise HubHTTPError(404, f"Comment not found: {comment_id}")

    def _replace(self, document: Document) -> None:
        everything = self.all()
        everything[document["num"] - 1] = document
        self._save(everything)

    def _save(self, documents: list[Document]) -> None:
        write_text_atomically(self._path, json.dumps(documents, indent=1))


def _content(user: str, text: str) -> Document:
    rendered = f"<p>{html.escape(text)}</p>"
    return {"raw": text, "html": rendered, "updatedAt": _now(), "author": {"name": user}}


def _now() -> str:
    return hub_date(datetime.now(UTC))
