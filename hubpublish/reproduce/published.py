"""What a repo says of itself, read as anybody's data: it may be wrong, forged or of another version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import HfApi
from pydantic import ValidationError

from hubpublish import publish
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.errors import HubError, RecipeError, VerificationError
from hubpublish.layout import MANIFEST, RECIPE, REPORT
from hubpublish.publish import Manifest, TargetState
from hubpublish.recipe import Recipe
from hubpublish.recipe.writer import to_yaml
from hubpublish.report import Report
from hubpublish.words import printable

_COMMIT = re.compile(r"[0-9a-f]{40}")


class NotRebuiltError(Exception):
    """Why nothing can be made from a report, in words. It is a result, and reaches no user as it is."""


@dataclass(frozen=True)
class Publication:
    """A publication as the repo has it at one commit."""

    state: TargetState
    commit: str
    manifest: Manifest
    report: Report


def read_publication(api: HfApi, repo: str, revision: str) -> Publication:
    """Read manifest and report at a revision; nothing large is downloaded.

    Raises:
        HubError: ``repo_not_found``, ``nothing_published``, no such revision, no access, no network.
        VerificationError: ``report_unreadable``.
    """
    state = publish.read_target(api, repo, revision=revision)
    where = f"{api.endpoint}/{repo}"
    if not state.exists:
        raise HubError(
            f"cannot reproduce {repo}: there is no such repository, or it is private",
            where=where,
            hint="check the name; for a private repository set HF_TOKEN",
            kind="repo_not_found",
        )
    manifest, report = state.manifest, state.report
    if manifest is None or state.head is None or report is None:
        raise HubError(
            f"{repo} holds no publication of hubpublish at {revision}: "
            f"it has no readable {MANIFEST if manifest is None else REPORT} of ours",
            where=where,
            hint="check the name and the revision",
            kind="nothing_published",
        )
    return Publication(state, state.head, manifest, _report_of(report, f"{repo}/{REPORT}"))


def recipe_of(report: Report) -> Recipe:
    """The report's recipe, with the checks that every recipe goes through; all its paths are safe.

    Raises:
        NotRebuiltError: This version does not know what it asks for, or it leaves something open.
    """
    try:
        recipe = recipes.loads(to_yaml(report.recipe), RECIPE)  # whose line numbers are those of recipe.yaml
    except RecipeError as error:
        raise NotRebuiltError(f"the recipe is not one that this version knows: {error}") from None
    except (RecursionError, ValueError):
        raise NotRebuiltError("the report's recipe cannot be read") from None
    if not _COMMIT.fullmatch(recipe.source.revision):
        raise NotRebuiltError("the report's recipe names no commit of its source")
    source = report.source
    if (source.repo, source.commit) != (recipe.source.repo, recipe.source.revision):
        raise NotRebuiltError("the report's source is not that of its recipe")
    if [each.path for each in recipe.variants] != [each.path for each in report.variants]:
        raise NotRebuiltError("the report's variants are not those of its recipe")
    return recipe


def _report_of(data: object, where: str) -> Report:
    known = data if isinstance(data, Mapping) else {}
    # The version first: in a report of another version everything else may rightly be different.
    version = known.get("schema_version")
    if version != reports.REPORT_SCHEMA:
        raise _unreadable(f"schema_version {version!r:.40} is not known", where, known)
    try:
        report = Report.model_validate(data)
        report.to_json().encode()  # JSON may hold half characters, which no file of ours can
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise _unreadable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where, known) from None
    except (RecursionError, ValueError):
        raise _unreadable("it holds what cannot be written as UTF-8", where, known) from None
    return report


def _unreadable(why: str, where: str, data: Mapping[str, Any]) -> VerificationError:
    versions = data.get("versions")
    then = versions.get("hubpublish") if isinstance(versions, Mapping) else None
    return VerificationError(
        printable(f"the report is not one that this version reads: {why[:200]}"),
        where=where,
        hint=printable(f"use the hubpublish that wrote it{f', {then!s:.20}' if then else ''}"),
        kind="report_unreadable",
    )
