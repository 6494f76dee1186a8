"""What the Hub says of a repo at one commit: files with hashes, and the card's license. No download."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.hf_api import ModelInfo

from hubpublish.errors import SourceError
from hubpublish.hub import ListedFile, listed_files, retried, translated


@dataclass(frozen=True)
class Upstream:
    """A repo at one commit. ``license`` is the card's, as its ``license`` field has it."""

    repo: str
    commit: str
    files: Mapping[str, ListedFile]
    license: str | None

    def file(self, path: str) -> ListedFile:
        """The listed file.

        Raises:
            SourceError: ``file_not_found``, with the nearest name there is.
        """
        if path in self.files:
            return self.files[path]
        near = difflib.get_close_matches(path, self.files, n=1)
        raise SourceError(
            f"there is no file {path} in {self.repo} at commit {self.commit[:12]}",
            where=self.repo,
            hint=f"did you mean {near[0]}?" if near else "check the path; it is case-sensitive",
            kind="file_not_found",
            details={"path": path, "commit": self.commit},
        )


@dataclass(frozen=True)
class SourceFile:
    """A file on this machine whose bytes were hashed. ``size`` is in bytes."""

    path: str
    local: Path
    sha256: str
    size: int


def look_up(api: HfApi, repo: str, revision: str) -> Upstream:
    """Ask the Hub for a repo at a revision: one request, and no file is downloaded.

    Raises:
        SourceError: No such repo or revision, no access, no network.
    """
    with translated(SourceError, f"look up revision {revision!r}", repo=repo):
        info = retried(lambda: api.model_info(repo, revision=revision, files_metadata=True))
    if not info.sha:
        raise SourceError(
            f"{repo} has no commit yet", where=repo, hint="check the name", kind="revision_not_found"
        )
    return Upstream(repo, info.sha, listed_files(info), _license(info))


def _license(info: ModelInfo) -> str | None:
    found = info.card_data.get("license") if info.card_data else None
    if isinstance(found, list):
        found = ", ".join(str(item) for item in found)
    return str(found) if found else None
