"""The tag of a publication: set when its files are known to be there, and never moved."""

from __future__ import annotations

from collections.abc import Callable

from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from hubpublish.errors import HubError
from hubpublish.hub import may_have_landed, retried, status_of, translated
from hubpublish.publish.access import explained
from hubpublish.publish.target import TargetState, read_target

SHORTENED = 12  # hexadecimal digits that stand for a commit or a key in a tag

SameResult = Callable[[TargetState], bool]
"""Whether a state of the target is the publication that the tag is for, at another commit."""


def tag_name(template: str, *, source_commit: str, key: str) -> str:
    """The tag that a recipe's ``target.tag`` stands for.

    Args:
        template: May hold ``{source}`` and ``{key}``.
        source_commit: The source repo's commit.
        key: The key of the run.
    """
    return template.replace("{source}", source_commit[:SHORTENED]).replace("{key}", key[:SHORTENED])


def find_tag(api: HfApi, repo: str, name: str) -> str | None:
    """The commit at which a tag is; None if there is no such tag, or no such repo.

    Raises:
        HubError: No access, no network.
    """
    with translated(HubError, f"look for the tag '{name}'", repo=repo):
        try:
            refs = retried(lambda: api.list_repo_refs(repo))
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            return None
    return next((ref.target_commit for ref in refs.tags if ref.name == name), None)


def check_tag(
    api: HfApi, repo: str, name: str, expected: str | None, *, same_result: SameResult | None = None
) -> None:
    """Make sure that a tag is free, or where it should be: before any work is done for it.

    Args:
        api: The Hub.
        repo: The target.
        name: The tag.
        expected: The commit at which it may be already; None: at none.
        same_result: Whether what another commit holds may have the tag, being the same publication.

    Raises:
        HubError: ``tag_taken``; no access, no network.
    """
    _stands(api, repo, name, expected, same_result)


def ensure_tag(
    api: HfApi,
    repo: str,
    name: str,
    commit: str,
    *,
    same_result: SameResult | None = None,
    unless: Callable[[], None] | None = None,
) -> bool:
    """Have a published commit bear a tag. A tag that is there is never moved.

    After a lost answer it looks for the tag instead of setting it again.

    Args:
        api: The Hub.
        repo: The target.
        name: The tag.
        commit: What was published, read back and found right.
        same_result: See `check_tag`.
        unless: Called first, and raises a HubError if the commit is not to have the tag any more.

    Returns:
        Whether it was set now.

    Raises:
        HubError: ``tag_taken``, no permission, no network; with the commit, which stands, as
            ``published`` among the details.
    """
    try:
        if unless is not None:
            unless()
        with translated(HubError, f"tag commit {commit[:12]}", repo=repo):
            if _stands(api, repo, name, commit, same_result):
                return False
            # Unlike a commit, the same tag set twice is one tag.
            return retried(lambda: _set(api, repo, name, commit, same_result))
    except HubError as error:
        raise _untagged(repo, name, commit, explained(api, repo, error)) from None


def _set(api: HfApi, repo: str, name: str, commit: str, same_result: SameResult | None) -> bool:
    try:
        api.create_tag(repo, tag=name, revision=commit)
    except Exception as error:
        there = status_of(error) == 409
        if not (there or may_have_landed(error)) or not _stands(api, repo, name, commit, same_result):
            raise
        return not there
    return True


def _stands(api: HfApi, repo: str, name: str, commit: str | None, same_result: SameResult | None) -> bool:
    """Whether the tag is where it should be; False if there is none."""
    found = find_tag(api, repo, name)
    if found is None or found == commit:
        return found is not None
    if same_result is not None and same_result(read_target(api, repo, revision=found)):
        return True
    wanted = "another result" if commit is None else f"commit {commit[:12]}"
    raise HubError(
        f"the tag '{name}' of {repo} is at commit {found[:12]}, and is not moved to {wanted}",
        where=f"{api.endpoint}/{repo}/tree/{name}",
        hint="give target.tag a name for each result, such as v-{key}, or delete that tag",
        kind="tag_taken",
        details={"tag": name, "tagged": found, "commit": commit},
    )


def _untagged(repo: str, name: str, commit: str, error: HubError) -> HubError:
    then = "" if error.kind in ("tag_taken", "withdrawn") else "; the next run sets the missing tag"
    return HubError(
        f"{repo} is published, as commit {commit[:12]}, which stands; but its tag '{name}' is missing: "
        f"{error.what}",
        where=error.where,
        hint=f"{error.hint or 'run again'}{then}",
        kind=error.kind,
        details={**error.details, "published": commit, "tag": name},
    )
