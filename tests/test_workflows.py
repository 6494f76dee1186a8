"""The workflow files as they stand: what actionlint says of them, their rights, and what keeps them safe.

What their steps do is in tests/workflows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
READ = {"contents": "read"}
RIGHTS = {  # of every job that has more than that
    ("comment", "comment"): {"actions": "read", **READ, "pull-requests": "write"},
    ("publish", "publish"): {"attestations": "write", **READ, "id-token": "write"},
    ("watch", "bump"): {**READ, "pull-requests": "read"},
    ("watch", "propose"): {"actions": "write", "contents": "write", "pull-requests": "write"},
}
# Jobs that may write, or have an identity, and so run nothing that came from elsewhere.
INSTALLS_NOTHING = {("comment", "comment"), ("watch", "propose")}


def read(path: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text())
    return found


def jobs() -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield (path.stem, name), job


def steps() -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for place, job in jobs():
        for step in job["steps"]:
            yield place, step


def actionlint(*paths: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("actionlint", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("actionlint is not installed")
        pytest.skip("actionlint is not installed")
    return subprocess.run([program, "-no-color", *paths], capture_output=True, text=True, check=False)


def test_actionlint_finds_nothing() -> None:
    done = actionlint(*WORKFLOWS)
    assert done.returncode == 0, done.stdout


def test_actionlint_would_find_something(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(
        (ROOT / ".github/workflows/ci.yml").read_text().replace("matrix.python", "matrix.pythn")
    )
    assert "pythn" in actionlint(broken).stdout


def test_every_job_has_the_rights_that_it_needs_and_no_others() -> None:
    assert all(read(path)["permissions"] == READ for path in WORKFLOWS)
    assert {place: job["permissions"] for place, job in jobs() if "permissions" in job} == RIGHTS


def test_what_may_write_to_the_repository_installs_nothing() -> None:
    installing = {place for place, step in steps() if step.get("run", "").startswith(("make", ".venv"))}
    assert installing & INSTALLS_NOTHING == set()
    writing = {place for place, rights in RIGHTS.items() if rights["contents"] == "write"}
    assert writing <= INSTALLS_NOTHING


def test_nothing_of_a_pull_request_runs_with_rights() -> None:
    assert all("pull_request_target" not in path.read_text() for path in WORKFLOWS)
    on_requests = {path.stem for path in WORKFLOWS if "pull_request" in read(path)[True]}
    assert on_requests == {"ci", "preview"}
    assert not any(place[0] in on_requests for place in RIGHTS)
    checkouts = [step["with"] for place, step in steps() if place[0] == "comment" and "uses" in step]
    assert checkouts == [{"persist-credentials": False, "sparse-checkout": ".github/scripts"}]  # and no ref


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_say_their_version(path: Path) -> None:
    used = [line.strip() for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    pinned = re.compile(r"(- )?uses: actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert all(pinned.fullmatch(line) for line in used), used


def test_an_action_has_one_version_everywhere() -> None:
    used = {step["uses"] for _, step in steps() if "uses" in step}
    assert len({each.partition("@")[0] for each in used}) == len(used)


def test_no_expression_is_a_part_of_a_script() -> None:
    assert not any("${{" in step["run"] for _, step in steps() if "run" in step)


def test_credentials_stay_in_a_checkout_only_for_a_push() -> None:
    kept = {
        place: step["with"]["persist-credentials"]
        for place, step in steps()
        if step.get("uses", "").startswith("actions/checkout@")
    }
    assert set(kept) == {place for place, _ in jobs()}
    assert [place for place, value in kept.items() if value] == [("watch", "propose")]


def test_no_secret_is_stored_and_a_token_is_given_to_single_steps() -> None:
    assert all("secrets." not in path.read_text() for path in WORKFLOWS)
    given = [place for place, step in steps() if "github.token" in str(step.get("env"))]
    assert given == [("comment", "comment"), ("watch", "bump"), ("watch", "propose")]
    assert not any("github.token" in str(job.get("env")) for _, job in jobs())


def test_every_job_ends_and_stops_at_the_first_error() -> None:
    assert all(0 < job["timeout-minutes"] <= 120 for _, job in jobs())
    # Without a shell named, GitHub's bash goes on when a part of a pipe fails.
    shells = {path.stem: read(path).get("defaults") for path in WORKFLOWS}
    assert shells.pop("ci") is None  # whose steps are single commands
    assert all(each == {"run": {"shell": "bash"}} for each in shells.values())


def test_what_writes_is_one_at_a_time_and_never_cancelled() -> None:
    groups = {path.stem: read(path).get("concurrency", {}) for path in WORKFLOWS}
    assert groups["watch"] == {"group": "watch", "cancel-in-progress": False}
    assert groups["comment"]["cancel-in-progress"] is False
    assert groups["preview"]["cancel-in-progress"] is True
    publish = read(ROOT / ".github/workflows/publish.yml")["jobs"]["publish"]
    assert publish["concurrency"] == {
        "group": "publish-${{ matrix.target || matrix.recipe }}",
        "cancel-in-progress": False,
    }
    assert publish["strategy"]["fail-fast"] is False


def test_a_preview_is_there_also_where_nothing_would_change() -> None:
    (run,) = [
        step["run"] for place, step in steps() if place == ("preview", "dry-run") and step.get("id") == "run"
    ]
    assert {"--dry-run", "--force"} <= set(run.split())


def test_watch_starts_workflows_that_can_be_started() -> None:
    text = (ROOT / ".github/scripts/proposals.py").read_text()
    (names,) = re.findall(r"WORKFLOWS = \((.*)\)", text)
    started = re.findall(r'"([^"]+)"', names)
    assert started
    for name in started:
        assert "workflow_dispatch" in read(ROOT / ".github/workflows" / name)[True]


def test_ci_runs_what_is_there() -> None:
    commands = [step["run"] for place, step in steps() if place[0] == "ci" and "run" in step]
    assert commands == ["make demo", ".ci/run"]
    assert re.search(r"^demo:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_every_other_script_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests/workflows").glob("*.py"))
    for path in WORKFLOWS:
        assert path.stem == "ci" or f'"{path.name}"' in tests
