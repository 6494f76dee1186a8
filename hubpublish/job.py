"""What a run has to do: how it was asked, and what is fixed once its source is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hubpublish import publish
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.recipe import Recipe
from hubpublish.source import FetchedSource
from hubpublish.transform import Say
from hubpublish.workspace import Workspace


@dataclass(frozen=True)
class RunOptions:
    """How to run a recipe.

    Attributes:
        out: Folder for what is staged, the preview and the log.
        cache: Folder for source files and reference outputs; kept.
        dry_run: Change nothing on the Hub; write a preview instead.
        as_pr: Open or update a pull request instead of committing.
        variant: Take only the variant with this path; for a dry run alone.
        endpoint: Base URL of the Hub; None: from the environment.
        token: For the Hub; None: the machine's own; False: none.
        target: Publish to this repo instead of the recipe's.
        force: Run although the target already holds this result.
        sign: Sign what is published, with the identity that the environment offers.
    """

    out: Path
    cache: Path
    dry_run: bool = False
    as_pr: bool = False
    variant: str | None = None
    endpoint: str | None = None
    token: str | bool | None = None
    target: str | None = None
    force: bool = False
    sign: bool = False

    @property
    def workspace(self) -> Workspace:
        """What is in the folder ``out``."""
        return Workspace(self.out)


@dataclass(frozen=True)
class Job:
    """What a run has to do, once its source is there: nothing of it can move any more."""

    recipe: Recipe
    folder: Path
    fetched: FetchedSource
    target: str
    images: Mapping[str, str]
    options: RunOptions
    say: Say

    @cached_property
    def resolved(self) -> Recipe:
        """The recipe of exactly this publication."""
        copied = {file.path: file.sha256 for file in self.fetched.copied}
        return recipes.resolved(self.recipe, commit=self.fetched.commit, target=self.target, copied=copied)

    @cached_property
    def key(self) -> str:
        """See `hubpublish.report.run_key`."""
        return reports.run_key(self.resolved, self.images)

    @cached_property
    def content_key(self) -> str:
        """See `hubpublish.report.content_key`."""
        return reports.content_key(self.resolved, self.images)

    @cached_property
    def tag(self) -> str | None:
        """The tag of what is published, if the recipe wants one."""
        template = self.recipe.target.tag
        return template and publish.tag_name(template, source_commit=self.fetched.commit, key=self.key)
