"""The source's files: which commit, fetched, and hashed before anything uses them."""

from hubpublish.source.external import external_locations
from hubpublish.source.fetch import (
    FetchedSource,
    FetchedVariant,
    fetch,
    fetch_variant,
    folder_key,
    is_always_copied,
    resolve,
)
from hubpublish.source.upstream import SourceFile, Upstream, look_up

__all__ = [
    "FetchedSource",
    "FetchedVariant",
    "SourceFile",
    "Upstream",
    "external_locations",
    "fetch",
    "fetch_variant",
    "folder_key",
    "is_always_copied",
    "look_up",
    "resolve",
]
