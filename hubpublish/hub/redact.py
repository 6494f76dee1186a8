"""Keep secrets out of whatever is printed: tokens, and the queries of signed URLs."""

from __future__ import annotations

import logging
import re
from typing import Any

_CLIENT_LOGGERS = frozenset(
    {
        *("huggingface_hub", "httpx2", "httpcore2", "hf_xet"),
        *("sigstore", "id", "requests", "urllib3"),  # which sign with the identity of a job
    }
)
_HUB_TOKEN = re.compile(r"\b(?:hf|api_org)_(?:oauth_|jwt_)?[A-Za-z0-9._-]{20,}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[^\s'\",;]+")
_USER_INFO = re.compile(r"(?<=://)[^/@\s'\"]+@")
_QUERY = re.compile(r"(?<![\w.])(https?://[^\s'\"<>?]+)\?[^\s'\"<>]*")
_HIDDEN = "***"
_SHORTEST = 6  # characters; a shorter secret is none, and to hide it would garble everything
_known: set[str] = set()


def remember(secret: str) -> None:
    """Have ``redact`` hide this very text too, whatever its form."""
    if len(secret) >= _SHORTEST:
        _known.add(secret)


def without_query(url: str) -> str:
    """A URL without user, query and fragment: a signed URL's query is a password."""
    return _USER_INFO.sub("", url).split("?", 1)[0].split("#", 1)[0]


def redact(text: str) -> str:
    """The text with every token hidden and every URL cut before its query."""
    for secret in _known:
        text = text.replace(secret, _HIDDEN)
    text = _QUERY.sub(r"\1", _USER_INFO.sub("", text))
    text = _BEARER.sub(rf"\1{_HIDDEN}", text)
    return _JWT.sub(_HIDDEN, _HUB_TOKEN.sub(_HIDDEN, text))


def guard_logs() -> None:
    """Redact every log record of the client's libraries, for all handlers and at every level.

    A record factory, since a filter of a logger does not see its children's records, and one of a
    handler misses the handlers that are added later.
    """
    make = logging.getLogRecordFactory()
    if getattr(make, "redacts", False):
        return

    def redacted(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(name, *args, **kwargs)
        if name.partition(".")[0] in _CLIENT_LOGGERS:
            record.msg, record.args = redact(record.getMessage()), ()
            record.exc_info = None  # an exception's own text cannot be redacted here
        return record

    redacted.redacts = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(redacted)
