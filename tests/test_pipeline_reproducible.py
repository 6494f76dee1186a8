"""The same source, recipe and versions give the same bytes, wherever and however often it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hubpublish import recipe as recipes
from hubpublish.layout import OWN_FILES
from tests.publication import SOURCE, TARGET, Publication, commit, files_below


@dataclass(frozen=True)
class Machine:
    """Where a run happens; nothing of it may show in what is published."""

    seed: str
    zone: str
    locale: str
    umask: int
    columns: str
    cpus: int | None = None

    def environ(self, home: Path) -> dict[str, str]:
        (home / "tmp").mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HF_HOME")}
        given = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "USER": home.name, "LOGNAME": home.name}
        told = {"PYTHONHASHSEED": self.seed, "TZ": self.zone, "COLUMNS": self.columns, "LC_ALL": self.locale}
        # Python would make UTF-8 of the plain locale, and this is to be as if it did not.
        return {**kept, **given, **told, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    def confine(self) -> None:
        """Leave this many processors to the process."""
        if self.cpus is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: self.cpus])


def run_in_a_process(
    publication: Publication, recipe: Path, home: Path, machine: Machine
) -> dict[str, bytes]:
    """A dry run as somebody else would do it, from the recipe to the staged files."""
    environ = machine.environ(home)
    out = home / "run"
    command = [sys.executable, "-m", "hubpublish", "run", str(recipe), "--dry-run", "--out", str(out)]
    done = subprocess.run(
        [*command, "--endpoint", publication.hub.endpoint],
        cwd=home,
        env=environ,
        umask=machine.umask,
        preexec_fn=machine.confine,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return files_below(out / "staged")


def test_two_machines_make_the_same_bytes(publication: Publication, tmp_path: Path) -> None:
    publication.models["onnx/model_fp16.onnx"] = publication.models["onnx/model.onnx"]
    publication.seed()
    text = recipes.dumps(publication.recipe(card={"summary": "Naïve – 模型 ✓"}))
    homes = tmp_path / "a", tmp_path / "some" / "where elsé"
    machines = (
        Machine(seed="1", zone="UTC-1", locale="C", umask=0o077, columns="40", cpus=1),
        Machine(seed="3", zone="America/St_Johns", locale="C.UTF-8", umask=0o002, columns="300"),
    )
    made = []
    for home, machine in zip(homes, machines, strict=True):
        home.mkdir(parents=True)
        recipe = home / f"{home.name}.yaml"
        recipe.write_text(text, encoding="utf-8")
        os.utime(recipe, (len(made), len(made)))
        made.append(run_in_a_process(publication, recipe, home, machine))
    first, second = made
    assert set(first) == {*OWN_FILES, "LICENSE", "config.json", "onnx/model.onnx", "onnx/model_fp16.onnx"}
    assert first == second


def test_the_published_recipe_leads_to_the_published_bytes(publication: Publication, tmp_path: Path) -> None:
    publication.seed()
    publication.run()
    published = publication.published()
    # Since then the branch has moved on.
    commit(publication.api, SOURCE, {"config.json": b"{}\n"})
    recipe = tmp_path / "published.yaml"
    recipe.write_bytes(published["recipe.yaml"])
    result = publication.run(recipes.load(recipe))
    assert result.status == "nothing_to_do"
    assert publication.run(recipes.load(recipe), dry_run=True, force=True).status == "dry_run"
    assert files_below(publication.staged) == published
    assert publication.run().status == "published"


@pytest.mark.parametrize("path", ["LICENSE", "config.json"])
def test_a_copied_file_that_is_pinned_wrongly_is_not_up_to_date(publication: Publication, path: str) -> None:
    publication.seed()
    publication.run()
    copied = ["config.json", {"path": path, "sha256": "0" * 64}] if path == "LICENSE" else []
    copied = copied or [{"path": path, "sha256": "0" * 64}]
    recipe = publication.recipe(source={"copy": copied})
    with pytest.raises(Exception, match="0000000000"):
        publication.run(recipe)


def test_a_file_that_is_no_longer_copied_is_no_longer_published(publication: Publication) -> None:
    publication.seed()
    publication.run()
    assert publication.run(publication.recipe(source={"copy": []})).status == "published"
    assert "config.json" not in publication.published(TARGET)
    assert "LICENSE" in publication.published(TARGET)
