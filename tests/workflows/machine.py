"""One job at work: its own `run` steps in a checkout, with the job's rights and environment.

Actions are played: checkout clones, artifacts are packed and unpacked, attest only notes what it was given.
`make install` links the environment that is there. Everything else is what the workflow says.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tests.workflows.expressions import STATUS_FUNCTIONS, Expressions, as_text, calls
from tests.workflows.fake_github import FakeGitHub
from tests.workflows.records import Job, Step

ROOT = Path(__file__).parents[2]
IDENTITY = "repo:acme/models:ref:refs/heads/main"  # what the provider of identities says of a job


class Place(Protocol):
    """What all machines share; see `Runner`."""

    folder: Path
    github: FakeGitHub
    environ: Mapping[str, str]
    identity: str
    variables: Mapping[str, str | None]


@dataclass
class Machine:
    """One job at work."""

    job: Job
    workflow: Mapping[str, Any]
    context: Mapping[str, Any]
    needs: Mapping[str, Any]
    branch: str
    artifacts: dict[str, bytes]
    at: Place

    def __post_init__(self) -> None:
        self._temporary = self.job.workspace.with_name(f"{self.job.workspace.name}-temporary")
        self._temporary.mkdir()
        self.job.workspace.mkdir()

    def whole(self) -> None:
        if "concurrency" in self.job.about:
            assert self._expressions().filled(self.job.about["concurrency"]["group"])
        for about in self.job.about["steps"]:
            step = Step(about)
            self.job.steps.append(step)
            wanted = about.get("if", "true")
            if not (self.job.result == "success" or calls(wanted, STATUS_FUNCTIONS)):
                continue
            if not self._expressions().condition(wanted):
                continue
            step.outcome = "success" if self._step(step) else "failure"
            if step.outcome == "failure":
                self.job.result = "failure"
        at = self._expressions()
        self.job.outputs = {name: at.filled(text) for name, text in self.job.about.get("outputs", {}).items()}

    def _expressions(self) -> Expressions:
        job, context = self.job, self.context
        return Expressions(
            {
                "github": {**context, "token": job.token, "workspace": str(job.workspace)},
                "vars": self.at.variables,
                "matrix": job.matrix,
                "needs": self.needs,
                "strategy": {"job-index": job.index},
                "steps": {
                    step.about["id"]: {"outcome": step.outcome, "outputs": _Outputs(step.outputs)}
                    for step in job.steps
                    if "id" in step.about
                },
            },
            {"cancelled": lambda: False, "hashFiles": self._hash},
        )

    def _hash(self, *patterns: str) -> str:
        found = sorted({path for pattern in patterns for path in self.job.workspace.glob(pattern)})
        return sha256(b"".join(path.read_bytes() for path in found)).hexdigest() if found else ""

    def _step(self, step: Step) -> bool:
        if "uses" in step.about:
            given = {
                name: self._expressions().filled(as_text(value))
                for name, value in step.about.get("with", {}).items()
            }
            name = step.about["uses"].partition("@")[0]
            assert name in self._actions, f"the test does not know {name}"
            self._actions[name](self, given)
            return True
        if step.about["run"] == "make install":
            (self.job.workspace / ".venv").symlink_to(sys.prefix)  # the environment of this test
            return True
        return self._script(step)

    def _script(self, step: Step) -> bool:
        assert "${{" not in step.about["run"], (
            "a value of somebody else's would be read as a part of the script"
        )
        files = {
            name: self._temporary / name.lower()
            for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")
        }
        for path in files.values():
            path.write_text("")
        script = self._temporary / "script.sh"
        script.write_text(step.about["run"])
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        assert self.workflow["defaults"]["run"]["shell"] == "bash"  # without it: no pipefail
        ran = subprocess.run(
            shell,
            cwd=self.job.workspace,
            env=self._environment(step.about) | {name: str(path) for name, path in files.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        step.log = ran.stdout.decode()
        assert "Traceback" not in step.log, step.log
        assert self.job.token not in step.log
        step.outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        self.job.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        assert not files["GITHUB_ENV"].read_text(), "the runner does not read GITHUB_ENV"
        return ran.returncode == 0

    def _environment(self, step: Mapping[str, Any]) -> dict[str, str]:
        at = self._expressions()
        environ = {
            **self.at.environ,
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.at.github.url,
            "GITHUB_REPOSITORY": self.at.github.repository,
            "RUNNER_TEMP": str(self._temporary),
        }
        if self.job.rights.get("id-token") == "write":
            environ |= {
                "ACTIONS_ID_TOKEN_REQUEST_URL": self.at.identity,
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN": IDENTITY,
            }
        for about in (self.workflow, self.job.about, step):
            environ |= {name: at.filled(as_text(value)) for name, value in about.get("env", {}).items()}
        return environ

    # -- actions

    def _checkout(self, given: Mapping[str, str]) -> None:
        bare, workspace = self.at.github.bare, self.job.workspace
        whole = [] if given.get("fetch-depth") == "0" else ["--depth=1"]
        clone = [
            "git",
            "clone",
            "--quiet",
            *whole,
            "--branch",
            self.branch,
            f"file://{bare}",
            str(workspace),
        ]
        subprocess.run(clone, check=True)
        if "sparse-checkout" in given:
            only = ["git", "sparse-checkout", "set", given["sparse-checkout"]]
            subprocess.run(only, cwd=workspace, check=True, capture_output=True)
        assert given["persist-credentials"] in ("true", "false"), "it has to be said"
        may = self.job.rights.get("contents")
        remote = {"origin.pushurl": may == "write", "origin.url": may is not None}
        for name, allowed in remote.items():  # of a private repository
            if given["persist-credentials"] == "false" or not allowed:
                subprocess.run(["git", "config", f"remote.{name}", "/nowhere"], cwd=workspace, check=True)

    def _cache(self, given: Mapping[str, str]) -> None:
        kept = self.at.folder / "cache" / sha256(given["key"].encode()).hexdigest()[:8]
        kept.mkdir(parents=True, exist_ok=True)
        place = self.job.workspace / given["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(kept)

    def _upload(self, given: Mapping[str, str]) -> None:
        found: set[Path] = set()
        for pattern in given["path"].split():
            for path in self.job.workspace.glob(pattern):
                found |= {each for each in (path.rglob("*") if path.is_dir() else [path]) if each.is_file()}
        root = Path(os.path.commonpath([path.parent for path in found]))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(found):
                archive.write(path, path.relative_to(root).as_posix())
        self.artifacts[given["name"]] = packed.getvalue()

    def _download(self, given: Mapping[str, str]) -> None:
        with zipfile.ZipFile(io.BytesIO(self.artifacts[given["name"]])) as archive:
            archive.extractall(self.job.workspace / given["path"])

    def _attest(self, given: Mapping[str, str]) -> None:
        assert self.job.rights["id-token"] == self.job.rights["attestations"] == "write"
        workspace = self.job.workspace
        lines = (workspace / given["subject-checksums"]).read_text().splitlines()
        subjects = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in subjects.values())
        assert json.loads((workspace / given["predicate-path"]).read_text())["buildDefinition"]
        self.job.attested.append({"type": given["predicate-type"], **subjects})

    _actions: ClassVar[Mapping[str, Callable[[Machine, Mapping[str, str]], None]]] = {
        "actions/checkout": _checkout,
        "actions/setup-python": lambda *_: None,
        "actions/cache": _cache,
        "actions/upload-artifact": _upload,
        "actions/download-artifact": _download,
        "actions/attest": _attest,
    }


class _Outputs(dict[str, str]):
    """A step's outputs; one that it did not set is empty, as on GitHub."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> None:
        return None
