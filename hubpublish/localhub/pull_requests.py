"""Pull requests against their target: what changed, what conflicts, the merge.

Files are merged whole: a file that both sides changed differently is a conflict, also where git would
join the two line by line.
"""

from __future__ import annotations

from hubpublish.localhub.git import Change
from hubpublish.localhub.protocol import HubHTTPError
from hubpublish.localhub.repo import Repo


def _changed(repo: Repo, old: str, new: str) -> dict[str, str | None]:
    """Path to new blob id, None where the file is gone."""
    before, after = repo.git.snapshot(old).files, repo.git.snapshot(new).files
    changed: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    for path, entry in after.items():
        if path not in before or before[path].oid != entry.oid:
            changed[path] = entry.oid
    return changed


def _sides(repo: Repo, target: str, number: int) -> tuple[str | None, str, str]:
    ours, theirs = repo.commit_id(target), repo.commit_id(f"refs/pr/{number}")
    return repo.git.merge_base(ours, theirs), ours, theirs


def diff(repo: Repo, target: str, number: int) -> str:
    """What a pull request changes, since it left its target."""
    base, ours, theirs = _sides(repo, target, number)
    return repo.git.diff(base or ours, theirs)


def conflicts(repo: Repo, target: str, number: int) -> list[str]:
    """The files that both sides changed, differently."""
    base, ours, theirs = _sides(repo, target, number)
    if base is None:
        # The target was squashed since: nothing tells who changed what.
        return sorted(_changed(repo, ours, theirs))
    mine, yours = _changed(repo, base, ours), _changed(repo, base, theirs)
    return sorted(path for path, oid in yours.items() if path in mine and mine[path] != oid)


def merge(repo: Repo, target: str, number: int, title: str, user: str) -> str:
    """Merge a pull request into its target; the merge commit.

    Raises:
        HubHTTPError: 409 when there are conflicts.
        RefMovedError: The target moved meanwhile.
    """
    conflicting = conflicts(repo, target, number)
    if conflicting:
        raise HubHTTPError(409, f"This pull request has conflicts: {', '.join(conflicting)}")
    base, ours, theirs = _sides(repo, target, number)
    change = Change()
    for path, oid in _changed(repo, base or ours, theirs).items():
        if oid is not None:
            change.adds[path] = oid
        elif path in repo.git.snapshot(ours).files:
            change.deletes.add(path)
    commit = repo.git.commit([ours, theirs], change, f"{title} (#{number})\n", user)
    repo.git.set_ref(target, commit, ours)
    return commit
