"""Which published state of a target to go back to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from huggingface_hub import HfApi

from hubpublish.errors import HubError
from hubpublish.layout import CARD, MANIFEST
from hubpublish.publish.history import LIMIT, find_commit, published_states, state_of, stretches
from hubpublish.publish.manifest import Manifest
from hubpublish.publish.target import TargetState, read_target

SHOWN = 10  # states named in an error


@dataclass(frozen=True)
class OldState:
    """A published state to go back to.

    Attributes:
        commit: What holds it.
        target: The target at that commit.
        manifest: The manifest of then.
        passed: Keys of the publications that are given up for it, newest first.
    """

    commit: str
    target: TargetState
    manifest: Manifest
    passed: tuple[str, ...]

    def is_in(self, state: TargetState) -> bool:
        """Whether the target holds this very publication, and what was given up for it is withdrawn.

        Unedited, that is, whatever words its card has.
        """
        found = state.manifest
        if found is None or _made(found) != _made(self.manifest) or state.edited():
            return False
        return set(self.passed) <= {*found.withdrawn, *self.manifest.keys}


def require_publication(state: TargetState) -> Manifest:
    """The manifest of a target that can be rolled back: one of ours.

    Raises:
        HubError: ``repo_not_found``, ``nothing_published``.
    """
    if not state.exists:
        raise HubError(
            f"cannot roll back {state.repo}: there is no such repository, or it is private",
            where=state.repo,
            hint="check the name; for a private repository set HF_TOKEN",
            kind="repo_not_found",
        )
    if state.manifest is None:
        raise HubError(
            f"{state.repo} holds no publication of hubpublish: it has no {MANIFEST} of ours",
            where=state.repo,
            hint=f"check the name; if somebody deleted or replaced {MANIFEST}, put it back",
            kind="nothing_published",
        )
    return state.manifest


def find_old_state(api: HfApi, state: TargetState, revision: str | None) -> OldState:
    """The published state to go back to.

    Args:
        api: The Hub.
        state: What the target holds.
        revision: A commit, tag or branch that is such a state. None: where a rollback brought back what
            is there now, that; otherwise the newest before it with other models or copied files that
            was not withdrawn, or if there is none, the newest that differs in anything.

    Raises:
        HubError: As `require_publication`; ``nothing_to_roll_back``, ``not_a_published_state``; no
            access, no network.
    """
    current = require_publication(state)
    head = _head_of(api, state)
    if revision is None and current.restored is None:
        return _previous(api, state.repo, head, current)
    return _named(api, state.repo, head, revision or str(current.restored), current)


def _made(manifest: Manifest) -> tuple[str, dict[str, str]]:
    known = manifest.free_text
    return manifest.key, manifest.files if known is None else {**manifest.files, CARD: known.outside}


def _previous(api: HfApi, repo: str, head: str, current: Manifest) -> OldState:
    every = list(stretches(api, repo, head))
    # Behind the oldest: somebody may have brought it back by hand, over what was published in between.
    begins = max((at for at, each in enumerate(every) if each.manifest.key == current.key), default=-1)
    candidates = [
        (at, each)
        for at, each in enumerate(every)
        if at > begins and set(each.manifest.keys).isdisjoint((current.key, *current.withdrawn))
    ]
    for at, stretch in sorted(candidates, key=lambda one: one[1].manifest.content == current.content):
        found = state_of(api, repo, stretch)
        if found is not None:
            passed = tuple(key for each in every[:at] for key in each.manifest.keys)
            return OldState(found.commit.id, found.target, found.manifest, passed)
    what = f"{repo} has no earlier publication to go back to among its newest {LIMIT} commits"
    raise _no_such_state(api, repo, head, what, current, "nothing_to_roll_back")


def _named(api: HfApi, repo: str, head: str, revision: str, current: Manifest) -> OldState:
    commit = find_commit(api, repo, head, revision)
    if commit is None:
        what = f"{repo} has no tag or branch {revision}, nor such a commit among its newest {LIMIT}"
        raise _no_such_state(api, repo, head, what, current)
    old = read_target(api, repo, revision=commit)
    if old.manifest is None:
        raise _no_such_state(api, repo, head, f"nothing was published at {revision} of {repo}", current)
    if edited := old.edited():
        named = ", ".join(f"{path} ({why})" for path, why in edited.items())
        what = f"{revision} of {repo} is not as it was published: {named}"
        raise _no_such_state(api, repo, head, what, current)
    passed: list[str] = []
    for stretch in stretches(api, repo, head):
        if any(each.id == commit for each in stretch.commits):
            return OldState(commit, old, old.manifest, tuple(passed))
        passed.extend(stretch.manifest.keys)
    # A tag or branch aside, such as of a history that was squashed since: what is there now is given up.
    return OldState(commit, old, old.manifest, current.keys)


def _no_such_state(
    api: HfApi, repo: str, head: str, what: str, current: Manifest, kind: str = "not_a_published_state"
) -> HubError:
    others = (each for each in published_states(api, repo, head) if each.manifest.key != current.key)
    found = list(islice(others, SHOWN))
    named = "; ".join(
        f"{each.commit.id[:12]} ({each.commit.date:%Y-%m-%d}, source {each.manifest.source_commit[:12]})"
        for each in found
    )
    states = [
        {
            "commit": each.commit.id,
            "date": each.commit.date.isoformat(),
            "source_commit": each.manifest.source_commit,
            "key": each.manifest.key,
        }
        for each in found
    ]
    return HubError(
        what,
        where=f"{api.endpoint}/{repo}/commits/main",
        hint=f"published were, newest first: {named}; name one with --to"
        if found
        else "nothing else was published there; change the recipe and run it",
        kind=kind,
        details={"states": states},
    )


def _head_of(api: HfApi, state: TargetState) -> str:
    if state.head is None:
        raise HubError(
            f"the Hub does not say which commit {state.repo} is at",
            where=f"{api.endpoint}/{state.repo}",
            hint="check the endpoint and the proxy, then run again",
            kind="not_a_hub",
        )
    return state.head
