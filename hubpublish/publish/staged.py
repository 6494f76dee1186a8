"""Files ready to be published, under the two hashes by which the Hub knows files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hubpublish.hub import digests_of


@dataclass(frozen=True)
class StagedFile:
    """A file and its path in the target repo. ``size`` is in bytes.

    The Hub lists an LFS file by the SHA-256 of its content and any other by its git blob id; which
    of the two a file becomes is the Hub's decision.
    """

    path: str
    local: Path
    sha256: str
    git_oid: str
    size: int


def stage(path: str, local: Path) -> StagedFile:
    """Hash a local file that is to be published at ``path``; it is streamed, once."""
    found = digests_of(local)
    return StagedFile(path, local, found.sha256, found.git_oid, found.size)
