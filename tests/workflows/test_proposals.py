"""Which bumps are proposed, and how a branch is written: the scripts by themselves, on a made-up status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import branches
import pytest

from tests.workflows.conftest import PERSON, commit_as_a_person, git_as_a_person
from tests.workflows.fake_github import FakeGitHub
from tests.workflows.machine import ROOT

RIGHTS = {"contents": "write", "pull-requests": "write", "actions": "write"}
NAMES = ("a", "b", "c", "d")
HEAD = "0123456789abcdef" * 2 + "01234567"


@dataclass
class Desk:
    """A checkout with four recipes, all of which upstream changed."""

    github: FakeGitHub
    clone: Path
    out: Path

    def status(self, **changes: dict[str, Any]) -> dict[str, Any]:
        return {
            "recipes": [
                {
                    "recipe": f"configs/{name}.yaml",
                    "source": f"acme/{name}",
                    "commit": HEAD,
                    "target": f"acme/{name}-webgpu",
                    "upstream": "changed",
                    "action": "bump",
                    "error": None,
                    **changes.get(name, {}),
                }
                for name in NAMES
            ]
        }

    def watch(self, command: str, *arguments: Path, code: int = 0) -> str:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.clone.parent),
            "LANG": "C.UTF-8",
            "GITHUB_API_URL": self.github.url,
            "GITHUB_REPOSITORY": self.github.repository,
            "GITHUB_TOKEN": self.github.token(RIGHTS),
        }
        script = ROOT / ".github/scripts/watch.py"
        ran = subprocess.run(
            [sys.executable, script, command, *arguments],
            cwd=self.clone,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.returncode == code, ran.stderr
        return ran.stdout + ran.stderr

    def choose(self, **changes: dict[str, Any]) -> tuple[list[str], str]:
        """The chosen recipes by name, and what was said."""
        git_as_a_person(self.clone, "fetch", "--quiet", "--prune", "origin")
        path = self.clone / "status.json"
        path.write_text(json.dumps(self.status(**changes)))
        said = self.watch("choose", path, self.out)
        chosen = json.loads((self.out / "chosen.json").read_text())
        return [Path(each["recipe"]).stem for each in chosen], said

    def propose(self, text: str = "bumped", markdown: str = "What changed.", code: int = 0) -> str:
        """What `hubpublish bump` would have left, and then the proposal."""
        for each in json.loads((self.out / "chosen.json").read_text()):
            stem = Path(each["recipe"]).stem
            (self.out / f"{stem}.yaml").write_text(f"{text} {stem}\n")
            (self.out / f"{stem}.md").write_text(markdown)
        return self.watch("propose", self.out, code=code)


@pytest.fixture
def desk(github: FakeGitHub, tmp_path: Path) -> Desk:
    clone = tmp_path / "clone"
    git_as_a_person(tmp_path, "clone", "--quiet", str(github.bare), str(clone))
    commit_as_a_person(clone, {f"configs/{name}.yaml": f"recipe {name}\n" for name in NAMES})
    return Desk(github, clone, tmp_path / "bumps")


def test_at_most_three_are_open_and_the_others_wait(desk: Desk) -> None:
    chosen, said = desk.choose()
    assert chosen == ["a", "b", "c"]
    assert "::notice file=configs/d.yaml::waits: 3 pull requests with bumps are open" in said
    desk.propose()
    assert [pull["ref"] for pull in desk.github.pulls.values()] == ["bump/a", "bump/b", "bump/c"]
    assert desk.choose()[0] == []

    desk.github.pulls[2].update(state="closed", merged_at="2030-01-01T00:00:00Z")
    assert desk.choose(b={"action": None, "upstream": "unchanged"})[0] == ["d"]
    desk.propose()
    assert [pull["ref"] for pull in desk.github.pulls.values() if pull["state"] == "open"] == [
        *("bump/a", "bump/c", "bump/d")
    ]


def test_an_open_one_is_updated_also_when_three_are_open(desk: Desk) -> None:
    desk.choose()
    desk.propose()
    chosen, _ = desk.choose(a={"commit": "f" * 40})
    assert chosen == ["a"]
    desk.propose("bumped again")
    assert len(desk.github.pulls) == 3
    assert "ffffffffffff" in desk.github.pulls[1]["title"]


def test_what_was_chosen_is_looked_at_again_before_it_is_proposed(desk: Desk) -> None:
    desk.choose()
    commit_as_a_person(desk.clone, {"configs/a.yaml": "edited meanwhile\n"})
    for number in range(2):
        desk.github.pull(f"bump/other{number}")
    said = desk.propose()
    assert "configs/a.yaml::changed on main meanwhile" in said
    assert "configs/c.yaml::waits" in said
    assert [pull["ref"] for pull in desk.github.pulls.values()][2:] == ["bump/b"]


def test_pull_requests_of_forks_do_not_count(desk: Desk) -> None:
    for name in NAMES:
        desk.github.pull(f"bump/{name}", fork="mallory/models", sha="1" * 40)
    assert desk.choose()[0] == ["a", "b", "c"]


def test_one_that_was_closed_stays_closed_until_upstream_moves_on(desk: Desk) -> None:
    desk.choose()
    desk.propose()
    desk.github.pulls[1]["state"] = "closed"
    chosen, said = desk.choose()
    assert "a" not in chosen
    assert "pull request 1 for it was closed without merging" in said
    commit_as_a_person(desk.clone, {"configs/a.yaml": "recipe a with other words\n"})
    assert "a" not in desk.choose()[0]
    desk.github.pulls[2].update(state="closed", merged_at="2030-01-01T00:00:00Z")
    assert desk.choose(a={"commit": "f" * 40})[0] == ["a", "b"]


def test_one_whose_reason_went_away_is_left_and_said(desk: Desk) -> None:
    desk.choose()
    desk.propose()
    chosen, said = desk.choose(a={"action": "publish", "upstream": "unchanged"})
    assert "a" not in chosen
    assert "::notice file=configs/a.yaml::upstream holds what is pinned: pull request 1 is left open" in said
    assert desk.github.pulls[1]["state"] == "open"


def test_a_branch_that_a_person_committed_to_is_left_as_it_is(desk: Desk) -> None:
    desk.choose()
    desk.propose()
    chosen, _ = desk.choose(a={"commit": "f" * 40})
    assert chosen == ["a"]
    commit_as_a_person(desk.clone, {"configs/a.yaml": "theirs\n"}, branch="bump/a")
    theirs, writes = desk.github.sha("bump/a"), desk.github.writes()
    assert "the branch bump/a has commits of somebody else" in desk.propose("bumped again")  # meanwhile
    chosen, said = desk.choose(a={"commit": "f" * 40})
    assert chosen == []
    assert "::notice file=configs/a.yaml::the branch bump/a has commits of somebody else" in said
    assert (desk.github.sha("bump/a"), desk.github.writes()) == (theirs, writes)


def test_a_setting_that_forbids_pull_requests_is_said_and_the_next_run_goes_on(desk: Desk) -> None:
    desk.github.may_open_pulls = False
    desk.choose()
    said = desk.propose(code=1)
    assert said.count("settings for Actions must let it create pull requests") == 3
    pushed = desk.github.sha("bump/a")
    desk.github.may_open_pulls = True
    assert desk.choose()[0] == ["a", "b", "c"]
    desk.propose()
    assert desk.github.sha("bump/a") == pushed
    assert len(desk.github.pulls) == 3


def test_a_workflow_that_cannot_be_started_is_a_warning(desk: Desk) -> None:
    desk.choose()
    git_as_a_person(desk.clone, "rm", "--quiet", ".github/workflows/ci.yml")
    git_as_a_person(desk.clone, "commit", "--quiet", "-m", "no ci")
    git_as_a_person(desk.clone, "push", "--quiet", "origin", "HEAD:main")
    said = desk.propose()
    assert "::warning file=configs/a.yaml::ci.yml has to be started by hand on bump/a" in said
    assert ("preview.yml", "bump/a") in desk.github.dispatched


def test_a_bump_that_fails_is_an_error_at_the_end(desk: Desk) -> None:
    chosen, _ = desk.choose(b={"action": None}, c={"action": None}, d={"action": None})
    assert chosen == ["a"]
    said = desk.watch("bump", desk.clone / "status.json", desk.out, code=1)  # a text that is no recipe
    assert said.startswith("bumps=\n")
    assert "::error file=configs/a.yaml::" in said
    assert list(desk.out.glob("*.yaml")) == []


@pytest.mark.parametrize(
    "status",
    [
        {"recipe": "configs/-x.yaml"},
        {"recipe": "configs/../a.yaml"},
        {"recipe": "elsewhere/a.yaml"},
        {"source": "a/b --> <script>"},
        {"commit": None},
    ],
)
def test_what_cannot_stand_in_a_branch_or_a_text_is_not_bumped(desk: Desk, status: dict[str, Any]) -> None:
    path = desk.clone / str(status.get("recipe", "configs/a.yaml"))
    path.parent.mkdir(exist_ok=True)
    path.write_text("recipe a\n")
    chosen, said = desk.choose(a=status)
    assert chosen == ["b", "c", "d"]
    assert "::not bumped: " in said


def test_a_description_of_anybodys_words_notifies_nobody_and_fits(desk: Desk) -> None:
    desk.choose()
    desk.propose(markdown="`@alice` and #1\n" * 10_000)
    body = desk.github.pulls[1]["body"]
    assert "@alice" not in body
    assert "#1" not in body
    assert "Merging it publishes." in body


class TestBranches:
    @pytest.fixture
    def clone(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(desk.clone)
        return desk.clone

    def test_a_push_loses_against_whoever_was_there_first(self, desk: Desk, clone: Path) -> None:
        base = branches.tip("main")
        assert base
        ours = branches.write(base, "configs/a.yaml", b"new\n", "Bump")
        commit_as_a_person(clone, {"configs/a.yaml": "theirs\n"}, branch="bump/a")
        theirs = desk.github.sha("bump/a")
        with pytest.raises(branches.GitError):
            branches.push("bump/a", ours, None)
        with pytest.raises(branches.GitError):
            branches.push("bump/a", ours, base)
        assert desk.github.sha("bump/a") == theirs

    def test_a_commit_of_ours_changes_one_file_and_no_checkout(self, desk: Desk, clone: Path) -> None:
        base = branches.tip("main")
        assert base
        made = branches.write(base, "configs/a.yaml", b"new\n", "Bump")
        assert git_as_a_person(clone, "diff", "--name-only", base, made) == "configs/a.yaml"
        assert git_as_a_person(clone, "status", "--porcelain") == ""
        assert branches.is_ours(made, base)
        assert branches.is_ours(base, base)
        assert branches.holds(made, base, "configs/a.yaml", b"new\n")
        assert not branches.holds(made, base, "configs/a.yaml", b"newer\n")

    @pytest.mark.parametrize("who", ["AUTHOR", "COMMITTER"])
    def test_a_commit_that_a_person_had_a_hand_in_is_not_ours(
        self, desk: Desk, clone: Path, who: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base = branches.tip("main")
        assert base
        ours = branches.write(base, "configs/a.yaml", b"new\n", "Bump")
        tree = git_as_a_person(clone, "rev-parse", f"{ours}^{{tree}}")
        for name, value in PERSON.items():
            bot = branches.BOT if name.endswith("NAME") else branches.BOT_MAIL
            monkeypatch.setenv(name, value if who in name else bot)
        amended = branches.git("commit-tree", tree, "-p", base, "-m", "Bump").decode().strip()
        assert not branches.is_ours(amended, base)
        on_top = branches.git("commit-tree", tree, "-p", ours, "-m", "More").decode().strip()
        assert not branches.is_ours(on_top, base)

    def test_a_link_is_no_recipe(self, desk: Desk, clone: Path) -> None:
        (clone / "configs/link.yaml").symlink_to("a.yaml")
        git_as_a_person(clone, "add", "configs/link.yaml")
        git_as_a_person(clone, "commit", "--quiet", "-m", "a link")
        with pytest.raises(branches.GitError, match="is no file"):
            branches.write("HEAD", "configs/link.yaml", b"new\n", "Bump")
        with pytest.raises(branches.GitError, match="is no file"):
            branches.write("HEAD", "configs/new.yaml", b"new\n", "Bump")
