"""The branches of bumps: each is one commit of ours on top of the base, and changes one file.

What is not that is somebody else's work, and is never overwritten. Nothing here touches the checkout.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

REMOTE = "origin"
BOT = "github-actions[bot]"
BOT_MAIL = "41898282+github-actions[bot]@users.noreply.github.com"
_MODES = ("100644", "100755")  # a file; no link, which would write elsewhere


class GitError(Exception):
    """What git said, in a line."""


def git(*arguments: str, given: bytes = b"", environ: Mapping[str, str] | None = None) -> bytes:
    """Run git; returns what it printed.

    Raises:
        GitError: It failed.
    """
    done = subprocess.run(
        ["git", *arguments],
        input=given,
        capture_output=True,
        env={**os.environ, **(environ or {})},
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise GitError(f"git {arguments[0]}: {said[-1]}")
    return done.stdout


def update() -> None:
    """Fetch every branch of the remote."""
    git("fetch", "--quiet", "--prune", REMOTE, f"+refs/heads/*:refs/remotes/{REMOTE}/*")


def tip(branch: str) -> str | None:
    """The commit of a branch of the remote, as it was last fetched; None if there is none."""
    try:
        return (
            git("rev-parse", "--verify", "--quiet", f"refs/remotes/{REMOTE}/{branch}^{{commit}}")
            .decode()
            .strip()
        )
    except GitError:
        return None


def is_ours(commit: str, base: str) -> bool:
    """Whether nothing but one commit of ours stands between a branch and its base."""
    mails = git("log", "--format=%ae %ce", f"{base}..{commit}").decode().splitlines()
    return mails in ([], [f"{BOT_MAIL} {BOT_MAIL}"])


def read(commit: str, path: str) -> bytes | None:
    """A file of a commit; None if it is not there."""
    try:
        return git("cat-file", "blob", f"{commit}:{path}")
    except GitError:
        return None


def holds(commit: str, base: str, path: str, content: bytes) -> bool:
    """Whether a branch makes just this change of its base already."""
    fork = git("merge-base", commit, base).decode().strip()
    changed = git("diff", "--name-only", "-z", fork, commit).decode().split("\0")
    return changed == [path, ""] and read(commit, path) == content and read(fork, path) == read(base, path)


def write(base: str, path: str, content: bytes, message: str) -> str:
    """A commit on top of the base that changes one file of it.

    Raises:
        GitError: The base has no such file.
    """
    mode = git("ls-tree", base, "--", path).decode().partition(" ")[0]
    if mode not in _MODES:
        raise GitError(f"{path} is no file of {base}")
    blob = git("hash-object", "-w", "--stdin", given=content).decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git("read-tree", base, environ=index)
        git("update-index", "--cacheinfo", f"{mode},{blob},{path}", environ=index)
        tree = git("write-tree", environ=index).decode().strip()
    people = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", BOT), ("EMAIL", BOT_MAIL))
    }
    return git("commit-tree", tree, "-p", base, given=message.encode(), environ=people).decode().strip()


def push(branch: str, commit: str, expected: str | None) -> None:
    """Put a branch at a commit, if it is still where it was looked at; None: if it does not exist.

    Raises:
        GitError: Somebody was there first, or the push is not allowed.
    """
    lease = f"--force-with-lease=refs/heads/{branch}:{expected or ''}"
    git("push", "--quiet", lease, REMOTE, f"{commit}:refs/heads/{branch}")
