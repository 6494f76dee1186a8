"""comment.yml: which pull request it comments on, and what of an artifact it shows there."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.archives import RECIPE, about, packed, preview
from tests.workflows.fake_github import BODY_LIMIT, FakeGitHub
from tests.workflows.records import Job
from tests.workflows.runner import Runner

FORK = "mallory/models"


class Desk:
    """A pull request of a fork, and the previews that it sends."""

    def __init__(self, github: FakeGitHub, runner: Runner) -> None:
        self.github, self.runner = github, runner
        self.sha = "c0ffee" * 6 + "abcd"
        self.pull = github.pull("patch", fork=FORK, sha=self.sha)

    def sends(self, *artifacts: bytes, names: Sequence[str] = (), **changes: Any) -> Job | None:
        run = self.github.run(**{"branch": "patch", "sha": self.sha, "repository": FORK, **changes})
        for index, content in enumerate(artifacts):
            self.github.artifact(run, names[index] if names else f"preview-{index}", content)
        event = {"workflow_run": self.github.runs[run]}
        done = self.runner.run("comment.yml", "workflow_run", event)
        assert done.conclusion == "success", done.log
        return next(iter(done.jobs["comment"]), None)

    @property
    def body(self) -> str:
        (comment,) = self.github.comments.values()
        assert comment["pull"] == self.pull
        return str(comment["body"])


@pytest.fixture
def desk(github: FakeGitHub, tmp_path: Path) -> Desk:
    folder = tmp_path / "machines"
    folder.mkdir()
    return Desk(github, Runner(folder, github, {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}))


class TestWhichPullRequest:
    def test_of_a_fork_gets_one_comment_that_is_kept_up_to_date(self, desk: Desk) -> None:
        desk.sends(preview("first"))
        assert "first" in desk.body
        desk.sends(preview("second"))
        assert "second" in desk.body
        assert "first" not in desk.body

    def test_is_not_written_to_when_nothing_changed(self, desk: Desk) -> None:
        desk.sends(preview())
        run = max(desk.github.runs)
        writes = desk.github.writes()
        desk.runner.run("comment.yml", "workflow_run", {"workflow_run": desk.github.runs[run]})
        assert desk.github.writes() == writes

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"sha": "0" * 40}, id="a commit that is no head"),
            pytest.param({"repository": "eve/models"}, id="another fork with a branch of that name"),
            pytest.param({"repository": "mallory/other"}, id="another repository of the same owner"),
            pytest.param({"branch": "other"}, id="another branch"),
            pytest.param({"event": "push"}, id="a run for another event"),
        ],
    )
    def test_is_only_the_one_whose_head_the_run_is_of(self, desk: Desk, changes: dict[str, str]) -> None:
        job = desk.sends(preview(), **changes)
        assert job
        assert "::notice::no open pull request has this run's commit as its head" in job.log
        assert desk.github.comments == {}

    def test_is_none_that_was_closed(self, desk: Desk) -> None:
        desk.github.pulls[desk.pull]["state"] = "closed"
        desk.sends(preview())
        assert desk.github.comments == {}

    def test_is_never_one_that_the_artifact_names(self, desk: Desk) -> None:
        desk.github.pull("main", title="of somebody else")
        claim = {"recipe": RECIPE, "failed": False, "number": 2, "pr": 2}
        desk.sends(packed(("about.json", json.dumps(claim).encode()), ("preview.md", b"x")))
        assert {each["pull"] for each in desk.github.comments.values()} == {desk.pull}

    @pytest.mark.parametrize("conclusion", ["cancelled", "action_required", "skipped"])
    def test_is_none_for_a_run_that_did_not_come_to_an_end(self, desk: Desk, conclusion: str) -> None:
        assert desk.sends(preview(), conclusion=conclusion) is None

    def test_whose_comment_is_recognized_by_its_author_and_after_many_others(self, desk: Desk) -> None:
        marker = "<!-- hubpublish preview -->"
        forged = desk.github.comment(desk.pull, f"{marker} mine", "mallory")
        ours = desk.github.comment(desk.pull, "a comment of another workflow", "github-actions[bot]")
        for _ in range(120):
            desk.github.comment(desk.pull, "words", "alice")
        desk.sends(preview("first"))
        desk.sends(preview("second"))
        assert desk.github.comments[forged]["body"] == f"{marker} mine"
        assert desk.github.comments[ours]["body"] == "a comment of another workflow"
        (made,) = [each for each in desk.github.comments.values() if "second" in each["body"]]
        assert made["user"]["login"] == "github-actions[bot]"

    def test_is_told_when_no_recipe_is_concerned_any_more(self, desk: Desk) -> None:
        desk.sends(preview())
        desk.sends()
        assert "No recipe is concerned." in desk.body
        assert "All is well" not in desk.body


class TestArtifacts:
    def test_of_several_recipes_make_one_comment_in_the_order_of_their_names(self, desk: Desk) -> None:
        desk.sends(preview("of b", "configs/b.yaml"), preview("of a", "configs/a.yaml"))
        assert 0 < desk.body.index("of a") < desk.body.index("of b")

    def test_are_cut_to_what_github_takes_and_each_gets_its_share(self, desk: Desk) -> None:
        long = "```diff\n" + "+ a line of a long card, and some more of it\n" * 20_000
        desk.sends(
            *(preview(long, f"configs/long{index}.yaml") for index in range(3)),
            preview("short\n" * 100, "configs/short.yaml"),
        )
        assert BODY_LIMIT - 500 < len(desk.body) <= BODY_LIMIT
        assert (
            desk.body.count("… and more, [in this run](https://github.com/acme/models/actions/runs/9000)")
            == 3
        )
        assert "short\n" * 100 in desk.body
        assert desk.body.count("```") == 6  # closed where they were cut

    def test_that_are_hostile_are_refused_and_said_to_be(self, desk: Desk) -> None:
        hostile = packed(about(), ("../preview.md", b"x"))
        job = desk.sends(hostile, preview("of the other", "configs/other.yaml"))
        assert job
        assert "::warning::preview-0: it has no preview.md" in job.log
        assert "Not shown: preview-0: it has no preview.md" in desk.body
        assert "of the other" in desk.body

    def test_that_are_too_large_are_not_even_fetched(self, desk: Desk) -> None:
        run = desk.github.run(branch="patch", sha=desk.sha, repository=FORK)
        number = desk.github.artifact(run, "preview-0", preview())
        desk.github.artifacts[number]["size_in_bytes"] = 33 * 2**20
        desk.runner.run("comment.yml", "workflow_run", {"workflow_run": desk.github.runs[run]})
        assert "too large" in desk.body
        assert not any(call.path.endswith("/zip") for call in desk.github.calls)

    def test_that_lie_about_their_size_are_not_read_to_the_end(self, desk: Desk) -> None:
        run = desk.github.run(branch="patch", sha=desk.sha, repository=FORK)
        number = desk.github.artifact(run, "preview-0", bytes(33 * 2**20))
        desk.github.artifacts[number]["size_in_bytes"] = 100
        desk.runner.run("comment.yml", "workflow_run", {"workflow_run": desk.github.runs[run]})
        assert "preview-0: more than" in desk.body

    def test_of_other_names_are_not_looked_at(self, desk: Desk) -> None:
        desk.sends(preview("one"), preview("two"), names=["preview-0", "preview-0](x)"])
        assert "one" in desk.body
        assert "two" not in desk.body

    def test_of_a_second_attempt_count(self, desk: Desk) -> None:
        desk.sends(preview("before"), preview("after"), names=["preview-0", "preview-0"])
        assert "after" in desk.body
        assert "before" not in desk.body

    def test_beyond_the_first_twenty_are_only_named(self, desk: Desk) -> None:
        desk.sends(*(preview(f"text {n}", f"configs/r{n}.yaml") for n in range(22)))
        assert desk.body.count("<details>") == 20
        assert desk.body.count("left out") == 2

    def test_are_fetched_without_the_token(self, desk: Desk) -> None:
        desk.sends(preview())
        fetched = [call for call in desk.github.calls if call.path.startswith("/blob/")]
        assert [(call.status, call.authorized) for call in fetched] == [(200, False)]

    def test_cannot_make_the_comment_act(self, desk: Desk) -> None:
        text = "@alice @acme/all fix #1, acme/models#2, GH-3 <!-- <b> ![x](https://e.org/x) &#64;bob\n/merge"
        desk.sends(preview(text))
        shown = desk.body.partition("</summary>")[2]
        for acting in ("@alice", "@acme", "#1", "#2", "GH-3", "<!--", "<b>", "![", "&#64;", "\n/merge"):
            assert acting not in shown
