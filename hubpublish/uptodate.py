"""Does the target hold already what a run would make? Answered without fetching anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hubpublish import publish, source
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.publish import TargetState
from hubpublish.recipe import Recipe


def is_up_to_date(
    recipe: Recipe, commit: str, target: str, images: Mapping[str, str], state: TargetState
) -> bool:
    """Whether a run at this commit would publish what the target holds, and nobody has edited it.

    The SHA-256 of copied files are not known before they are fetched. At one commit they are what the
    target's own report says, so the key is made with those; any other report gives another key.

    Args:
        recipe: As it was written.
        commit: What the source's revision points to.
        target: The repo to publish to.
        images: See `hubpublish.report.run_key`.
        state: What the target holds.
    """
    copied = _copied_before(recipe, state.report)
    if copied is None:
        return False
    resolved = recipes.resolved(recipe, commit=commit, target=target, copied=copied)
    return publish.already_published(state, reports.run_key(resolved, images))


def _copied_before(recipe: Recipe, report: Any) -> dict[str, str] | None:
    """SHA-256 by path of what this recipe copies, from a published report; None if it cannot tell."""
    try:
        found = {str(each["path"]): str(each["sha256"]) for each in report["copied"]}
    except (KeyError, TypeError):
        return None
    pins = {each.path: each.sha256 for each in recipe.source.copy_files}
    if any(path not in found or pin not in (None, found[path]) for path, pin in pins.items()):
        return None
    return {path: sha for path, sha in found.items() if path in pins or source.is_always_copied(path)}
