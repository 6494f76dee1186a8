"""The pull requests with bumps: what each stands for, whether one is wanted, opening and updating it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import api
import branches
import texts
from api import GitHub, GitHubError
from branches import GitError

MOST = 3  # open at once
PREFIX = "bump/"
# A pull request that GITHUB_TOKEN opens starts no workflow, or has them wait for somebody's approval. To
# dispatch one is the documented exception, and needs no stored secret.
WORKFLOWS = ("preview.yml", "ci.yml")
RECIPE_LIMIT = 256 * 1024  # bytes
_RECIPE = re.compile(r"configs/[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*\.yaml")  # a name that a branch may have
_SOURCE = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True)
class Bump:
    """A recipe whose pins have to follow upstream.

    Attributes:
        recipe: Its path.
        source: The repo.
        commit: What the repo holds now.
        pins: SHA-256 of the recipe before the bump.

    Raises:
        ValueError: One of them is not what it must be to stand in a branch's name and a text.
    """

    recipe: str
    source: str
    commit: str
    pins: str

    def __post_init__(self) -> None:
        for pattern, value in ((_RECIPE, self.recipe), (_SOURCE, self.source), (_COMMIT, self.commit)):
            if not pattern.fullmatch(value):
                raise ValueError(
                    f"{value!r} cannot be part of a pull request; it has to match {pattern.pattern}"
                )

    @property
    def stem(self) -> str:
        return Path(self.recipe).stem

    @property
    def branch(self) -> str:
        return PREFIX + self.stem

    @property
    def marker(self) -> str:
        """What says in a pull request's text what it stands for; shows nowhere."""
        return f"{self._upstream}{self.pins} -->"

    @property
    def _upstream(self) -> str:
        return f"<!-- hubpublish bump {self.commit} "

    def is_of(self, pull: dict[str, Any]) -> bool:
        """Whether a pull request stands for this very bump."""
        return self.marker in (pull["body"] or "")

    def was_refused_by(self, pull: dict[str, Any]) -> bool:
        """Whether somebody closed a pull request for the same upstream, whatever the recipe was then."""
        return not pull["merged_at"] and self._upstream in (pull["body"] or "")


def open_pulls(github: GitHub) -> dict[str, dict[str, Any]]:
    """The open pull requests with bumps, by branch; none of a fork."""
    return {
        each["head"]["ref"]: each
        for each in github.pages("pulls", state="open")
        if each["head"]["ref"].startswith(PREFIX)
        and each["head"]["repo"]
        and each["head"]["repo"]["full_name"] == github.repository
    }


def base_of(github: GitHub) -> tuple[str, str]:
    """The branch that pull requests are for, and its commit as it was last fetched."""
    name = str(github.get()["default_branch"])
    commit = branches.tip(name)
    if commit is None:
        raise GitError(f"the branch {name} was not fetched")
    return name, commit


def why_not(
    github: GitHub, bump: Bump, pulls: dict[str, dict[str, Any]], base: str, opened: int
) -> str | None:
    """Why a bump is not proposed now; None if it is.

    Args:
        github: To look for what was closed.
        bump: The bump.
        pulls: What is open.
        base: The commit that it would be based on.
        opened: How many are open, or will be.
    """
    pull = pulls.get(bump.branch)
    if pull and bump.is_of(pull):
        return f"pull request {pull['number']} stands for it already"
    commit = branches.tip(bump.branch)
    if commit and not branches.is_ours(commit, base):
        return f"the branch {bump.branch} has commits of somebody else and is left as it is"
    if pull:
        return None
    owner = github.repository.partition("/")[0]
    for each in github.pages("pulls", state="closed", head=f"{owner}:{bump.branch}"):
        if bump.was_refused_by(each):
            return f"pull request {each['number']} for it was closed without merging"
    return f"waits: {MOST} pull requests with bumps are open" if opened >= MOST else None


def propose(github: GitHub, bump: Bump, content: bytes, markdown: str) -> str | None:
    """Open or update the pull request of a bump, and start its workflows; returns its address.

    Args:
        github: The repository.
        bump: What it stands for.
        content: The bumped recipe.
        markdown: What the bump says of itself.

    Raises:
        GitHubError, GitError: It was not possible.
    """
    # What held when the recipes were chosen may hold no more.
    pulls, (base, head) = open_pulls(github), base_of(github)
    before = branches.read(head, bump.recipe)
    if before is None or hashlib.sha256(before).hexdigest() != bump.pins:
        api.notice(f"changed on {base} meanwhile; the next run looks again", bump.recipe)
        return None
    if reason := why_not(github, bump, pulls, head, len(pulls)):
        api.notice(reason, bump.recipe)
        return None
    if len(content) > RECIPE_LIMIT:
        raise GitError("the bumped recipe is too large to be one")
    title = f"Bump {bump.stem} to {bump.source}@{bump.commit[:12]}"
    _push(bump, head, content, title)
    text = {"title": title, "body": _body(bump, markdown)}
    pull = pulls.get(bump.branch)
    if pull:
        pull = github.send("PATCH", f"pulls/{pull['number']}", text)
    else:
        pull = github.send("POST", "pulls", {**text, "head": bump.branch, "base": base})
    for workflow in WORKFLOWS:
        try:
            github.send("POST", f"actions/workflows/{workflow}/dispatches", {"ref": bump.branch})
        except GitHubError as error:
            api.warning(f"{workflow} has to be started by hand on {bump.branch}: {error}", bump.recipe)
    return str(pull["html_url"])


def _push(bump: Bump, head: str, content: bytes, title: str) -> None:
    commit = branches.tip(bump.branch)
    if commit and branches.holds(commit, head, bump.recipe, content):
        return  # a run before this one pushed it, and came no further
    message = f"{title}\n\nSource: {bump.source} at {bump.commit}\n"
    branches.push(bump.branch, branches.write(head, bump.recipe, content, message), commit)


def _body(bump: Bump, markdown: str) -> str:
    end = (
        "\n\nMerging it publishes. The branch follows upstream until somebody else commits to it. "
        "Closed without merging, this is not opened again until upstream moves on."
    )
    room = texts.COMMENT_LIMIT - len(bump.marker) - len(end) - 2
    # It names files and operators of a repo that anybody may have made.
    return f"{bump.marker}\n\n{texts.cut(texts.harmless(markdown), room, '… and more')}{end}"
