"""The SHA-256 of files that the Hub lists by git blob id: as somebody proved it before, or read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from huggingface_hub import HfApi

from hubpublish.errors import SourceError
from hubpublish.source import Upstream
from hubpublish.source.download import fetch_file
from hubpublish.words import readable_bytes

READ_LIMIT: Final = 10 * 2**20  # bytes; the Hub takes no larger file but through LFS


class Hashes:
    """Of files of a source, at any of its commits. Equal blob ids mean equal content.

    Args:
        api: The Hub.
        folder: Where files that must be read are kept, each at its commit.
        known: SHA-256 by git blob id.
    """

    def __init__(self, api: HfApi, folder: Path, known: Mapping[str, str] | None = None) -> None:
        self._api = api
        self._folder = folder
        self._known = dict(known or {})

    def sha256(self, upstream: Upstream, path: str) -> str:
        """The SHA-256 of a file; nothing that is in LFS is downloaded.

        Raises:
            SourceError: There is no such file, it cannot be read, or is too large to be.
        """
        listed = upstream.file(path)
        if listed.sha256 is not None:
            return listed.sha256
        if listed.git_oid in self._known:
            return self._known[listed.git_oid]
        if listed.size > READ_LIMIT:
            raise SourceError(
                f"the Hub lists no SHA-256 of {path}, which has {readable_bytes(listed.size)}",
                where=f"{upstream.repo}@{upstream.commit[:12]}",
                hint="this is not how the Hub keeps large files; check the endpoint",
                kind="hash_unknown",
            )
        folder = self._folder / upstream.repo.replace("/", "--") / upstream.commit
        found = fetch_file(self._api, upstream, path, folder, pin=None).sha256
        if listed.git_oid is not None:
            self._known[listed.git_oid] = found
        return found
