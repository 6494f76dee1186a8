"""Files by the hashes under which the Hub knows them: SHA-256 for LFS files, git's blob id for others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.hf_api import ModelInfo, RepoSibling

_CHUNK = 2**20  # bytes


@dataclass(frozen=True)
class ListedFile:
    """A file as the Hub lists it: an LFS file by its SHA-256, any other by its git blob id."""

    path: str
    size: int
    sha256: str | None
    git_oid: str | None


def listed_files(info: ModelInfo) -> dict[str, ListedFile]:
    """The files of a repo by path; ``info`` must have been asked for with ``files_metadata``."""
    return {sibling.rfilename: _listed(sibling) for sibling in info.siblings or ()}


def _listed(sibling: RepoSibling) -> ListedFile:
    lfs = sibling.lfs
    return ListedFile(
        path=sibling.rfilename,
        size=(lfs.size if lfs else sibling.size) or 0,
        sha256=lfs.sha256 if lfs else None,
        git_oid=None if lfs else sibling.blob_id,
    )


@dataclass(frozen=True)
class Digests:
    """Both hashes of a file of this machine, and its size in bytes."""

    sha256: str
    git_oid: str
    size: int


def digests_of(path: Path) -> Digests:
    """Hash a file, streamed once."""
    size = path.stat().st_size
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
            git.update(chunk)
    return Digests(sha256.hexdigest(), git.hexdigest(), size)


def git_oid_of(content: bytes) -> str:
    """The id that git gives a blob of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
