"""What became of a workflow: its jobs, and their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Step:
    """A step that ran, or was left out."""

    about: Mapping[str, Any]
    outcome: str = "skipped"  # success, failure
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""

    @property
    def title(self) -> str:
        return str(self.about.get("run") or self.about.get("uses"))


@dataclass
class Job:
    """A job, one of each combination of a matrix."""

    name: str
    about: Mapping[str, Any]
    matrix: Mapping[str, Any]
    index: int
    workspace: Path
    rights: Mapping[str, str]
    token: str
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    attested: list[dict[str, str]] = field(default_factory=list)
    result: str = "success"

    @property
    def log(self) -> str:
        return "\n".join(step.log for step in self.steps)

    def step(self, text: str) -> Step:
        """The one step whose command or action has this text."""
        (found,) = [step for step in self.steps if text in step.title]
        return found


@dataclass
class Run:
    """A workflow's run: its jobs by name, in the order of their matrix."""

    workflow: Mapping[str, Any]
    jobs: dict[str, list[Job]] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)

    def job(self, name: str) -> Job:
        (found,) = self.jobs[name]
        return found

    @property
    def conclusion(self) -> str:
        every = [job for jobs in self.jobs.values() for job in jobs]
        return "failure" if any(job.result == "failure" for job in every) else "success"

    @property
    def log(self) -> str:
        return "\n".join(job.log for jobs in self.jobs.values() for job in jobs)

    @property
    def left_out(self) -> list[str]:
        """The scripts that did not run in any job; also those of jobs that were skipped."""
        return [
            step["run"]
            for name, jobs in self.jobs.items()
            for index, step in enumerate(self.workflow["jobs"][name]["steps"])
            if "run" in step and all(job.steps[index].outcome == "skipped" for job in jobs)
        ]
