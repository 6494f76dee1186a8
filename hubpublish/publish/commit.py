"""One atomic commit on top of the head that was read, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi

from hubpublish.errors import HubError
from hubpublish.hub import may_have_landed, status_of, translate, validate_card
from hubpublish.layout import CARD, MANIFEST
from hubpublish.publish.access import explained
from hubpublish.publish.free_text import merged_with_request
from hubpublish.publish.history import first_commit
from hubpublish.publish.manifest import Manifest, parse_manifest
from hubpublish.publish.plan import (
    Conflict,
    Plan,
    but_for_signature,
    make_plan,
    plan_exactly,
    refuse_conflicts,
)
from hubpublish.publish.pull_request import PullRequest, describe, find_pull_request, update_text
from hubpublish.publish.read_back import check_published, look_after_lost_answer
from hubpublish.publish.staged import StagedFile, changed_on_disk
from hubpublish.publish.tag import check_tag, ensure_tag
from hubpublish.publish.target import TargetState, already_published, read_card, read_target, withdrawn

ROUNDS = 5  # plans made before giving up on a target that keeps moving
_MOVED = frozenset({409, 412})


@dataclass(frozen=True)
class Message:
    """A commit's title and description; for a pull request, its title and text."""

    title: str
    description: str = ""


@dataclass(frozen=True)
class Published:
    """What is on the Hub now. ``changed`` is False when it was there already."""

    repo: str
    commit: str
    changed: bool
    plan: Plan
    pull_request: str | None = None


def publish(
    api: HfApi,
    repo: str,
    staged: Sequence[StagedFile],
    message: Message,
    *,
    as_pr: bool = False,
    tag: str | None = None,
    again: bool = False,
) -> Published:
    """Have the target (or a pull request on it) hold exactly the staged files, in one commit.

    Plans against the head, commits with that head as parent, and plans anew when it moved meanwhile;
    after a lost answer it looks at the head instead of committing again. Nothing to change, no
    commit. At the end every file's hash is read back from the Hub; then, and only then, the tag is set.
    What people wrote into the target's card, where it invites them to, is in the card that replaces it.

    Args:
        api: The Hub.
        repo: The target; ``ensure_target`` has passed.
        staged: All files, manifest.json among them.
        message: Title and description.
        as_pr: Open a pull request, or bring the one opened before up to date.
        tag: The tag of what is published; a pull request gets none.
        again: Publish also what was rolled back there.

    Raises:
        HubError: ``target_edited``, ``conflict``, ``withdrawn``, ``tag_taken``, ``published_differs``, no
            permission, no network. Where a commit stands all the same, it is ``published`` among the details.
    """
    ours = _manifest_of(staged)

    def same_result(state: TargetState) -> bool:
        return already_published(state, ours.key)

    def rolled_back() -> None:
        _refuse_withdrawn(read_target(api, repo), ours)

    if tag is not None and not as_pr:
        check_tag(api, repo, tag, None, same_result=same_result)
    for _ in range(ROUNDS):
        plan = make_plan(api, read_target(api, repo), staged)
        if not again:
            _refuse_withdrawn(plan.state, ours)
        published = _as_pull_request(api, plan, message) if as_pr else _directly(api, plan, message)
        if published is not None:
            if tag is not None and not as_pr:
                commit = published.commit
                ensure_tag(api, repo, tag, commit, same_result=same_result, unless=rolled_back)
            return published
    raise HubError(
        f"{repo} changed {ROUNDS} times while we tried to publish",
        where=repo,
        hint="run again when nobody else is publishing to it",
        kind="conflict",
    )


def commit_plan(
    api: HfApi, plan: Plan, message: Message, *, revision: str = "main", create_pr: bool = False
) -> CommitInfo:
    """Send a plan as one commit whose parent must be the head that was planned against.

    The Hub checks the card first: nothing is uploaded for a card that it refuses.

    Raises:
        HubError: ``card_invalid``; ``staged_changed``: a file is not what was planned; ``not_a_hub``.
        Exception: Whatever the client raises; ``publish`` knows what each means.
    """
    repo, base = plan.state.repo, None if create_pr else revision
    if plan.state.head is None:  # there is no repo without a commit, and no lock without its parent
        raise HubError(
            f"the Hub does not say which commit {repo} is at",
            where=f"{api.endpoint}/{repo}",
            hint="check the endpoint and the proxy, then run again",
            kind="not_a_hub",
        )
    local = {file.path: file for file in plan.staged}
    gone = [entry.path for entry in plan.changes if entry.change == "deleted"]
    added = [_addition(local[entry.path]) for entry in plan.changes if entry.change != "deleted"]
    if any(operation.path_in_repo == CARD for operation in added):
        validate_card(api, local[CARD].read().decode("utf-8"))
    # Sent ahead with no ignore rules: create_commit would leave out, silently, what a .gitignore of
    # the target names.
    api.preupload_lfs_files(
        repo, added, revision=base, create_pr=create_pr, gitignore_content="", free_memory=False
    )
    return api.create_commit(
        repo,
        [*added, *(CommitOperationDelete(path, is_folder=False) for path in gone)],
        commit_message=message.title,
        commit_description=message.description,
        revision=base,
        create_pr=create_pr,
        parent_commit=plan.state.head,
    )


def _manifest_of(staged: Sequence[StagedFile]) -> Manifest:
    manifest = next((file for file in staged if file.path == MANIFEST), None)
    known = parse_manifest(manifest.read()) if manifest is not None else None
    if known is None:
        raise ValueError(f"{MANIFEST} is not among the staged files")
    return known


def is_withdrawn(state: TargetState, staged: Sequence[StagedFile]) -> bool:
    """Whether these very files, or what makes them, were rolled back on the target."""
    return withdrawn(state, *_manifest_of(staged).keys)


def _refuse_withdrawn(state: TargetState, ours: Manifest) -> None:
    """Somebody may roll back what another run is about to publish."""
    if withdrawn(state, *ours.keys):
        raise HubError(
            "this result was rolled back there, and is not published again by itself",
            where=state.repo,
            hint="change the recipe, or publish it again with --force",
            kind="withdrawn",
        )


def _directly(api: HfApi, plan: Plan, message: Message) -> Published | None:
    repo = plan.state.repo
    if not plan and plan.state.head is not None:
        return Published(repo, plan.state.head, changed=False, plan=plan)
    refuse_conflicts(plan)
    commit = _send(api, plan, message, "main")
    if commit is None:
        return None
    check_published(api, plan, commit)
    return Published(repo, commit, changed=True, plan=plan)


def _as_pull_request(api: HfApi, plan: Plan, message: Message) -> Published | None:
    repo = plan.state.repo
    if not plan and plan.state.head is not None:
        return Published(repo, plan.state.head, changed=False, plan=plan)
    text = describe(message.description, plan.conflicts)
    request = find_pull_request(api, repo)
    if request is not None:
        return _update(api, plan, request, Message(message.title, text))
    return _open(api, plan, Message(message.title, text))


def _open(api: HfApi, plan: Plan, message: Message) -> Published | None:
    repo = plan.state.repo
    try:
        info = commit_plan(api, plan, message, create_pr=True)
        commit, url = info.oid, info.pr_url
    except Exception as error:
        if status_of(error) in _MOVED:
            return None
        # Opening is not idempotent: after a lost answer the request may be there.
        request = find_pull_request(api, repo) if may_have_landed(error) else None
        head = _head_holding(api, plan, request.revision) if request is not None else None
        if request is None or head is None:
            raise _failed(api, error, repo) from None
        commit, url = head, request.url
    check_published(api, plan, commit)
    return Published(repo, commit, changed=True, plan=plan, pull_request=url)


def _update(api: HfApi, plan: Plan, request: PullRequest, message: Message) -> Published | None:
    repo = plan.state.repo
    ahead = _ahead(api, plan, read_target(api, repo, revision=request.revision))
    if not ahead and ahead.state.head is not None:
        update_text(api, repo, request, message.description)
        return Published(repo, ahead.state.head, changed=False, plan=plan, pull_request=request.url)
    _refuse_edited_request(plan, ahead, request)
    # The text first: a run that dies in between is done again, as the commit is what says that it is done.
    update_text(api, repo, request, message.description)
    commit = _send(api, ahead, message, request.revision)
    if commit is None:
        return None
    check_published(api, ahead, commit)
    return Published(repo, commit, changed=True, plan=plan, pull_request=request.url)


def _ahead(api: HfApi, plan: Plan, state: TargetState) -> Plan:
    """The plan for the branch of the pull request, with what people wrote into the card there."""
    known = state.manifest.free_text if state.manifest else None
    if known is None or CARD not in state.files:
        return but_for_signature(plan_exactly(api, state, plan.staged))
    made = merged_with_request(plan.staged, read_card(api, state), known)
    lost = [Conflict(CARD, why) for why in made.lost]
    return but_for_signature(plan_exactly(api, state, made.files, lost))


def _refuse_edited_request(plan: Plan, ahead: Plan, request: PullRequest) -> None:
    """Somebody else's commits on the pull request's branch are work too.

    What stands there as it stands on the target is no such commit; the request's text explains it.
    """
    here, there = plan.state.files, ahead.state.files
    conflicts = [each for each in ahead.conflicts if here.get(each.path) != there.get(each.path)]
    if conflicts:
        raise HubError(
            f"somebody changed files on our pull request: {', '.join(map(str, conflicts))}",
            where=request.url,
            hint="merge or close that pull request, then run again",
            kind="target_edited",
            details={"files": [conflict.path for conflict in conflicts]},
        )


def _send(api: HfApi, plan: Plan, message: Message, revision: str) -> str | None:
    """The commit that holds the plan; None when the head moved and a new plan is needed."""
    try:
        return commit_plan(api, plan, message, revision=revision).oid
    except Exception as error:
        if status_of(error) in _MOVED:
            return None
        if may_have_landed(error):
            after = look_after_lost_answer(api, plan.state.repo, revision)
            if not plan_exactly(api, after, plan.staged):
                return first_commit(api, after)
            if after.head != plan.state.head:
                return None
        raise _failed(api, error, plan.state.repo) from None


def _head_holding(api: HfApi, plan: Plan, revision: str) -> str | None:
    state = read_target(api, plan.state.repo, revision=revision)
    return None if plan_exactly(api, state, plan.staged) else state.head


def _failed(api: HfApi, error: Exception, repo: str) -> Exception:
    found = translate(error, HubError, f"publish to {repo}")
    return explained(api, repo, found) if found is not None else error


def _addition(file: StagedFile) -> CommitOperationAdd:
    operation = CommitOperationAdd(file.path, str(file.local) if file.content is None else file.content)
    # The client hashes what it is going to send: it must be what was verified and planned.
    if operation.upload_info.sha256.hex() != file.sha256:
        raise changed_on_disk(file)
    return operation
