"""The Hub's client: set up once, its errors translated, its reads retried.

``source`` and ``publish`` are the only modules that use it.
"""

from hubpublish.hub.client import DEFAULT_ENDPOINT, connect, request_headers, validate_card
from hubpublish.hub.redact import redact, without_query
from hubpublish.hub.retry import is_transient, retried
from hubpublish.hub.translate import status_of, translate, translated

__all__ = [
    "DEFAULT_ENDPOINT",
    "connect",
    "is_transient",
    "redact",
    "request_headers",
    "retried",
    "status_of",
    "translate",
    "translated",
    "validate_card",
    "without_query",
]
