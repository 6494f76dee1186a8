"""What a commit would change, and what it must not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from huggingface_hub import HfApi

from hubpublish.errors import HubError
from hubpublish.hub import ListedFile
from hubpublish.layout import CARD, MANIFEST, RECIPE, REPORT
from hubpublish.publish.staged import StagedFile
from hubpublish.publish.target import TargetState, with_hashes

_FOREIGN = "not published by hubpublish"
Change = Literal["added", "changed", "unchanged", "deleted"]


@dataclass(frozen=True)
class PlanEntry:
    """One path, before and after; sizes in bytes."""

    path: str
    change: Change
    old_sha256: str | None
    new_sha256: str | None
    old_size: int | None
    new_size: int | None


@dataclass(frozen=True)
class Conflict:
    """A path that holds somebody else's work, and why we think so."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} ({self.why})"


@dataclass(frozen=True)
class Plan:
    """All of one commit: what it does to every path of ours, on top of ``state``."""

    state: TargetState
    staged: tuple[StagedFile, ...]
    entries: tuple[PlanEntry, ...]
    conflicts: tuple[Conflict, ...]

    @property
    def changes(self) -> tuple[PlanEntry, ...]:
        """The entries that change something."""
        return tuple(entry for entry in self.entries if entry.change != "unchanged")

    def without_deletions(self) -> Plan:
        """The plan as far as it adds and changes: for the preview of a part of a release."""
        return replace(self, entries=tuple(each for each in self.entries if each.change != "deleted"))

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.changes)


def make_plan(api: HfApi, state: TargetState, staged: Iterable[StagedFile]) -> Plan:
    """Compare what is staged with what the target holds.

    Files of ours that are not staged any more are deleted; files that are not ours are left alone,
    and are a conflict where they stand in the way. The Hub is asked for nothing but the content of
    small files that differ and whose SHA-256 it does not list.

    Raises:
        HubError: Such a file cannot be read.
    """
    files = tuple(sorted(staged, key=lambda file: file.path))
    paths = {file.path for file in files}
    differing = [file.path for file in files if not _same(state.files.get(file.path), file)]
    state = with_hashes(api, state, differing)
    entries = [_entry(state.files.get(file.path), file) for file in files]
    ours = state.manifest.files if state.manifest else {}
    for path in sorted(path for path in ours if path not in paths and path in state.files):
        old = state.files[path]
        entries.append(PlanEntry(path, "deleted", old.sha256, None, old.size, None))
    return Plan(state, files, tuple(entries), _conflicts(state, entries))


def refuse_conflicts(plan: Plan) -> None:
    """Stop before somebody's work is overwritten.

    Raises:
        HubError: ``target_edited``, with the paths.
    """
    _refuse(plan.state, plan.conflicts)


def refuse_edited(state: TargetState) -> None:
    """Stop where somebody has edited what we published, before anything is made to replace it.

    A card that stands there without any other file of ours is somebody else's, and stops it too.

    Raises:
        HubError: ``target_edited``, with the paths.
    """
    conflicts = [Conflict(path, why) for path, why in state.edited().items()]
    if CARD in state.files and state.files.keys().isdisjoint((REPORT, RECIPE, MANIFEST)):
        conflicts.append(Conflict(CARD, _FOREIGN))
    _refuse(state, conflicts)


def _refuse(state: TargetState, conflicts: Sequence[Conflict]) -> None:
    if not conflicts:
        return
    named = ", ".join(map(str, conflicts))
    raise HubError(
        f"these files are not as hubpublish left them, and would be overwritten: {named}",
        where=state.repo,
        hint="open a pull request instead with --as-pr, or undo the edits",
        kind="target_edited",
        details={"files": [conflict.path for conflict in conflicts], "head": state.head},
    )


def _entry(old: ListedFile | None, new: StagedFile) -> PlanEntry:
    if old is None:
        return PlanEntry(new.path, "added", None, new.sha256, None, new.size)
    same = _same(old, new)
    change: Change = "unchanged" if same else "changed"
    return PlanEntry(new.path, change, new.sha256 if same else old.sha256, new.sha256, old.size, new.size)


def _same(old: ListedFile | None, new: StagedFile) -> bool:
    if old is None:
        return False
    return old.git_oid == new.git_oid if old.git_oid is not None else old.sha256 == new.sha256


def _conflicts(state: TargetState, entries: Sequence[PlanEntry]) -> tuple[Conflict, ...]:
    edited = state.edited()
    found = []
    for entry in entries:
        if entry.change == "unchanged":
            continue
        if entry.path in edited:
            found.append(Conflict(entry.path, edited[entry.path]))
        elif entry.change == "changed" and not state.is_ours(entry.path):
            found.append(Conflict(entry.path, _FOREIGN))
    return tuple(found)
