"""Commands with a recipe against a Hub: run, new, demo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hubpublish import recipe as recipes
from tests.cli.running import Shell, in_a_process
from tests.publication import (
    READ_TOKEN,
    SOURCE,
    TARGET,
    TOKEN,
    Publication,
    files_below,
    recipe_data,
    sha256,
)


@pytest.fixture
def source(publication: Publication, monkeypatch: pytest.MonkeyPatch) -> Publication:
    """The seeded source, on the Hub of the environment, with a token that may write."""
    publication.seed()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return publication


def write(publication: Publication, text: str | None = None, **changes: Any) -> Path:
    path = publication.folder / "small.yaml"
    path.write_text(text or yaml.safe_dump(recipe_data(publication.models, **changes), sort_keys=False))
    return path


def endpoint(publication: Publication) -> tuple[str, str]:
    return "--endpoint", publication.hub.endpoint


class TestRun:
    def test_publishes_and_says_where(self, shell: Shell, source: Publication) -> None:
        recipe = write(source)
        done = shell("run", recipe, *endpoint(source))
        head = source.api.model_info(TARGET).sha
        assert done.code == 0
        assert done.out == f"Published: {source.hub.endpoint}/{TARGET} at commit {head}\n"
        assert (source.folder / "out" / "small" / "staged" / "README.md").exists()
        again = shell("run", recipe, *endpoint(source))
        place = f"{source.hub.endpoint}/{TARGET}"
        assert (again.code, again.out) == (0, f"Nothing to do: {place} already holds this result.\n")

    def test_as_json(self, shell: Shell, source: Publication) -> None:
        recipe = write(source)
        first = shell("run", recipe, *endpoint(source), "--out", "made", "--json").json
        assert (first["status"], first["target"], first["out"]) == ("published", TARGET, "made")
        assert first["report"]["variants"][0]["path"] == "onnx/model.onnx"
        second = shell("run", recipe, *endpoint(source), "--json").json
        assert (second["status"], second["report"], second["commit"]) == (
            "nothing_to_do",
            None,
            first["commit"],
        )

    def test_dry_says_what_to_look_at(self, tmp_path: Path, publication: Publication) -> None:
        publication.seed()
        recipe = write(publication, target={"repo": "${HUBPUBLISH_NAMESPACE}/small-webgpu"})
        done = in_a_process("run", recipe, "--dry-run", *endpoint(publication), folder=tmp_path)
        assert done.code == 0, done.err
        for path in re.findall(r"^  (\S+)", done.out, re.MULTILINE):
            assert (tmp_path / path).is_file()
        assert "out/small/preview.md" in done.out
        assert "verifying onnx/model.onnx\n" in done.err

    def test_as_a_pull_request(self, shell: Shell, source: Publication) -> None:
        source.api.create_repo(TARGET)
        done = shell("run", write(source), "--as-pr", *endpoint(source))
        place = f"{source.hub.endpoint}/{TARGET}/discussions/1"
        assert done.out == f"Pull request: {place}\n"
        again = shell("run", write(source), "--as-pr", *endpoint(source))
        assert again.out == f"Nothing to do: {place} already holds this result.\n"

    @pytest.mark.parametrize(
        ("change", "code", "kind", "named"),
        [
            (lambda text: text + "sourc: 1\n", 2, "recipe", "unknown key 'sourc'"),
            (lambda text: text + "device: webgpu-min\n", 2, "recipe", "device"),
            (lambda text: text.replace("concat_tree", "concat_tre"), 2, "recipe", "'concat_tree'?"),
            (lambda text: re.sub(r"sha256: \w+", "sha256: " + "0" * 64, text), 3, "hash_mismatch", "0" * 64),
            (lambda text: text.replace(SOURCE, "acme/none", 1), 3, "repo_not_found", "acme/none"),
            (lambda text: text.replace("- config.json", "- none.json"), 3, "file_not_found", "none.json"),
            (lambda text: text.replace("license: mit", "license: gpl"), 2, "license_differs", "gpl"),
            (lambda text: text.replace("  - split_tree\n", "").replace("- split_tree\n", ""), 4, "device_fit",
             "Split cut in main"),
        ],
        ids=["key", "twice", "pass", "sha256", "repo", "file", "license", "fit"],
    )  # fmt: skip
    def test_of_what_is_wrong(
        self, shell: Shell, source: Publication, change: Any, code: int, kind: str, named: str
    ) -> None:
        text = yaml.safe_dump(recipe_data(source.models), sort_keys=False)
        assert change(text) != text
        done = shell("run", write(source, change(text)), *endpoint(source), "--json")
        assert (done.code, done.error["kind"]) == (code, kind)
        assert named in done.err
        assert source.nothing_is_published()

    def test_names_line_and_place_of_what_is_wrong(self, shell: Shell, source: Publication) -> None:
        text = yaml.safe_dump(recipe_data(source.models), sort_keys=False)
        done = shell("run", write(source, text + "sourc: 1\n"), *endpoint(source))
        lines = len(text.splitlines()) + 1
        assert re.match(rf"error: \S*small\.yaml:{lines}:1: ", done.err)

    def test_with_a_read_only_token(
        self, shell: Shell, source: Publication, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", READ_TOKEN)
        done = shell("run", write(source), *endpoint(source), "--json")
        assert (done.code, done.error["kind"]) == (6, "read_only_token")

    def test_with_no_token(self, tmp_path: Path, publication: Publication) -> None:
        publication.seed()
        done = in_a_process("run", write(publication), *endpoint(publication), folder=tmp_path)
        assert done.code == 6
        assert "set HF_TOKEN" in done.err

    def test_with_an_unset_variable(
        self, shell: Shell, source: Publication, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("HUBPUBLISH_NAMESPACE", raising=False)
        recipe = write(source, target={"repo": "${HUBPUBLISH_NAMESPACE}/small-webgpu"})
        done = shell("run", recipe, *endpoint(source), "--json")
        assert (done.code, done.error["kind"]) == (2, "target_unset")
        monkeypatch.setenv("HUBPUBLISH_NAMESPACE", "acme")
        assert shell("run", recipe, *endpoint(source), "--json").json["target"] == "acme/small-webgpu"

    def test_shows_no_token_when_the_hub_repeats_it(
        self, shell: Shell, source: Publication, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token = "hf_" + "Ab3" * 12
        source.hub.tokens[token] = source.hub.tokens[TOKEN]
        monkeypatch.setenv("HF_TOKEN", token)
        answer = {"error": f"bad {token}"}
        source.hub.fault(rf"POST .*{TARGET}/commit", "status", status=400, body=answer, times=None)
        done = shell("run", write(source), *endpoint(source))
        assert done.code == 6
        assert "bad ***" in done.err
        assert token not in done.out + done.err


class TestNew:
    def test_makes_a_recipe_that_runs(self, shell: Shell, source: Publication) -> None:
        done = shell("new", SOURCE, *endpoint(source))
        assert done.code == 0
        path = write(source, done.out)
        recipe = recipes.load(path)
        assert recipe.variants[0].sha256 == sha256(source.models["onnx/model.onnx"])
        assert recipe.target.repo == "${HUBPUBLISH_NAMESPACE}/small-webgpu"
        assert not source.hub.requests(r"GET .*/resolve/.*model\.onnx")
        dry = shell("run", path, "--dry-run", *endpoint(source), "--json")
        assert dry.code == 0, dry.err
        assert dry.json["status"] == "dry_run"
        staged = files_below(source.folder / "out" / "small" / "staged")
        assert {"README.md", "LICENSE", "config.json", "onnx/model.onnx"} <= staged.keys()

    def test_asks_what_it_cannot_know(self, shell: Shell, source: Publication) -> None:
        source.models["onnx/model_int4block.onnx"] = source.models["onnx/model.onnx"]
        source.seed({"README.md": b"# No metadata\n"})
        done = shell("new", SOURCE, "--target", "alice/other", *endpoint(source))
        assert done.code == 0
        assert recipes.loads(done.out, "new").target.repo == "alice/other"
        assert "license" in done.err
        assert "pipeline_tag" in done.err
        assert done.err.count("\n") == len(re.findall("^to fill in: ", done.err, re.MULTILINE))

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["acme/none"], 3),
            ([SOURCE, "--target", SOURCE], 2),
            ([SOURCE, "--target", "a b"], 2),
        ],
    )
    def test_of_what_is_wrong(
        self, shell: Shell, source: Publication, arguments: list[str], code: int
    ) -> None:
        done = shell("new", *arguments, *endpoint(source))
        assert (done.code, done.out) == (code, "")


def test_demo_removes_nothing_that_is_not_its_own(shell: Shell, tmp_path: Path) -> None:
    mine = tmp_path / "project" / "source" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    recipe = Path(__file__).parents[2] / "configs" / "birefnet_lite.yaml"
    done = shell("demo", "--recipe", recipe, "--out", tmp_path / "project")
    assert done.code == 2
    assert "--out" in done.err
    assert mine.read_text() == "mine"


def test_demo_with_another_recipe_is_refused(shell: Shell, publication: Publication) -> None:
    data = recipe_data({"onnx/other.onnx": b""})
    path = write(publication, yaml.safe_dump(data))
    done = shell("demo", "--recipe", path, "--out", "demo-here")
    assert done.code == 2
    assert "onnx/other.onnx" in done.err
