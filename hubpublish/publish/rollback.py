"""Going back: a commit on top of the head that holds an older publication again, with nothing uploaded.

The Hub has every file of it already. Large files are copied by reference; small ones are a part of any
commit, and are read, checked against their hashes and sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi

from hubpublish.errors import HubError
from hubpublish.hub import may_have_landed, retried, status_of, translate, validate_card
from hubpublish.hub.causes import latest_url
from hubpublish.layout import CARD, MANIFEST
from hubpublish.publish.access import explained
from hubpublish.publish.commit import ROUNDS, Message
from hubpublish.publish.history import first_commit
from hubpublish.publish.manifest import FreeText, manifest_with, manifest_with_card
from hubpublish.publish.old_state import OldState, require_publication
from hubpublish.publish.plan import Plan, make_plan, plan_exactly
from hubpublish.publish.read_back import check_published, look_after_lost_answer
from hubpublish.publish.staged import StagedFile, stage_content
from hubpublish.publish.target import TargetState, read_file, read_target

_BRANCH = "main"
_MOVED = frozenset({409, 412})


@dataclass(frozen=True)
class RolledBack:
    """What is on the Hub now; ``plan`` is None where nothing was left to do, and no commit made."""

    commit: str
    plan: Plan | None


class _SentError(Exception):
    """What went wrong when the commit was on its way already: it is not sent again."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def plan_rollback(api: HfApi, state: TargetState, old: OldState) -> Plan:
    """What a rollback would change; nothing is written.

    Its files are nowhere on this machine: of most it has the hashes alone. What people wrote into the
    target's card, where it invites them to, is in the old card too.

    Raises:
        HubError: ``target_edited``: it would overwrite somebody else's work; no access, no network.
    """
    files = {path: _as_it_was(old, path) for path in old.manifest.files}
    text = _manifest_text(api, state, old)
    if CARD in files:
        files[CARD] = stage_content(CARD, read_file(api, old.target, CARD) or b"")
        if files[CARD].sha256 != old.manifest.files[CARD]:  # by words of then
            known = FreeText.of(files[CARD].read().decode())
            text = manifest_with_card(text, files[CARD], known)
    plan = make_plan(api, state, [*files.values(), stage_content(MANIFEST, text)])
    _refuse_conflicts(plan)
    return plan


def roll_back(api: HfApi, state: TargetState, old: OldState) -> RolledBack:
    """Have the target hold an old state again, as one commit on top of its head.

    Plans anew when the head moved meanwhile, and stops where it did by another publication. After a
    lost answer it looks at the head instead of committing again. At the end every file's hash is read
    back from the Hub.

    Args:
        api: The Hub.
        state: What the target holds.
        old: What it is to hold.

    Raises:
        HubError: ``target_edited``, ``conflict``, ``published_differs``, no permission, no network.
    """
    repo, begun = state.repo, require_publication(state).key
    for _ in range(ROUNDS):
        plan = plan_rollback(api, state, old)
        if not plan:
            return RolledBack(str(state.head), None)
        commit = _send(api, plan, old)
        if commit is not None:
            check_published(api, plan, commit)
            return RolledBack(commit, plan)
        state = read_target(api, repo)
        key = require_publication(state).key
        if old.is_in(state):
            return RolledBack(str(state.head), None)
        if key != begun:
            raise _conflict(repo, f"somebody published to {repo} while it was rolled back")
    raise _conflict(repo, f"{repo} changed {ROUNDS} times while we tried to roll it back")


def _conflict(repo: str, what: str) -> HubError:
    hint = "look at its newest commits, then run again if it is still to be rolled back"
    return HubError(what, where=repo, hint=hint, kind="conflict")


def _refuse_conflicts(plan: Plan) -> None:
    if not plan.conflicts:
        return
    named = ", ".join(map(str, plan.conflicts))
    raise HubError(
        f"these files are not as hubpublish left them, and would be overwritten: {named}",
        where=plan.state.repo,
        hint="undo on the Hub what was changed, or move it elsewhere, then roll back",
        kind="target_edited",
        details={"files": list(dict.fromkeys(each.path for each in plan.conflicts)), "head": plan.state.head},
    )


def _as_it_was(old: OldState, path: str) -> StagedFile:
    listed = old.target.files[path]
    return StagedFile(path, Path(path), old.manifest.files[path], listed.git_oid or "", listed.size)


def _manifest_text(api: HfApi, state: TargetState, old: OldState) -> bytes:
    """The manifest of then, but for what is withdrawn now."""
    before = state.manifest.withdrawn if state.manifest else ()
    keys = dict.fromkeys((*old.manifest.withdrawn, *before, *reversed(old.passed)))
    withdrawn = [key for key in keys if key not in old.manifest.keys]
    content = read_file(api, old.target, MANIFEST) or b""
    return manifest_with(content, withdrawn=withdrawn, restored=old.commit)


def _send(api: HfApi, plan: Plan, old: OldState) -> str | None:
    """The commit that holds the plan; None when the head moved and a new plan is needed."""
    repo, content = plan.state.repo, _content(api, plan, old)
    try:
        return _commit(api, plan, old, content)
    except Exception as error:
        if status_of(error) in _MOVED:
            return None
        found = translate(error, HubError, f"roll back {repo}")  # before other requests: it names the last
        if may_have_landed(error):
            after = look_after_lost_answer(api, repo, _BRANCH)
            if not plan_exactly(api, after, plan.staged):
                return first_commit(api, after)
            if after.head != plan.state.head:
                return None
        if found is None:
            raise
        raise explained(api, repo, found) from None


def _content(api: HfApi, plan: Plan, old: OldState) -> dict[str, bytes]:
    """What is sent, by path: the small files that change, with the very bytes that they had."""
    content = {}
    for file in (file for file in plan.staged if _changes(plan, file.path)):
        if file.content is not None:
            content[file.path] = file.content
        elif old.target.files[file.path].git_oid is not None:
            content[file.path] = read_file(api, old.target, file.path) or b""
    if CARD in content:
        _validate(api, content[CARD], old)
    return content


def _changes(plan: Plan, path: str) -> bool:
    return any(entry.path == path for entry in plan.changes)


def _validate(api: HfApi, card: bytes, old: OldState) -> None:
    try:
        validate_card(api, card.decode("utf-8", "replace"))
    except HubError as error:
        if error.kind == "card_invalid":
            error.hint = f"the Hub takes the card of {old.commit[:12]} no more; name another state with --to"
        raise


def _commit(api: HfApi, plan: Plan, old: OldState, content: Mapping[str, bytes]) -> str:
    repo, message = plan.state.repo, _message(old)
    added = [CommitOperationAdd(path, data) for path, data in content.items()]
    copied = [
        CommitOperationCopy(entry.path, entry.path, src_revision=old.commit)
        for entry in plan.changes
        if entry.change != "deleted" and entry.path not in content
    ]
    gone = [entry.path for entry in plan.changes if entry.change == "deleted"]
    deleted = [CommitOperationDelete(path, is_folder=False) for path in gone]
    # Prepared with no ignore rules: create_commit would leave out, silently, what a .gitignore names.
    retried(
        lambda: api.preupload_lfs_files(
            repo, added, revision=_BRANCH, gitignore_content="", free_memory=False
        )
    )

    def attempt() -> str:
        try:
            return api.create_commit(
                repo,
                [*added, *copied, *deleted],
                commit_message=message.title,
                commit_description=message.description,
                revision=_BRANCH,
                parent_commit=plan.state.head,
            ).oid
        except Exception as error:
            if urlsplit(latest_url() or "").path.endswith(f"/{repo}/commit/{_BRANCH}"):
                raise _SentError(error) from error
            raise  # from what the client looks up first: that can be asked again

    try:
        return str(retried(attempt))
    except _SentError as sent:
        error = sent.error
    raise error


def _message(old: OldState) -> Message:
    source = old.manifest.source_commit
    return Message(
        f"Roll back to the state of {old.commit[:12]} (source {source[:12]})",
        f"Every file is as commit {old.commit} published it, from source commit {source}.\n"
        "manifest.json says which publications were withdrawn by that: no run makes them again by itself.",
    )
