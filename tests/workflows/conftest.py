"""A repository with recipes, on a GitHub and a Hub of this machine, and machines to run its workflows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hubpublish.localhub import LocalHub
from tests.publication import TARGET, TOKEN, Publication, recipe_data
from tests.workflows.archives import RECIPE
from tests.workflows.fake_github import FakeGitHub
from tests.workflows.machine import IDENTITY, ROOT
from tests.workflows.records import Job, Run
from tests.workflows.runner import Runner

sys.path.append(str(ROOT / ".github/scripts"))  # they import each other by name, as programs do

PERSON = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Alice"), ("EMAIL", "alice@example.org"))
}


def commit_as_a_person(
    clone: Path, files: Mapping[str, str], branch: str = "main", message: str = "work"
) -> None:
    """A person's commit, pushed; the branch is made from main if it is not there."""
    git_as_a_person(clone, "fetch", "--quiet", "--prune", "origin")
    exists = git_as_a_person(clone, "branch", "--remotes", "--list", f"origin/{branch}")
    start = f"origin/{branch if exists else 'main'}"
    git_as_a_person(clone, "checkout", "--quiet", "-B", branch, start)
    for path, text in files.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text)
        git_as_a_person(clone, "add", "--", path)
    git_as_a_person(clone, "commit", "--quiet", "-m", "work")
    git_as_a_person(clone, "push", "--quiet", "origin", branch)


def git_as_a_person(clone: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=clone,
        env={"PATH": os.environ["PATH"], "HOME": str(clone.parent), **PERSON},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class Lab:
    """Everything that a workflow meets."""

    publication: Publication
    github: FakeGitHub
    runner: Runner
    clone: Path  # a person's

    def git(self, *arguments: str) -> str:
        return git_as_a_person(self.clone, *arguments)

    def commit(self, files: Mapping[str, str], branch: str = "main") -> str:
        """A person's commit, pushed; its id."""
        commit_as_a_person(self.clone, files, branch)
        return self.github.sha(branch)

    def show(self, branch: str, path: str = RECIPE) -> str:
        """A file of the repository."""
        shown = ["git", "show", f"{branch}:{path}"]
        return subprocess.run(shown, cwd=self.github.bare, capture_output=True, text=True, check=True).stdout

    def publish(self) -> Run:
        return self.runner.run("publish.yml", "schedule")

    def watch(self) -> Run:
        return self.runner.run("watch.yml", "schedule")

    def preview(self, branch: str, pull: int | None = None) -> Run:
        """The preview of a branch: for its pull request, or else as watch starts it."""
        repository = {"default_branch": "main"}
        if pull is None:
            return self.runner.run(
                "preview.yml", "workflow_dispatch", {"pull_request": None, "repository": repository}, branch
            )
        about = {"number": pull, "base": {"sha": self.github.sha("main")}}
        return self.runner.run(
            "preview.yml", "pull_request", {"pull_request": about, "repository": repository}, branch
        )

    def comment(self, preview: Run, branch: str, **about: Any) -> Job:
        """What follows a preview of a branch: GitHub keeps its artifacts, and starts the comment."""
        known = {"repository": self.github.repository, "sha": self.github.sha(branch), **about}
        number = self.github.run(branch=branch, conclusion=preview.conclusion, **known)
        for name, content in preview.artifacts.items():
            self.github.artifact(number, name, content)
        return self.comment_on(number)

    def comment_on(self, number: int) -> Job:
        run = self.github.runs[number]
        return self.runner.run("comment.yml", "workflow_run", {"workflow_run": run}).job("comment")


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with one commit: what is in the working tree here, but without recipes and tests."""
    folder = tmp_path_factory.mktemp("repository")
    listed = [
        "git",
        "ls-files",
        "-co",
        "--exclude-standard",
        "-z",
        "--",
        ".",
        ":!tests",
        ":!configs",
        ":!bench",
    ]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    work = folder / "work"
    for name in names:
        if name and (ROOT / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, work / name)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **PERSON}
    for command in (
        ["init", "--quiet", "-b", "main"],
        ["add", "-A"],
        ["commit", "--quiet", "-m", "everything"],
    ):
        subprocess.run(["git", *command], cwd=work, env=environ, check=True)
    bare = folder / "models.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(work), str(bare)], env=environ, check=True)
    return bare


@pytest.fixture
def github(repository: Path, tmp_path: Path) -> Iterator[FakeGitHub]:
    """A GitHub with a repository of the test's own."""
    bare = tmp_path / "github" / "models.git"
    shutil.copytree(repository, bare)
    with FakeGitHub(bare) as running:
        yield running
    assert not running.errors, "\n".join(running.errors)


@pytest.fixture
def lab(publication: Publication, github: FakeGitHub, hub: LocalHub, tmp_path: Path) -> Lab:
    """A repository with the recipe of a small source, whose target trusts publish.yml."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(tmp_path / "home/hf"),
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "LANG": "C.UTF-8",
    }
    (tmp_path / "home").mkdir()
    runner = Runner(tmp_path / "machines", github, environ, identity=hub.identity_url)
    runner.folder.mkdir()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(github.bare), str(clone)], check=True)
    lab = Lab(publication, github, runner, clone)
    publication.seed()
    publication.api.create_repo(TARGET, token=TOKEN)
    hub.publishers[TARGET] = IDENTITY
    target = {"repo": "${HUBPUBLISH_NAMESPACE}/small-webgpu", "create": False}
    data = recipe_data(publication.models, target=target)
    lab.commit({RECIPE: f"# A recipe.\n{yaml.safe_dump(data, sort_keys=False)}"})
    return lab
