"""Runs as processes of their own: killed at every step, two at once, on a full disk."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from hubpublish.layout import OWN_FILES
from tests.cli.running import COMMAND, environment
from tests.publication import TARGET, TOKEN, Publication, model_bytes, recipe_data

WIDE = """<ir_version: 8, opset_import: ["": 13]>
g (float[1000] x) => (float[100000] y) <int64[1] hundred = {100}> { y = Tile (x, hundred) }"""
# A step of a run, and how to stop it there: a request that hangs, or a line of progress.
STEPS = {
    "looking at the source": r"GET /api/models/acme/small/revision/",
    "looking at the target": r"GET /api/models/acme/small-webgpu/revision/",
    "fetching": r"GET .*/resolve/.*/model\.onnx",
    "checking the card": r"POST /api/validate-yaml",
    "creating the repo": r"POST /api/repos/create",
    "uploading": r"PUT /_storage/",
    "committing": r"POST .*/commit/main",
    "reading back": r"POST .*/paths-info/",
    "tagging": r"POST .*/tag/",
}


@pytest.fixture
def recipe(publication: Publication, tmp_path: Path) -> Path:
    publication.seed()
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe_data(publication.models, target={"tag": "v-{key}"})))
    (tmp_path / "temporary").mkdir()
    return path


def start(publication: Publication, recipe: Path, *arguments: str) -> subprocess.Popen[str]:
    where = {"HF_TOKEN": TOKEN, "TMPDIR": str(recipe.parent / "temporary")}
    return subprocess.Popen(
        [*COMMAND, "run", str(recipe), "--endpoint", publication.hub.endpoint, *arguments],
        cwd=recipe.parent,
        env=environment(recipe.parent, **where),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    """What it printed, once it has ended well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert TOKEN not in out + err
    return out + err


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def leftovers(folder: Path) -> list[Path]:
    """What a run should not leave: in its cache, its folder, and the system's folder for such files."""
    unfinished = re.compile(r"incomplete|unfinished|\.part$|\.tmp$")
    kept = [path for name in ("cache", "out") for path in (folder / name).rglob("*")]
    # The runtime's own telemetry keeps a file called .ses.
    temporary = [path for path in (folder / "temporary").iterdir() if path.name != ".ses"]
    return [path for path in kept if unfinished.search(path.name)] + temporary


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.parametrize("step", [*STEPS, "verifying"])
def test_a_run_that_is_killed_is_made_good_by_the_next(
    publication: Publication, recipe: Path, step: str
) -> None:
    if step == "verifying":
        process = start(publication, recipe)
        assert process.stderr is not None
        until(lambda: "running the original" in process.stderr.readline())  # type: ignore[union-attr]
        killed(process)
    else:
        fault = publication.hub.fault(STEPS[step], "hang", seconds=1)
        process = start(publication, recipe)
        until(lambda: fault.fired)
        killed(process)
        # A hub that has been asked may do it later.
        until(lambda: any(entry.fault == "hang" for entry in list(publication.hub.log)))
    ended(start(publication, recipe))
    assert publication.commits()[1:] == ["initial commit"]
    assert set(OWN_FILES) < set(publication.published())
    assert leftovers(recipe.parent) == []
    (tag,) = publication.api.list_repo_refs(TARGET).tags
    assert tag.target_commit == publication.api.model_info(TARGET).sha
    assert "Nothing to do" in ended(start(publication, recipe))


@pytest.mark.parametrize("folders", [("one", "other"), ("same", "same")])
def test_two_runs_at_once_publish_once(
    publication: Publication, recipe: Path, folders: tuple[str, str]
) -> None:
    runs = [start(publication, recipe, "--out", folder) for folder in folders]
    printed = sorted(ended(each).splitlines()[0].split(":")[0] for each in runs)
    assert printed[-1] == "Published"
    assert publication.commits()[1:] == ["initial commit"]
    assert set(publication.published()) > set(OWN_FILES)


def test_a_folder_in_which_another_run_is_at_work_is_waited_for(
    publication: Publication, recipe: Path
) -> None:
    (recipe.parent / "out").mkdir()
    with FileLock(recipe.parent / "out" / ".lock"):
        process = start(publication, recipe, "--out", "out")
        assert process.stderr is not None
        lines: list[str] = []
        until(lambda: lines.append(process.stderr.readline()) or "waiting" in lines[-1])  # type: ignore
        assert publication.nothing_is_published()
        assert not (recipe.parent / "out" / "staged").exists()
    ended(process)
    assert publication.commits()[1:] == ["initial commit"]


LIMITED = """
import resource, runpy, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.argv = ["hubpublish", *sys.argv[2:]]
runpy.run_module("hubpublish", run_name="__main__")
"""


@pytest.mark.skipif(os.name == "nt", reason="needs limits")
@pytest.mark.parametrize(("limit", "said"), [(1_000, "File too large"), (300_000, "no room for the outputs")])
def test_a_disk_that_is_full_is_no_verdict_on_the_model(tmp_path: Path, limit: int, said: str) -> None:
    """The input of 4 kB cannot be written; the output of 400 kB, by the process that runs the model."""
    model = tmp_path / "model.onnx"
    model.write_bytes(model_bytes(WIDE))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), "verify", str(model), str(model)],
        cwd=tmp_path,
        # Python would write compiled modules that meet the limit by halves, and use them ever after.
        env=environment(tmp_path, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
