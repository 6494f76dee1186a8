"""The same source, recipe and versions give the same bytes, wherever and however often it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hubpublish import recipe as recipes
from tests.publication import SOURCE, TARGET, Publication, commit, files_below


def run_in_a_process(publication: Publication, recipe: Path, out: Path, seed: str) -> dict[str, bytes]:
    """A dry run as somebody else would do it: another process, folder, cache, hash seed and token."""
    environ = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "HF_HOME")},
        "PYTHONHASHSEED": seed,
        "HUBPUBLISH_CACHE": str(out / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        "COLUMNS": "80",
        "TZ": f"UTC-{seed}",
    }
    command = [sys.executable, "-m", "hubpublish", "run", str(recipe), "--dry-run", "--out", str(out / "run")]
    command += ["--endpoint", publication.hub.endpoint]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return files_below(out / "run" / "staged")


def test_two_machines_make_the_same_bytes(publication: Publication, tmp_path: Path) -> None:
    publication.models["onnx/model_fp16.onnx"] = publication.models["onnx/model.onnx"]
    publication.seed()
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipes.dumps(publication.recipe()))
    first = run_in_a_process(publication, recipe, tmp_path / "a", "1")
    second = run_in_a_process(publication, recipe, tmp_path / "some" / "where else", "2")
    assert len(first) == 8
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
