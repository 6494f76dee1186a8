"""A recipe's pins, brought to what its source holds now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi

from hubpublish import preflight, source
from hubpublish import recipe as recipes
from hubpublish.errors import HubpublishError, RecipeError, SourceError
from hubpublish.recipe import Recipe, Variant
from hubpublish.recipe.checks import Location
from hubpublish.recipe.document import read_text
from hubpublish.source import Upstream
from hubpublish.upstream.changes import FileChange, other_changes, pin_changes, refuse_lost
from hubpublish.upstream.differences import ModelDifference, ModelSummary, compare, summarize
from hubpublish.upstream.edit import edited, write
from hubpublish.upstream.hashes import Hashes
from hubpublish.upstream.models import Models
from hubpublish.upstream.pins import REVISION, head_revision, pinned_commit, pins, with_values

Say = Callable[[str], None]


@dataclass(frozen=True)
class PinChange:
    """A pin before and after: the file, and the key in the recipe."""

    path: str
    key: str
    old: str
    new: str


@dataclass(frozen=True)
class Bump:
    """What a bump changes, and why; nothing is written yet.

    Attributes:
        recipe: The recipe's path, as it was given.
        source: The source's repo id.
        url: The source's page.
        pins: The SHA-256 that change.
        old_commit: The commit that the recipe pins; None if it names a branch or a tag.
        new_commit: The source's head.
        differences: Old and new model of each variant that changes.
        files: Other files of the source that changed, as far as an earlier commit is known.
        notes: What else a person should know, a sentence each.
        before: The recipe's text.
        after: The text that it will have.
    """

    recipe: Path
    source: str
    url: str
    pins: tuple[PinChange, ...]
    old_commit: str | None
    new_commit: str
    differences: tuple[ModelDifference, ...]
    files: tuple[FileChange, ...]
    notes: tuple[str, ...]
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.after != self.before

    def write(self) -> None:
        """Write the recipe: all of it or nothing; does nothing if nothing changes.

        Raises:
            UsageError: The file changed since it was read, or cannot be written.
        """
        if self.changed:
            write(self.recipe, self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it, but for the Markdown."""
        return {
            "recipe": str(self.recipe),
            "changed": self.changed,
            "pins": [vars(each) for each in self.pins],
            "commit": {"old": self.old_commit, "new": self.new_commit},
            "differences": [each.model_dump(mode="json") for each in self.differences],
        }


def plan_bump(path: Path, api: HfApi, cache: Path, say: Say, *, download: bool = True) -> Bump:
    """Find out what must change in a recipe for its pins to hold at the source's head.

    Args:
        path: The recipe's file.
        api: The Hub.
        cache: Folder whose ``sources`` holds source files; a run will find there what is fetched here.
        say: Called with a line of progress.
        download: Fetch and compare old and new models; else the hashes alone are looked at.

    Raises:
        RecipeError: It is no recipe, or cannot be changed in place.
        SourceError: No such source, or a file that the recipe names is gone (``file_not_found``).
    """
    text = read_text(path)
    recipe = recipes.loads(text, str(path))
    head = source.look_up(api, recipe.source.repo, head_revision(recipe.source))
    hashes = Hashes(api, cache / "sources")
    refuse_lost(head, pin_changes(recipe, head, hashes))
    new = {pin: hashes.sha256(head, pin.path) for pin in pins(recipe)}
    changed = {pin: sha256 for pin, sha256 in new.items() if sha256 != pin.sha256}
    values: dict[Location, str] = {pin.location: sha256 for pin, sha256 in changed.items()}
    pinned = pinned_commit(recipe.source)
    if pinned not in (None, head.commit):
        values[REVISION] = head.commit
    bumped = with_values(recipe, values)
    after = edited(text, str(path), values, bumped) if values else text
    models = Models(api, recipe, head, cache / "sources", hashes)
    differences = _differences(recipe, bumped, models, say) if download else ()
    return Bump(
        recipe=path,
        source=head.repo,
        url=f"{api.endpoint}/{head.repo}",
        pins=tuple(PinChange(pin.path, pin.key, pin.sha256, sha256) for pin, sha256 in changed.items()),
        old_commit=pinned,
        new_commit=head.commit,
        differences=differences,
        files=_others(recipe, head, models) if values else (),
        notes=_notes(bumped, head) if values else (),
        before=text,
        after=after,
    )


def _differences(recipe: Recipe, bumped: Recipe, models: Models, say: Say) -> tuple[ModelDifference, ...]:
    pairs = zip(recipe.variants, bumped.variants, strict=True)
    return tuple(_difference(old, new, models, say) for old, new in pairs if old != new)


def _difference(old: Variant, new: Variant, models: Models, say: Say) -> ModelDifference:
    say(f"fetching {new.path} as it is now")
    local = models.new(new)  # what forbids this would stop a run as well
    say(f"fetching {old.path} as it is pinned")
    # One after the other: neither model is in memory while the other is read.
    before, why_no_before = _summary("old", lambda: models.old(old))
    after, why_no_after = _summary("new", lambda: local)
    if before is not None and after is not None:
        return compare(new.path, before, after)
    return ModelDifference(
        path=new.path,
        reason="; ".join(filter(None, (why_no_before, why_no_after))),
        old=before.facts if before else None,
        new=after.facts if after else None,
    )


def _summary(which: str, find: Callable[[], Path]) -> tuple[ModelSummary | None, str | None]:
    """A model, or why there is none to compare."""
    failure = "cannot be had any more"
    try:
        path = find()
        failure = "cannot be read"
        return summarize(path), None
    except HubpublishError as error:
        return None, f"the {which} model {failure}: {error.what}"


def _others(recipe: Recipe, head: Upstream, models: Models) -> tuple[FileChange, ...]:
    """What else changed; nothing where no commit with the old files is known."""
    try:
        old = models.holding(_files(recipe))
    except SourceError:
        return ()
    return other_changes(recipe, head, old) if old is not None else ()


def _files(recipe: Recipe) -> Mapping[str, str]:
    return {pin.path: pin.sha256 for pin in pins(recipe)}


def _notes(bumped: Recipe, head: Upstream) -> tuple[str, ...]:
    try:
        preflight.check_license(bumped, head)
    except RecipeError as error:
        return (f"{error.what}: {error.hint}",)
    return ()
