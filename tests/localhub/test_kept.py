from __future__ import annotations

from pathlib import Path

import pytest

from hubpublish.localhub.git import NO_OBJECT, Change, Git
from hubpublish.localhub.kept import Kept, branch_tip


@pytest.fixture
def git(tmp_path: Path) -> Git:
    git = Git.init(tmp_path / "git")
    git.set_ref("refs/heads/main", commit(git), NO_OBJECT)
    return git


def commit(git: Git, *parents: str) -> str:
    return git.commit(parents, Change({"a": git.store_bytes(b"a")}), "message\n", "someone")


def test_the_last_answers_are_kept_and_those_that_fit() -> None:
    kept = Kept[str](2, lambda answer: len(answer) < 3)
    asked: list[str] = []

    def answer(key: str) -> str:
        return kept.get(key, lambda: asked.append(key) or key)  # type: ignore[func-returns-value]

    assert [answer(key) for key in ("a", "b", "a", "c", "b", "a", "long", "long")] == [
        *("a", "b", "a", "c", "b", "a", "long", "long")
    ]
    assert asked == ["a", "b", "c", "a", "long", "long"]


def test_what_fails_is_asked_again() -> None:
    kept = Kept[int](2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 1) == 1


def test_a_branch_is_read_where_git_wrote_it(git: Git) -> None:
    first = git.line("rev-parse", "refs/heads/main")
    assert branch_tip(git.path, "refs/heads/main") == git.commit_of("refs/heads/main") == first
    git.set_ref("refs/heads/main", second := commit(git, first), first)
    git.set_ref("refs/pr/1", first, NO_OBJECT)
    assert [git.commit_of(f"refs/{name}") for name in ("heads/main", "pr/1")] == [second, first]
    git.delete_ref("refs/pr/1")
    for name in ("refs/pr/1", "refs/heads", "refs/heads/main/x", "refs/heads/other"):
        assert branch_tip(git.path, name) == ""
        assert git.commit_of(name) is None
        assert not git.has_ref(name)


def test_what_only_git_can_tell_is_asked_of_git(git: Git) -> None:
    first = git.line("rev-parse", "refs/heads/main")
    git.tag("v1", first, "words", "someone")
    assert branch_tip(git.path, "refs/tags/v1") is None
    assert git.commit_of("refs/tags/v1") == first
    git.run("symbolic-ref", "refs/heads/link", "refs/heads/main")
    assert git.commit_of("refs/heads/link") == first
    git.run("pack-refs", "--all")
    assert branch_tip(git.path, "refs/heads/main") is None
    assert git.commit_of("refs/heads/main") == git.commit_of("refs/tags/v1") == first
    assert git.commit_of("refs/heads/other") is None
    assert git.has_ref("refs/heads/main")
    assert git.commit_of("refs/heads/" + "x" * 300) is None  # longer than a file's name


def test_a_commit_is_known_only_where_it_is(git: Git, tmp_path: Path) -> None:
    """What is kept of all repositories is what objects hold, not that they are there."""
    first = git.line("rev-parse", "refs/heads/main")
    assert git.commit_of(first) == git.commit_of(first[:8]) == first
    assert git.snapshot(first).files["a"].size == 1
    assert Git.init(tmp_path / "other").commit_of(first) is None
