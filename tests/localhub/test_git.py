from __future__ import annotations

from pathlib import Path

import pytest

from hubpublish.localhub.attributes import ignore_patterns, lfs_line, lfs_patterns, matches
from hubpublish.localhub.git import NO_OBJECT, Change, Git, GitError, RefMovedError


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git.init(tmp_path / "git")


def commit(git: Git, path: str, *parents: str) -> str:
    return git.commit(parents, Change({path: git.store_bytes(path.encode())}), "message\n", "someone")


def test_a_ref_moves_only_from_where_it_is_believed_to_be(git: Git) -> None:
    first = commit(git, "a")
    second, third = commit(git, "b", first), commit(git, "c", first)
    git.set_ref("refs/heads/main", first, NO_OBJECT)
    git.set_ref("refs/heads/main", second, first)
    with pytest.raises(RefMovedError):
        git.set_ref("refs/heads/main", third, first)
    with pytest.raises(RefMovedError):
        git.set_ref("refs/heads/main", third, NO_OBJECT)
    assert git.commit_of("refs/heads/main") == second


def test_commits_that_have_nothing_in_common(git: Git) -> None:
    assert git.merge_base(commit(git, "a"), commit(git, "b")) is None


def test_a_command_that_fails_says_why(git: Git) -> None:
    with pytest.raises(GitError, match="git cat-file blob 0000"):
        git.blob(NO_OBJECT)


def test_lfs_patterns() -> None:
    attributes = "*.onnx filter=lfs diff=lfs\n# *.txt filter=lfs\n*.md text\n\n" + lfs_line("a b/c.txt")
    patterns = lfs_patterns(attributes)
    assert [
        path for path in ("x.onnx", "d/x.onnx", "x.md", "a b/c.txt", "c.txt") if matches(path, patterns)
    ] == [
        "x.onnx",
        "d/x.onnx",
        "a b/c.txt",
    ]


def test_ignore_patterns() -> None:
    patterns = ignore_patterns("# comment\n\n*.log\ncache/\n!kept.log\n/top.txt\n")
    ignored = ("a.log", "d/a.log", "cache/x", "d/cache/x", "top.txt")
    assert all(matches(path, patterns) for path in ignored)
    assert not any(matches(path, patterns) for path in ("a.txt", "cached", "log"))
