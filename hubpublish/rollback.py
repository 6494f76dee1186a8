"""Undo a publication: have the target hold again what was published before.

Nothing is fetched from the source, nothing is made or verified: what comes back was, when it was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from huggingface_hub import HfApi

from hubpublish import hub, preflight, publish
from hubpublish.layout import MANIFEST
from hubpublish.publish import OldState, Plan, TargetState
from hubpublish.recipe import Recipe
from hubpublish.transform import Say

Restored = Literal["restored", "deleted", "rewritten"]


@dataclass(frozen=True)
class RollbackOptions:
    """How to roll back.

    Attributes:
        to: A commit, tag or branch that is a published state; None: the one before what is there now.
        dry_run: Change nothing on the Hub.
        endpoint: Base URL of the Hub; None: from the environment.
        token: For the Hub; None: the machine's own; False: none.
        target: The repo to roll back, instead of the recipe's.
    """

    to: str | None = None
    dry_run: bool = False
    endpoint: str | None = None
    token: str | bool | None = None
    target: str | None = None


@dataclass(frozen=True)
class RollbackResult:
    """How a rollback ended.

    Attributes:
        status: In a word.
        target: The repo.
        commit: Its head.
        url: A page that shows it.
        to: The commit whose state it holds now, or would.
        source_commit: What that was made from.
        files: What became, or would become, of each file that changes.
    """

    status: Literal["rolled_back", "nothing_to_do", "dry_run"]
    target: str
    commit: str
    url: str
    to: str
    source_commit: str
    files: dict[str, Restored] = field(default_factory=dict)


def roll_back(
    recipe: Recipe, options: RollbackOptions, environ: Mapping[str, str], say: Say
) -> RollbackResult:
    """Roll back the target of a recipe.

    Args:
        recipe: Its target is rolled back, whatever else it says.
        options: How.
        environ: Where the ``${VARIABLES}`` of the target come from.
        say: Called with a line of progress.

    Raises:
        HubpublishError: Any kind. Nothing was changed then, unless it is ``published_differs``, or has
            ``published`` among its details: a commit that stands, and could not be read back.
    """
    access = hub.access(options.endpoint, options.token)
    target, _ = preflight.find_target(recipe, options.target, environ, dry_run=False)
    api = access.read if options.dry_run else access.write
    if not options.dry_run:
        if access.keyless:
            hub.require_exchange_for(api, target)
        publish.ensure_target(api, target)
    state = publish.read_target(api, target)
    publish.require_publication(state)
    say(f"looking for the state to go back to in the history of {target}")
    old = publish.find_old_state(api, state, options.to)
    if old.is_in(state):
        return _result(api, "nothing_to_do", state, str(state.head), old)
    if options.dry_run:
        plan = publish.plan_rollback(api, state, old)
        return _result(api, "dry_run", state, str(state.head), old, plan)
    say(f"rolling back to commit {old.commit[:12]}")
    done = publish.roll_back(api, state, old)
    status: Literal["rolled_back", "nothing_to_do"] = "rolled_back" if done.plan else "nothing_to_do"
    return _result(api, status, state, done.commit, old, done.plan)


def _result(
    api: HfApi,
    status: Literal["rolled_back", "nothing_to_do", "dry_run"],
    state: TargetState,
    commit: str,
    old: OldState,
    plan: Plan | None = None,
) -> RollbackResult:
    return RollbackResult(
        status=status,
        target=state.repo,
        commit=commit,
        url=f"{api.endpoint}/{state.repo}/commit/{commit}",
        to=old.commit,
        source_commit=old.manifest.source_commit,
        files={} if plan is None else _files(plan),
    )


def _files(plan: Plan) -> dict[str, Restored]:
    words: dict[str, Restored] = {entry.path: "restored" for entry in plan.changes}
    words |= {entry.path: "deleted" for entry in plan.changes if entry.change == "deleted"}
    return words | {path: "rewritten" for path in words if path == MANIFEST}  # other keys are withdrawn
