"""Runs workflow files as GitHub does: which jobs run, with which matrix, on machines of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.workflows.expressions import STATUS_FUNCTIONS, Expressions, calls
from tests.workflows.fake_github import FakeGitHub
from tests.workflows.machine import Machine
from tests.workflows.records import Job, Run


@dataclass
class Runner:
    """Machines for workflows.

    Args:
        folder: Where the workspaces are made.
        github: What the workflows belong to; its bare repository is cloned.
        environ: What every machine has in its environment.
        identity: Address that gives out identities, to jobs with the right to one.
    """

    folder: Path
    github: FakeGitHub
    environ: Mapping[str, str]
    identity: str = ""
    variables: Mapping[str, str | None] = field(default_factory=lambda: {"HUBPUBLISH_NAMESPACE": "acme"})
    count: int = 0

    def run(
        self, name: str, event: str, payload: Mapping[str, Any] | None = None, branch: str = "main"
    ) -> Run:
        """Run a workflow of the repository, as it is on this branch, for an event there."""
        shown = ["git", "show", f"{branch}:.github/workflows/{name}"]
        text = subprocess.run(shown, cwd=self.github.bare, capture_output=True, check=True).stdout
        workflow = yaml.safe_load(text)
        assert event in workflow[True], f"{name} is not for {event}"  # YAML reads `on` as true
        context = {
            "event": dict(payload or {}),
            "ref": f"refs/heads/{branch}",
            "repository": self.github.repository,
        }
        return _Running(self, workflow, context, branch).whole()


@dataclass
class _Running:
    runner: Runner
    workflow: Mapping[str, Any]
    context: Mapping[str, Any]
    branch: str

    def __post_init__(self) -> None:
        self.done = Run(self.workflow)

    def whole(self) -> Run:
        if "concurrency" in self.workflow:
            assert Expressions({"github": self.context}, {}).filled(self.workflow["concurrency"]["group"])
        for name, about in self.workflow["jobs"].items():
            needs = about.get("needs", [])
            needed = [needs] if isinstance(needs, str) else needs
            before = {each: self._needed(each) for each in needed}
            at = Expressions({"github": self.context, "needs": before}, {"cancelled": lambda: False})
            wanted = about.get("if", "true")
            fine = all(each["result"] == "success" for each in before.values())
            self.done.jobs[name] = []
            if (fine or calls(wanted, STATUS_FUNCTIONS)) and at.condition(wanted):
                self._jobs(name, about, before, at)
        return self.done

    def _needed(self, name: str) -> dict[str, Any]:
        jobs = self.done.jobs[name]
        results = {job.result for job in jobs}
        result = "skipped" if not jobs else "failure" if "failure" in results else "success"
        return {"result": result, "outputs": jobs[0].outputs if jobs else {}}

    def _jobs(self, name: str, about: Mapping[str, Any], needs: Mapping[str, Any], at: Expressions) -> None:
        matrix = about.get("strategy", {}).get("matrix")
        entries = at.value(matrix["include"].strip("${} ")) if matrix else [{}]
        for index, entry in enumerate(entries):
            self.runner.count += 1
            workspace = self.runner.folder / f"job-{self.runner.count}"
            rights = about.get("permissions", self.workflow["permissions"])
            token = self.runner.github.token(rights)
            job = Job(name, about, entry, index, workspace, rights, token)
            self.done.jobs[name].append(job)
            Machine(
                job=job,
                workflow=self.workflow,
                context=self.context,
                needs=needs,
                branch=self.branch,
                artifacts=self.done.artifacts,
                at=self.runner,
            ).whole()
