"""What a commit really holds, asked of the Hub once it is made."""

from __future__ import annotations

from huggingface_hub import HfApi
from huggingface_hub.hf_api import RepoFile

from hubpublish.errors import HubError
from hubpublish.hub import retried, translated
from hubpublish.publish.plan import Plan
from hubpublish.publish.target import TargetState, read_target


def check_published(api: HfApi, plan: Plan, commit: str) -> None:
    """Read back from the Hub what a commit holds at our paths, and compare every hash.

    Raises:
        HubError: ``published_differs``, with the paths; or why it cannot be read, with the commit, which
            stands, as ``published`` among the details.
    """
    repo = plan.state.repo
    gone = [entry.path for entry in plan.entries if entry.change == "deleted"]
    paths = [*(file.path for file in plan.staged), *gone]
    try:
        with translated(HubError, f"read back what was published as commit {commit[:12]}", repo=repo):
            found = retried(lambda: api.get_paths_info(repo, paths, revision=commit))
    except HubError as error:
        error.details["published"] = commit
        raise
    hashes = {
        file.path: file.lfs.sha256 if file.lfs else file.blob_id
        for file in found
        if isinstance(file, RepoFile)
    }
    wrong = [
        file.path for file in plan.staged if hashes.get(file.path) not in (file.sha256, file.git_oid)
    ] + [path for path in gone if path in hashes]
    if wrong:
        raise HubError(
            f"what {repo} holds at commit {commit[:12]} is not what was published: {', '.join(wrong)}",
            where=f"{api.endpoint}/{repo}/commit/{commit}",
            hint="do not use this commit: go back with `hubpublish rollback`, or publish again with --as-pr; "
            "and report it to the Hub",
            kind="published_differs",
            details={"files": wrong, "commit": commit},
        )


def look_after_lost_answer(api: HfApi, repo: str, revision: str) -> TargetState:
    """What a branch holds after a commit whose answer was lost.

    Raises:
        HubError: That cannot be seen either; it says what may have happened.
    """
    try:
        return read_target(api, repo, revision=revision)
    except HubError as error:
        raise HubError(
            f"{error.what}; before, the answer to a commit was lost, and it may stand",
            where=error.where,
            hint=f"{error.hint}; then run again: it looks first, and does nothing twice",
            kind=error.kind,
            details={**error.details, "may_have_landed": True},
        ) from None
