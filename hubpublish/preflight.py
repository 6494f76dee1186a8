"""What can be known before the work: where to publish, whether anything is left to do, what forbids it.

Nothing is fetched here, and nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from huggingface_hub import HfApi

from hubpublish import publish, source
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.errors import RecipeError
from hubpublish.hub import Access, require_exchange_for
from hubpublish.model import sha256_of
from hubpublish.publish import TargetState
from hubpublish.recipe import Recipe
from hubpublish.source import Upstream

_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Standing:
    """Where the result of a run stands already: its commit, and a page that shows it."""

    commit: str | None
    url: str


def find_target(
    recipe: Recipe, chosen: str | None, environ: Mapping[str, str], *, dry_run: bool
) -> tuple[str, bool]:
    """The repo to publish to, and whether it is known.

    A dry run goes on without the variables of the environment: the repo then bears their names.

    Args:
        recipe: Its target is taken where none is chosen.
        chosen: A repo in place of the recipe's.
        environ: Where the ``${VARIABLES}`` come from.
        dry_run: Whether nothing will be published.

    Raises:
        RecipeError: A variable is unset, or the outcome is no repo to publish to.
    """
    if chosen is not None:
        return recipes.checked_target(recipe, chosen), True
    try:
        return recipes.target_repo(recipe, environ), True
    except RecipeError as unset:
        if unset.kind != "target_unset" or not dry_run:
            raise
        names = {name: name for name in cast("list[str]", unset.details["variables"])}
    return recipes.target_repo(recipe, {**environ, **names}), False


def image_hashes(recipe: Recipe, folder: Path) -> dict[str, str]:
    """SHA-256 of every image that something is verified on; a missing one is the verification's error."""
    specs = [recipe.verify, *(each.verify for each in recipe.variants if each.verify)]
    names = {name for spec in specs for name in spec.inputs.images}
    return {name: sha256_of(folder / name) for name in sorted(names) if (folder / name).is_file()}


def read_target(access: Access, target: str, *, publishes: bool) -> tuple[TargetState, Access]:
    """What the target holds, and the access with which it can be seen.

    A keyless job sees no private repo without its token. It is exchanged for that before the work, and
    again after it: there is no other way to tell a private target from a missing one.

    Raises:
        UsageError: The token of a keyless job would be another repo's.
        HubError: No access, no network.
    """
    if access.keyless and publishes:
        require_exchange_for(access.write, target)
    state = publish.read_target(access.target, target)
    if access.keyless and publishes and not state.exists:
        return publish.read_target(access.write, target), replace(access, target=access.write)
    return state, access


def standing(
    recipe: Recipe,
    commit: str,
    images: Mapping[str, str],
    state: TargetState,
    api: HfApi,
    for_requests: HfApi | None,
) -> Standing | None:
    """Where the result of this run stands already: in the target, or in our open pull request on it.

    Args:
        recipe: As it was written.
        commit: What the source's revision points to.
        images: See `hubpublish.report.run_key`.
        state: What the target holds.
        api: The Hub.
        for_requests: The Hub, with a token; None: a pull request would not do.
    """
    if _is_up_to_date(recipe, commit, state.repo, images, state):
        return Standing(state.head, f"{api.endpoint}/{state.repo}")
    if for_requests is None or not state.exists:
        return None
    request = publish.find_pull_request(for_requests, state.repo)
    if request is None:
        return None
    proposed = publish.read_target(for_requests, state.repo, revision=request.revision)
    if proposed.manifest is not None and publish.withdrawn(state, *proposed.manifest.keys):
        return None  # proposed before it was rolled back
    if _is_up_to_date(recipe, commit, state.repo, images, proposed):
        return Standing(proposed.head, request.url)
    return None


def tag_standing(access: Access, recipe: Recipe, commit: str, state: TargetState, standing: Standing) -> None:
    """Set the tag of what is published already: a run may have died between its commit and the tag.

    Args:
        access: The Hub; with a token that may write if the tag is missing.
        recipe: As it was written.
        commit: What the source's revision points to.
        state: What the target holds.
        standing: Where the result stands; one that is proposed only gets no tag.

    Raises:
        HubError: ``tag_taken``, no permission, no network.
    """
    template, manifest = recipe.target.tag, state.manifest
    if template is None or manifest is None or standing.commit is None or standing.commit != state.head:
        return
    name = publish.tag_name(template, source_commit=commit, key=manifest.key)
    if publish.find_tag(access.target, state.repo, name) != standing.commit:
        same = partial(publish.already_published, key=manifest.key)
        made = publish.first_commit(access.target, state)  # the head may hold more, of other people
        publish.ensure_tag(access.write, state.repo, name, made, same_result=same)


def refuse_early(access: Access, recipe: Recipe, state: TargetState, *, as_pr: bool) -> None:
    """Stop now where publishing would stop at the end, after hours of work.

    Whether a keyless job may write shows only when it does: its token is not asked for before.

    Raises:
        HubError: The token may not write there, the repo does not exist, or its files were edited.
    """
    if not state.exists and recipe.target.create:
        publish.require_write_token(access.write, state.repo)
    elif not (access.keyless and state.exists):
        publish.ensure_target(access.write, state.repo, as_pr=as_pr)
    if not as_pr:
        publish.refuse_edited(state)
        publish.refuse_lost_words(access.target, state, recipe.card.free_text)


def check_license(recipe: Recipe, upstream: Upstream) -> None:
    """Refuse a license that the source does not have, unless the recipe says why.

    Raises:
        RecipeError: They differ and the recipe gives no reason.
    """
    ours, theirs = recipe.card.license, upstream.license
    differs = theirs is not None and ours.lower() != theirs.lower()
    if differs and recipe.card.license_differs_because is None:
        raise RecipeError(
            f"card.license is '{ours}', but the source's card says '{theirs}'",
            where=f"{upstream.repo} at {upstream.commit[:12]}",
            hint="correct card.license, or say why in card.license_differs_because",
            kind="license_differs",
        )


def is_withdrawn(recipe: Recipe, commit: str, images: Mapping[str, str], state: TargetState) -> bool:
    """Whether what a run at this commit would make was rolled back, as far as that is known before it.

    Arguments as for `standing`.
    """
    resolved = _resolved_before(recipe, commit, state.repo, state)
    if resolved is None:
        return False
    keys = (reports.run_key(resolved, images), reports.content_key(resolved, images))
    return publish.withdrawn(state, *keys)


def _is_up_to_date(
    recipe: Recipe, commit: str, target: str, images: Mapping[str, str], state: TargetState
) -> bool:
    """Whether a run at this commit would publish what the target holds, and nobody has edited it."""
    resolved = _resolved_before(recipe, commit, target, state)
    return resolved is not None and publish.already_published(state, reports.run_key(resolved, images))


def _resolved_before(recipe: Recipe, commit: str, target: str, state: TargetState) -> Recipe | None:
    """The recipe of a run at this commit, before anything is fetched; None if it cannot be told.

    The SHA-256 of copied files are not known then. At one commit they are what the target's own report
    says, so those are taken; any other report gives another key.
    """
    copied = _copied_before(recipe, state.report)
    if copied is None:
        return None
    return recipes.resolved(recipe, commit=commit, target=target, copied=copied)


def _copied_before(recipe: Recipe, report: Any) -> dict[str, str] | None:
    """SHA-256 by path of what this recipe copies, from a published report; None if it cannot tell."""
    try:
        found = {str(each["path"]): str(each["sha256"]) for each in report["copied"]}
    except (KeyError, TypeError):
        return None
    if not all(_SHA256.fullmatch(sha256) for sha256 in found.values()):
        return None  # somebody has edited it
    pins = {each.path: each.sha256 for each in recipe.source.copy_files}
    if any(path not in found or pin not in (None, found[path]) for path, pin in pins.items()):
        return None
    return {path: sha for path, sha in found.items() if path in pins or source.is_always_copied(path)}
