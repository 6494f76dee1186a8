"""What a target holds, against what a run would publish to it now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi

from hubpublish import preflight, publish
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.layout import MANIFEST, RECIPE, REPORT
from hubpublish.publish import TargetState
from hubpublish.recipe import Recipe
from hubpublish.source import Upstream, is_always_copied
from hubpublish.upstream.hashes import Hashes

_COMMIT = re.compile("[0-9a-f]{40}")  # a report is whatever somebody made of it
Published = Literal["up_to_date", "behind", "missing", "edited", "withdrawn", "unknown"]


def published(
    api: HfApi,
    recipe: Recipe,
    folder: Path,
    commit: str,
    at: Upstream | None,
    state: TargetState,
    hashes: Hashes,
) -> Published:
    """How the target stands to what a run would publish.

    Args:
        api: The Hub.
        recipe: As it was written.
        folder: The recipe's folder, where its images are.
        commit: The source's commit that a run would take.
        at: The source there; None where a run could not be: nothing is withdrawn then.
        state: What the target holds.
        hashes: To look up the files that a run would copy.
    """
    if edits(state):
        return "edited"
    if state.manifest is None:
        return "missing"
    images = preflight.image_hashes(recipe, folder)
    if preflight.standing(recipe, commit, images, state, api, None) is not None:
        return "behind" if _lacks_tag(api, recipe, commit, state) else "up_to_date"
    if at is not None and state.manifest.withdrawn:
        resolved = recipes.resolved(
            recipe, commit=commit, target=state.repo, copied=_copied(recipe, at, hashes)
        )
        keys = (reports.run_key(resolved, images), reports.content_key(resolved, images))
        if publish.withdrawn(state, *keys):
            return "withdrawn"
    return "behind"


def _lacks_tag(api: HfApi, recipe: Recipe, commit: str, state: TargetState) -> bool:
    """Whether the tag of what is published is missing: a run that died before it is made good by the next."""
    template = recipe.target.tag
    if template is None or state.manifest is None:
        return False
    name = publish.tag_name(template, source_commit=commit, key=state.manifest.key)
    return publish.find_tag(api, state.repo, name) is None


def edits(state: TargetState) -> dict[str, str]:
    """What a person should look at before a run: by path, in words."""
    if found := publish.obstacles(state):
        return found
    remains = state.manifest is None and not state.files.keys().isdisjoint((REPORT, RECIPE))
    return {MANIFEST: "deleted since"} if remains else {}


def source_commit(state: TargetState, repo: str) -> str | None:
    """The commit of the source that the target was published from; None if it is not of that source."""
    source = _at(state.report, "source")
    commit = _at(source, "commit")
    known = isinstance(commit, str) and _COMMIT.fullmatch(commit) and _at(source, "repo") == repo
    return str(commit) if known else None


def known_hashes(state: TargetState, old: Upstream | None) -> dict[str, str]:
    """SHA-256 by git blob id, as far as what was published proves it.

    Args:
        state: The target; its manifest has both hashes of every file, those that were copied among them.
        old: The source at the commit that the target was published from; its report has the SHA-256 of
            the models there.
    """
    found: dict[str, str] = {}
    if state.manifest is not None:
        files = state.manifest.files
        found = {oid: files[path] for path, oid in state.manifest.git_oids.items() if path in files}
    if old is not None and old.commit == source_commit(state, old.repo):
        for path, sha256 in _sources(state.report):
            listed = old.files.get(path)
            if listed is not None and listed.git_oid is not None:
                found[listed.git_oid] = sha256
    return found


def _copied(recipe: Recipe, at: Upstream, hashes: Hashes) -> Mapping[str, str]:
    """SHA-256 of what a run would copy, in its order."""
    named = {each.path: each.sha256 for each in recipe.source.copy_files}
    always = sorted(path for path in at.files if is_always_copied(path) and path not in named)
    found = {path: pin or hashes.sha256(at, path) for path, pin in named.items()}
    return found | {path: hashes.sha256(at, path) for path in always}


def _sources(report: object) -> Iterator[tuple[str, str]]:
    variants = _at(report, "variants")
    for variant in variants if isinstance(variants, list) else ():
        records = _at(variant, "source")
        for record in records if isinstance(records, list) else ():
            path, sha256 = _at(record, "path"), _at(record, "sha256")
            if isinstance(path, str) and isinstance(sha256, str):
                yield path, sha256


def _at(value: object, key: str) -> Any:
    """A report is whatever the target holds under that name."""
    return value.get(key) if isinstance(value, dict) else None
