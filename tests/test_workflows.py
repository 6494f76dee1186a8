"""The workflow files: what actionlint says of them, and the script that makes their matrix."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPT = ROOT / ".github/scripts/recipes.py"


def actionlint(*paths: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("actionlint", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("actionlint is not installed")
        pytest.skip("actionlint is not installed")
    return subprocess.run([program, "-no-color", *paths], capture_output=True, text=True, check=False)


def matrix(*arguments: str, **environ: str) -> tuple[object, str]:
    clean = {name: value for name, value in os.environ.items() if name != "HUBPUBLISH_NAMESPACE"}
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        cwd=ROOT,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout), done.stderr


def test_actionlint_finds_nothing() -> None:
    done = actionlint(*WORKFLOWS)
    assert done.returncode == 0, done.stdout


def test_actionlint_would_find_something(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("matrix.python", "matrix.pythn"))
    assert "pythn" in actionlint(broken).stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_rights_are_few(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in path.read_text()
    for job in workflow["jobs"].values():
        assert set(job.get("permissions", {})) <= {"contents", "id-token"}
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in used), used


def test_only_the_publishing_job_gets_an_identity() -> None:
    rights = {
        (path.stem, name): job.get("permissions", {})
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text())["jobs"].items()
    }
    assert [place for place, given in rights.items() if "id-token" in given] == [("publish", "publish")]


def test_publishing_is_one_at_a_time_and_never_cancelled() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())
    assert workflow["jobs"]["publish"]["concurrency"] == {
        "group": "publish-${{ matrix.target }}",
        "cancel-in-progress": False,
    }


def test_a_preview_is_there_also_where_nothing_would_change() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/preview.yml").read_text())["jobs"]["dry-run"]["steps"]
    (run,) = [step["run"] for step in steps if "hubpublish run" in step.get("run", "")]
    assert {"--dry-run", "--force"} <= set(run.split())


def test_every_recipe_with_a_known_target_is_published() -> None:
    found, notices = matrix(HUBPUBLISH_NAMESPACE="somebody")
    assert {"recipe": "configs/birefnet_lite.yaml", "target": "somebody/BiRefNet_lite-webgpu"} in found  # type: ignore[operator]
    assert notices == ""


def test_a_recipe_without_target_is_skipped_with_a_notice() -> None:
    found, notices = matrix()
    assert found == []
    assert "::notice file=configs/birefnet_lite.yaml::skipped" in notices


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ("configs/birefnet_lite.yaml", True),
        ("hubpublish/card.py", True),
        ("templates/model_card.md.j2", True),
        ("README.md", False),
        ("configs/other.yaml", False),
    ],
)
def test_a_change_concerns_its_recipe_or_all(tmp_path: Path, changed: str, concerned: bool) -> None:
    paths = tmp_path / "changed.txt"
    paths.write_text(f"{changed}\n")
    found, _ = matrix("--changed", str(paths))
    assert ({"recipe": "configs/birefnet_lite.yaml"} in found) is concerned  # type: ignore[operator]
