"""The Hub's client: set up once, its errors translated, its reads retried."""

from hubpublish.hub.causes import may_have_landed, status_of
from hubpublish.hub.client import DEFAULT_ENDPOINT, connect, request_headers, validate_card
from hubpublish.hub.files import Digests, ListedFile, digests_of, git_oid_of, listed_files
from hubpublish.hub.keyless import Access, access, require_exchange_for
from hubpublish.hub.redact import redact, without_query
from hubpublish.hub.retry import is_transient, retried
from hubpublish.hub.translate import translate, translated

__all__ = [
    "DEFAULT_ENDPOINT",
    "Access",
    "Digests",
    "ListedFile",
    "access",
    "connect",
    "digests_of",
    "git_oid_of",
    "is_transient",
    "listed_files",
    "may_have_landed",
    "redact",
    "request_headers",
    "require_exchange_for",
    "retried",
    "status_of",
    "translate",
    "translated",
    "validate_card",
    "without_query",
]
