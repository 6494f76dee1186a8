"""Has a recipe's source moved, and is its target what a run would publish? Asked of the Hub alone."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi
from pydantic import BaseModel, ConfigDict

from hubpublish import preflight, publish, source
from hubpublish import recipe as recipes
from hubpublish.errors import HubError, HubpublishError, RecipeError, SourceError
from hubpublish.hub import redact
from hubpublish.layout import CARD
from hubpublish.publish import TargetState
from hubpublish.recipe import Recipe
from hubpublish.source import Upstream
from hubpublish.upstream.changes import (
    FileChange,
    What,
    other_changes,
    pin_changes,
    refuse_lost,
    what_changed,
)
from hubpublish.upstream.hashes import Hashes
from hubpublish.upstream.pins import head_revision, pinned_commit
from hubpublish.upstream.target import Published, edits, known_hashes, published, source_commit

Action = Literal["bump", "publish", "look"]
SOMETHING_TO_DO = 10  # exit code


class RecipeStatus(BaseModel):
    """A recipe against its source and its target.

    Attributes:
        recipe: Its path, as it was given.
        source: The source's repo id; None if the recipe cannot be read.
        commit: The head of the source's revision, or of its default branch if the recipe pins a commit.
        target: The target's repo id; None if a variable of it is unset.
        upstream: ``changed``: a pin does not hold any more, or the pinned commit is not the head.
        files: The files that changed, also those that the recipe does not take.
        what: What kinds of files those are.
        published: The target against what a run would publish now.
        edited: What somebody else did to the target, by path.
        action: ``bump``: the pins must follow upstream; ``publish``: they hold, and the target does not
            have the result; ``look``: a person must.
        error: Why something could not be told, as ``--json`` prints errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: str
    source: str | None = None
    commit: str | None = None
    target: str | None = None
    upstream: Literal["unchanged", "changed", "unknown"] = "unknown"
    files: tuple[FileChange, ...] = ()
    what: tuple[What, ...] = ()
    published: Published = "unknown"
    edited: dict[str, str] = {}
    action: Action | None = None
    error: dict[str, Any] | None = None


def status(paths: Sequence[Path], api: HfApi, environ: Mapping[str, str]) -> tuple[RecipeStatus, ...]:
    """The status of every recipe; one that fails does not stop the others.

    No model is downloaded, unless it is outside of LFS and nobody has hashed it yet. A repo that
    several recipes share is asked for once.

    Args:
        paths: Recipe files.
        api: The Hub.
        environ: Where the ``${VARIABLES}`` of the targets come from.
    """
    with tempfile.TemporaryDirectory(prefix="hubpublish-status-", ignore_cleanup_errors=True) as scratch:
        asking = _Asking(api, environ, Path(scratch))
        return _without_rivals([asking.status(path) for path in paths])


def _without_rivals(statuses: Sequence[RecipeStatus]) -> tuple[RecipeStatus, ...]:
    """Recipes with one target would replace each other's publications at every run: errors, both."""
    found = Counter(each.target.lower() for each in statuses if each.target)
    return tuple(
        each.model_copy(update={"error": _rivals(each).to_dict(), "action": "look"})
        if each.target and found[each.target.lower()] > 1 and each.error is None
        else each
        for each in statuses
    )


def _rivals(status: RecipeStatus) -> RecipeError:
    return RecipeError(
        f"more than one of these recipes publishes to {status.target}, and each would replace the other's",
        where=status.recipe,
        hint="give each recipe a target of its own, or make it one recipe with more variants",
        kind="target_shared",
    )


def _internal(error: Exception) -> HubpublishError:
    return HubpublishError(
        f"internal error: {type(error).__name__}: {redact(' '.join(str(error).split()))[:200]}",
        hint="this is a fault of hubpublish; report it with this line",
    )


def exit_code(statuses: Sequence[RecipeStatus], *, tell: bool) -> int:
    """The first error's exit code; else, if ``tell``, 10 when there is something to do for any recipe."""
    for each in statuses:
        if each.error is not None:
            return int(each.error["exit_code"])
    return SOMETHING_TO_DO if tell and any(each.action for each in statuses) else 0


class _Asking:
    """What is asked once for all recipes."""

    def __init__(self, api: HfApi, environ: Mapping[str, str], scratch: Path) -> None:
        self._api = api
        self._environ = environ
        self._scratch = scratch
        self._look_up: Callable[[str, str], Upstream] = cache(partial(source.look_up, api))
        self._read_target: Callable[[str], TargetState] = cache(partial(publish.read_target, api))

    def status(self, path: Path) -> RecipeStatus:
        facts: dict[str, Any] = {"recipe": str(path)}
        try:
            for found in self._facts(recipes.load(path), path.parent):
                facts |= found
        except HubpublishError as error:
            facts |= {"error": error.to_dict(), "action": "look"}
        except Exception as error:  # a repo that nobody foresaw must not hide the other recipes
            facts |= {"error": _internal(error).to_dict(), "action": "look"}
        return RecipeStatus(**facts)

    def _facts(self, recipe: Recipe, folder: Path) -> Iterator[dict[str, Any]]:
        """What is known, bit by bit: an error leaves standing what came before it."""
        repo, pinned = recipe.source.repo, pinned_commit(recipe.source)
        yield {"source": repo}
        target = _target(recipe, self._environ)
        yield {"target": target}
        head = self._look_up(repo, head_revision(recipe.source))
        yield {"commit": head.commit}
        state = self._read_target(target) if target else None
        old = self._before(repo, pinned or (source_commit(state, repo) if state else None), head)
        hashes = Hashes(self._api, self._scratch, known_hashes(state, old) if state else None)
        files = pin_changes(recipe, head, hashes)
        moved = bool(files) or pinned not in (None, head.commit)
        if old is not None:
            files += other_changes(recipe, head, old)
        what = what_changed(recipe, files)
        yield {"upstream": "changed" if moved else "unchanged", "files": files, "what": what}
        # Where a run would start; it could not, if the pinned commit is gone or a pin does not hold.
        at = old if pinned else None if moved else head
        stands: Published = "unknown"
        if state is not None:
            stands = published(self._api, recipe, folder, pinned or head.commit, at, state, hashes)
            yield {"published": stands, "edited": edits(state)}
        if pinned is None:
            refuse_lost(head, files)  # as a run would
        action = _action(stands, moved=moved, is_lost=any(each.is_lost for each in files))
        if action == "publish" and at is not None:
            preflight.check_license(recipe, at)
        if action == "publish" and state is not None and (lost := self._lost_words(recipe, state)):
            yield {"published": "edited", "edited": lost}
            action = "look"
        yield {"action": action}

    def _lost_words(self, recipe: Recipe, state: TargetState) -> dict[str, str]:
        """Why a run would lose what people wrote into the card, by path."""
        try:
            publish.refuse_lost_words(self._api, state, recipe.card.free_text)
        except HubError as error:
            if error.kind != "target_edited":
                raise
            return {CARD: error.what}
        return {}

    def _before(self, repo: str, commit: str | None, head: Upstream) -> Upstream | None:
        """The source at an earlier commit; None where that is not known, or out of reach."""
        if commit is None or commit == head.commit:
            return head if commit else None
        try:
            return self._look_up(repo, commit)
        except SourceError as error:
            if error.kind != "revision_not_found":
                raise
            return None


def _target(recipe: Recipe, environ: Mapping[str, str]) -> str | None:
    try:
        return recipes.target_repo(recipe, environ)
    except RecipeError as error:
        if error.kind != "target_unset":
            raise
        return None


def _action(stands: Published, *, moved: bool, is_lost: bool) -> Action | None:
    if is_lost:
        return "look"
    if moved:
        return "bump"
    if stands in ("edited", "withdrawn"):
        return "look"
    return "publish" if stands in ("behind", "missing") else None
