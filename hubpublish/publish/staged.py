"""Files ready to be published, under the two hashes by which the Hub knows files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 2**20  # bytes


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
    size = local.stat().st_size
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with local.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
            git.update(chunk)
    return StagedFile(path, local, sha256.hexdigest(), git.hexdigest(), size)


def git_oid_of(content: bytes) -> str:
    """The id that git gives a blob of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
