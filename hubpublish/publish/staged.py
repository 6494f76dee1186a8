"""Files ready to be published, under the two hashes by which the Hub knows files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hubpublish.errors import HubError
from hubpublish.hub import digests_of, git_oid_of


@dataclass(frozen=True)
class StagedFile:
    """A file and its path in the target repo. ``size`` is in bytes.

    The Hub lists an LFS file by the SHA-256 of its content and any other by its git blob id; which
    of the two a file becomes is the Hub's decision. ``content`` has the bytes of a small file that is
    made for what the target holds, and that is in no file of this machine.
    """

    path: str
    local: Path
    sha256: str
    git_oid: str
    size: int
    content: bytes | None = None

    def read(self) -> bytes:
        """The file's bytes; for small files.

        Raises:
            HubError: ``staged_changed``: they are not what was staged.
        """
        try:
            found = self.local.read_bytes() if self.content is None else self.content
        except OSError:
            raise changed_on_disk(self) from None
        if hashlib.sha256(found).hexdigest() != self.sha256:
            raise changed_on_disk(self)
        return found


def stage(path: str, local: Path) -> StagedFile:
    """Hash a local file that is to be published at ``path``; it is streamed, once."""
    found = digests_of(local)
    return StagedFile(path, local, found.sha256, found.git_oid, found.size)


def stage_content(path: str, content: bytes) -> StagedFile:
    """A small file that is to be published at ``path`` and is nowhere on this machine."""
    sha256 = hashlib.sha256(content).hexdigest()
    return StagedFile(path, Path(path), sha256, git_oid_of(content), len(content), content)


def changed_on_disk(file: StagedFile) -> HubError:
    """The error for a file that is not what was verified and planned."""
    return HubError(
        f"{file.path} changed on disk after it was verified",
        where=str(file.local),
        hint="let nothing write to the staged folder, and run again",
        kind="staged_changed",
    )
