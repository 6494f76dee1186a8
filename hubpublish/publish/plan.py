"""What a commit would change, and what it must not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from huggingface_hub import HfApi

from hubpublish.errors import HubError
from hubpublish.hub import ListedFile
from hubpublish.layout import CARD, MANIFEST, RECIPE, REPORT, SIGNATURE
from hubpublish.publish import free_text
from hubpublish.publish.manifest import Manifest, manifest_with, parse_manifest
from hubpublish.publish.staged import StagedFile, stage_content
from hubpublish.publish.target import TargetState, read_card, with_hashes

_FOREIGN = "not published by hubpublish"
_HINT = "open a pull request instead with --as-pr, or undo the edits"
_HINT_ON_WORDS = "move the text on the Hub, or name its region in the recipe's card.free_text"
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
    hint: str = _HINT

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

    def file(self, path: str) -> StagedFile | None:
        """What would be published at a path: for the card, with what people wrote into it on the Hub."""
        return next((file for file in self.staged if file.path == path), None)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.changes)


def make_plan(api: HfApi, state: TargetState, staged: Iterable[StagedFile]) -> Plan:
    """Compare what is staged with what the target holds.

    Files of ours that are not staged any more are deleted; files that are not ours are left alone,
    and are a conflict where they stand in the way. What people wrote into the target's card, where it
    invites them to, is in the planned card too; what was rolled back there stays withdrawn, but for what
    is published now. The Hub is asked for nothing but the content of small
    files that differ and whose SHA-256 it does not list, and for such a card.

    Raises:
        HubError: Such a file cannot be read; ``staged_changed``.
    """
    files = _still_withdrawn(state, tuple(staged))
    if not _holds_free_text(state):
        return but_for_signature(plan_exactly(api, state, files))
    made = free_text.merged(files, read_card(api, state))
    return but_for_signature(plan_exactly(api, state, made.files, _about_words(made.lost)))


def plan_exactly(
    api: HfApi, state: TargetState, staged: Iterable[StagedFile], conflicts: Sequence[Conflict] = ()
) -> Plan:
    """A plan as of `make_plan` for these very files, with no more words of others in them.

    Args:
        api: The Hub.
        state: What the target holds.
        staged: All files.
        conflicts: What more must not be overwritten, if the plan changes it.

    Raises:
        HubError: A file of the target cannot be read.
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
    if [each.path for each in entries if each.change != "unchanged"] == [MANIFEST]:
        entries = [_but_for_words(state, files, each) for each in entries]
    return Plan(state, files, tuple(entries), _conflicts(state, entries, conflicts))


def but_for_signature(plan: Plan) -> Plan:
    """The plan, with nothing to do if all that it would change is the signature that the target has.

    No two signatures are equal, and the target's covers the same files: that another was made, or none, is
    no reason for a commit.
    """
    changed = {entry.path for entry in plan.changes}
    old, manifest = plan.state.manifest, plan.file(MANIFEST)
    if old is None or manifest is None or SIGNATURE not in changed or not changed <= {MANIFEST, SIGNATURE}:
        return plan
    if SIGNATURE not in old.files or SIGNATURE in plan.state.edited():
        return plan
    new = parse_manifest(manifest.read())
    if new is None or not _same_but_for_signature(old, new):
        return plan
    kept = [
        replace(entry, change="unchanged", new_sha256=entry.old_sha256, new_size=entry.old_size)
        for entry in plan.entries
    ]
    return replace(plan, entries=tuple(kept))


def _same_but_for_signature(old: Manifest, new: Manifest) -> bool:
    old, new = (
        each.model_copy(
            update={
                name: {path: found for path, found in getattr(each, name).items() if path != SIGNATURE}
                for name in ("files", "git_oids")
            }
        )
        for each in (old, new)
    )
    return old == new or free_text.differ_in_words_alone(old, new)


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
    _refuse(state, [Conflict(path, why) for path, why in obstacles(state).items()])


def obstacles(state: TargetState) -> dict[str, str]:
    """What somebody did to the target so that a run would refuse to replace it: by path, in words."""
    if state.manifest is not None:
        return state.edited()
    if MANIFEST in state.files:
        return {MANIFEST: _FOREIGN}
    card_alone = CARD in state.files and state.files.keys().isdisjoint((REPORT, RECIPE))
    return {CARD: _FOREIGN} if card_alone else {}


def refuse_lost_words(api: HfApi, state: TargetState, names: Collection[str]) -> None:
    """Stop where people wrote into a region of the card that the next card will not have.

    Args:
        api: The Hub; it is asked for the card, if people may write in it.
        state: What the target holds.
        names: The regions that the next card will have.

    Raises:
        HubError: ``target_edited``, with the region.
    """
    if _holds_free_text(state):
        _refuse(state, _about_words(free_text.why_lost(read_card(api, state), names)))


def _still_withdrawn(state: TargetState, files: tuple[StagedFile, ...]) -> tuple[StagedFile, ...]:
    ours = next((file for file in files if file.path == MANIFEST), None)
    if ours is None or state.manifest is None or not state.manifest.withdrawn:
        return files
    known = parse_manifest(ours.read())
    if known is None:
        return files
    every = (*known.withdrawn, *state.manifest.withdrawn)
    keys = dict.fromkeys(key for key in every if key not in known.keys)
    if tuple(keys) == known.withdrawn:
        return files
    fields: dict[str, object] = {"withdrawn": list(keys)}
    if known.restored is None and known.key == state.manifest.key and state.manifest.restored:
        fields["restored"] = state.manifest.restored  # the same again
    manifest = stage_content(MANIFEST, manifest_with(ours.read(), **fields))
    return tuple(manifest if file is ours else file for file in files)


def _holds_free_text(state: TargetState) -> bool:
    return state.manifest is not None and state.manifest.free_text is not None and CARD in state.files


def _about_words(whys: Iterable[str]) -> list[Conflict]:
    return [Conflict(CARD, why, _HINT_ON_WORDS) for why in whys]


def _refuse(state: TargetState, conflicts: Sequence[Conflict]) -> None:
    if not conflicts:
        return
    named = ", ".join(map(str, conflicts))
    raise HubError(
        f"these files are not as hubpublish left them, and would be overwritten: {named}",
        where=state.repo,
        hint="; ".join(dict.fromkeys(conflict.hint for conflict in conflicts)),
        kind="target_edited",
        details={"files": list(dict.fromkeys(each.path for each in conflicts)), "head": state.head},
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


def _but_for_words(state: TargetState, files: Sequence[StagedFile], entry: PlanEntry) -> PlanEntry:
    """The entry of the manifest; unchanged, if all that is new is what people wrote into the card.

    Their words alone are no reason for a commit: nothing that we publish has changed.
    """
    manifest = next((file for file in files if file.path == MANIFEST), None)
    if entry.change != "changed" or manifest is None or state.manifest is None:
        return entry
    new = parse_manifest(manifest.read()) if _holds_free_text(state) else None
    if new is None or not free_text.differ_in_words_alone(state.manifest, new):
        return entry
    return replace(entry, change="unchanged", new_sha256=entry.old_sha256, new_size=entry.old_size)


def _conflicts(
    state: TargetState, entries: Sequence[PlanEntry], more: Sequence[Conflict]
) -> tuple[Conflict, ...]:
    edited = state.edited()
    found = []
    for entry in entries:
        if entry.change == "unchanged":
            continue
        if entry.path in edited:
            found.append(Conflict(entry.path, edited[entry.path]))
        elif entry.change == "changed" and not state.is_ours(entry.path):
            found.append(Conflict(entry.path, _FOREIGN))
        found += [conflict for conflict in more if conflict.path == entry.path]
    return tuple(found)
