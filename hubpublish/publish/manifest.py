"""manifest.json: which files of the target repo are ours, and what they hashed to when published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

import hubpublish
from hubpublish.layout import MANIFEST
from hubpublish.publish.staged import StagedFile

ATTRIBUTES = ".gitattributes"  # the Hub's own, which it edits when a file goes to LFS

_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_GitOid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class Manifest(BaseModel):
    """The published manifest. Unknown fields are those of a later version, and are left alone.

    ``git_oids`` repeats the files by git blob id: the Hub lists those for files outside of LFS, so
    that an edit shows without downloading anything. ``withdrawn`` holds the keys of publications that
    were rolled back: no run publishes them again by itself.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    hubpublish: str
    key: str
    source_commit: str
    files: dict[str, _Sha256]
    git_oids: dict[str, _GitOid] = Field(default_factory=dict)
    withdrawn: tuple[str, ...] = ()


def make_manifest(files: Iterable[StagedFile], *, key: str, source_commit: str) -> str:
    """The text of manifest.json for these files; it does not list itself.

    Args:
        files: All that is published, in any order.
        key: What the publication was made from: equal keys, equal files.
        source_commit: The source repo's commit.
    """
    listed = sorted((file for file in files if file.path != MANIFEST), key=lambda file: file.path)
    manifest = Manifest(
        hubpublish=hubpublish.__version__,
        key=key,
        source_commit=source_commit,
        files={file.path: file.sha256 for file in listed},
        git_oids={file.path: file.git_oid for file in listed},
    )
    return manifest.model_dump_json(indent=2) + "\n"


def parse_manifest(content: bytes) -> Manifest | None:
    """The manifest in these bytes; None if they are no manifest of ours."""
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError:
        return None
    # Whatever it claims: what is listed may be deleted one day.
    files = {path: sha256 for path, sha256 in manifest.files.items() if path != ATTRIBUTES}
    return manifest.model_copy(update={"files": files})
