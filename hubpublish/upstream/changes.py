"""What of a source changed: against a recipe's pins, and against what it held at an earlier commit."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hubpublish.errors import SourceError
from hubpublish.hub import ListedFile
from hubpublish.layout import CARD
from hubpublish.publish.manifest import ATTRIBUTES
from hubpublish.recipe import Recipe
from hubpublish.source import Upstream, is_always_copied
from hubpublish.upstream.hashes import Hashes
from hubpublish.upstream.pins import Pin, pins

Role = Literal["model", "data", "copied", "card", "other"]
What = Literal["weights", "graph", "model", "card", "files"]


class FileChange(BaseModel):
    """A file of the source that is not what it was.

    Attributes:
        path: Its path in the source repo.
        role: What the recipe takes it for; ``other`` is not taken.
        change: What became of it.
        old: SHA-256 that the recipe pins, or that it had; None if that is not known.
        new: SHA-256 that it has; None if it is gone, or not known.
        required: Whether the recipe names the file, so that it cannot do without.
        now: A path that looks like where a file went that the recipe names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    role: Role
    change: Literal["changed", "added", "removed"]
    old: str | None
    new: str | None
    required: bool = Field(default=False, exclude=True)
    now: str | None = Field(default=None, exclude=True)

    @property
    def is_lost(self) -> bool:
        """Whether the recipe names it and it is gone: no new pin can follow it."""
        return self.required and self.change == "removed"


def pin_changes(recipe: Recipe, head: Upstream, hashes: Hashes) -> tuple[FileChange, ...]:
    """What the recipe demands and the head does not have: files whose pin does not hold, or that are gone.

    Raises:
        SourceError: A file outside of LFS cannot be read.
    """
    unpinned = (each.path for each in recipe.source.copy_files if each.sha256 is None)
    found = [
        *(_against_pin(pin, head, hashes) for pin in pins(recipe)),
        *(_lost(path, "copied", None, head) for path in unpinned if path not in head.files),
    ]
    return tuple(dict.fromkeys(each for each in found if each is not None))  # two variants may share data


def other_changes(recipe: Recipe, head: Upstream, old: Upstream) -> tuple[FileChange, ...]:
    """What else changed since an earlier commit: all but the files that the recipe pins."""
    pinned = {pin.path for pin in pins(recipe)}
    paths = sorted({*old.files, *head.files} - pinned - {ATTRIBUTES})
    return tuple(filter(None, (_between(recipe, path, head, old) for path in paths)))


def refuse_lost(head: Upstream, changes: Iterable[FileChange]) -> None:
    """Stop where a file is gone that the recipe names: no pin can follow it.

    Raises:
        SourceError: ``file_not_found``, with the paths and where they may be now.
    """
    gone = {each.path: each.now for each in changes if each.is_lost}
    if not gone:
        return
    near = [f"{path} may be {now} now" for path, now in gone.items() if now]
    raise SourceError(
        f"{head.repo} no longer has what the recipe names: {', '.join(gone)}",
        where=f"{head.repo}@{head.commit[:12]}",
        hint="; ".join([*near, "correct the recipe, or take the file out of it"]),
        kind="file_not_found",
        details={"missing": list(gone), "commit": head.commit},
    )


def what_changed(recipe: Recipe, changes: Iterable[FileChange]) -> tuple[What, ...]:
    """The kinds of what changed, as far as file names tell, the weightiest first.

    Whether it is the weights or the graph that changed in an ``.onnx`` that holds both takes a download.
    """
    changed = {each.path: each.role for each in changes}
    found: set[What] = set()
    for variant in recipe.variants:
        if any(data.path in changed for data in variant.data):
            found.add("weights")
        elif variant.path in changed:
            found.add("graph" if variant.data else "model")
    if "card" in changed.values():
        found.add("card")
    if not {"copied", "other"}.isdisjoint(changed.values()):
        found.add("files")
    every: tuple[What, ...] = ("weights", "graph", "model", "card", "files")
    return tuple(each for each in every if each in found)


def _against_pin(pin: Pin, head: Upstream, hashes: Hashes) -> FileChange | None:
    if pin.path not in head.files:
        return _lost(pin.path, pin.role, pin.sha256, head)
    new = hashes.sha256(head, pin.path)
    if new == pin.sha256:
        return None
    return FileChange(path=pin.path, role=pin.role, change="changed", old=pin.sha256, new=new, required=True)


def _lost(path: str, role: Role, sha256: str | None, head: Upstream) -> FileChange:
    return FileChange(
        path=path,
        role=role,
        change="removed",
        old=sha256,
        new=None,
        required=True,
        now=_where_now(path, sha256, head.files.values()),
    )


def _where_now(path: str, sha256: str | None, files: Collection[ListedFile]) -> str | None:
    """The file with that content, or else with a similar name."""
    same = sorted(file.path for file in files if sha256 is not None and file.sha256 == sha256)
    return next(iter(same or difflib.get_close_matches(path, [file.path for file in files], n=1)), None)


def _between(recipe: Recipe, path: str, head: Upstream, old: Upstream) -> FileChange | None:
    before, after = old.files.get(path), head.files.get(path)
    required = any(path == copied.path for copied in recipe.source.copy_files)
    if (required and after is None) or (before is not None and after is not None and _same(before, after)):
        return None  # of what the recipe names, `pin_changes` says that it is gone
    return FileChange(
        path=path,
        role=_role(path, required=required),
        change="changed" if before and after else "added" if after else "removed",
        old=before.sha256 if before else None,
        new=after.sha256 if after else None,
        required=required,
    )


def _role(path: str, *, required: bool) -> Role:
    if path == CARD:
        return "card"
    return "copied" if required or is_always_copied(path) else "other"


def _same(one: ListedFile, other: ListedFile) -> bool:
    """Whether two files are the same; one that went from git to LFS counts as changed."""
    if one.git_oid is not None and other.git_oid is not None:
        return one.git_oid == other.git_oid
    return one.sha256 is not None and one.sha256 == other.sha256
