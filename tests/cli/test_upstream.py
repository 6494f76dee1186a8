"""Commands that look upstream: status, bump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hubpublish.upstream import RecipeStatus
from tests.cli.running import Done, Shell, in_a_process
from tests.publication import SMALL, SOURCE, TARGET, TOKEN, Publication, model_bytes, recipe_data, sha256

OTHER = model_bytes(SMALL.replace("0.5, -1.0", "0.5, -1.5"))
MODEL = "onnx/model.onnx"


class Commands:
    """A source, its recipe in small.yaml, and commands on them."""

    def __init__(self, shell: Shell, publication: Publication) -> None:
        self.shell = shell
        self.publication = publication
        self.recipe = publication.folder / "small.yaml"
        self.recipe.write_text("# mine\n" + yaml.safe_dump(recipe_data(publication.models), sort_keys=False))

    def moves(self, files: dict[str, bytes] | None = None) -> str:
        return self.publication.seed(files or {MODEL: OTHER})

    def __call__(self, command: str, *arguments: str | Path) -> Done:
        return self.shell(command, *arguments, "--endpoint", self.publication.hub.endpoint)


@pytest.fixture
def commands(shell: Shell, publication: Publication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    publication.seed()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.delenv("HUBPUBLISH_NAMESPACE", raising=False)
    return Commands(shell, publication)  # type: ignore[return-value]


class TestStatus:
    def test_says_a_line_and_what_to_do(self, commands: Commands) -> None:
        commit = commands.moves()
        done = commands("status", "small.yaml")
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines() == [
            "small.yaml: upstream changed (model), nothing published yet",
            f"  source {SOURCE} at {commit[:12]}, target {TARGET}",
            f"  {MODEL} changed: it was {sha256(model_bytes())[:12]}, and is {sha256(OTHER)[:12]}",
            "  next: hubpublish bump small.yaml",
        ]

    def test_as_json_has_the_fields_that_workflows_read(self, commands: Commands) -> None:
        commit = commands.moves()
        (commands.publication.folder / "broken.yaml").write_text("schema: 1\n")
        done = commands("status", "small.yaml", "broken.yaml", "--json")
        assert (done.code, done.err) == (2, "")
        one, broken = done.json["recipes"]
        assert one == {
            "recipe": "small.yaml",
            "source": SOURCE,
            "commit": commit,
            "target": TARGET,
            "upstream": "changed",
            "files": [
                {
                    "path": MODEL,
                    "role": "model",
                    "change": "changed",
                    "old": sha256(model_bytes()),
                    "new": sha256(OTHER),
                }
            ],
            "what": ["model"],
            "published": "missing",
            "edited": {},
            "action": "bump",
            "error": None,
        }
        assert broken.keys() == one.keys() == RecipeStatus.model_fields.keys()
        assert (broken["source"], broken["action"], broken["error"]["kind"]) == (None, "look", "recipe")

    def test_exit_codes(self, commands: Commands) -> None:
        assert commands("status", "small.yaml").code == 0
        assert commands("status", "small.yaml", "--exit-code").code == 10
        assert commands("run", "small.yaml").code == 0
        assert commands("status", "small.yaml", "--exit-code").code == 0
        assert commands("status", "small.yaml", "none.yaml", "--exit-code").code == 2
        assert commands("status", "small.yaml", "none.yaml").code == 2

    def test_needs_a_recipe(self, commands: Commands) -> None:
        done = commands("status")
        assert done.code == 2
        assert "RECIPE" in done.err

    def test_needs_no_token(self, commands: Commands, tmp_path: Path) -> None:
        where, before = ("--endpoint", commands.publication.hub.endpoint), len(commands.publication.hub.log)
        done = in_a_process("status", "small.yaml", "--exit-code", *where, folder=tmp_path)
        assert (done.code, done.err) == (10, "")
        asked = commands.publication.hub.log[before:]
        assert [entry.has_auth for entry in asked] == [False] * 2

    def test_of_a_hub_that_does_not_answer(self, commands: Commands, closed_port: str) -> None:
        done = commands.shell("status", "small.yaml", "--json", "--endpoint", closed_port)
        [found] = done.json["recipes"]
        assert (done.code, found["error"]["kind"], found["upstream"]) == (3, "no_network", "unknown")


class TestBump:
    def test_writes_the_recipe_and_says_what_changed(self, commands: Commands) -> None:
        commit = commands.moves()
        before = commands.recipe.read_text()
        done = commands("bump", "small.yaml")
        assert done.code == 0
        assert done.out.splitlines() == [
            f"small.yaml: {SOURCE} is at {commit[:12]}",
            f"  variants[0].sha256 ({MODEL}): {sha256(model_bytes())[:12]} -> {sha256(OTHER)[:12]}",
            f"  {MODEL}",
            "    The graph is equal apart from its weights.",
            "    Weights: 1 of 1 tensor differ (72 B of 72 B).",
            "Wrote small.yaml",
        ]
        assert commands.recipe.read_text() == before.replace(sha256(model_bytes()), sha256(OTHER))
        again = commands("bump", "small.yaml")
        assert (
            again.out == f"small.yaml: nothing to bump: {SOURCE} is at {commit[:12]}, and every pin holds\n"
        )
        assert again.code == 0

    def test_dry_writes_nothing(self, commands: Commands) -> None:
        commands.moves()
        before = commands.recipe.read_bytes()
        done = commands("bump", "small.yaml", "--dry-run")
        assert done.code == 0
        assert done.out.splitlines()[-1] == "Dry run: nothing was written."
        assert commands.recipe.read_bytes() == before

    def test_as_json_has_what_a_pull_request_says(self, commands: Commands) -> None:
        commit = commands.moves()
        done = commands("bump", "small.yaml", "--json")
        assert done.code == 0
        document: dict[str, Any] = done.json
        assert document.keys() == {"recipe", "changed", "pins", "commit", "differences", "markdown"}
        assert (document["recipe"], document["changed"]) == ("small.yaml", True)
        assert document["commit"] == {"old": None, "new": commit}
        assert document["differences"][0]["weights"]["added"] == 1
        assert f"| `{MODEL}` |" in document["markdown"]
        assert not document["markdown"].startswith("#")
        assert sha256(OTHER) in commands.recipe.read_text()
        again = commands("bump", "small.yaml", "--json").json
        assert (again["changed"], again["pins"], again["markdown"]) == (False, [], "")

    def test_without_a_download(self, commands: Commands) -> None:
        commands.moves()
        done = commands("bump", "small.yaml", "--no-download")
        assert (done.code, done.err) == (0, "")
        assert sha256(OTHER) in commands.recipe.read_text()
        assert not commands.publication.hub.requests(r"resolve/.*\.onnx")

    def test_of_a_file_that_is_gone(self, commands: Commands) -> None:
        before = commands.recipe.read_bytes()
        commands.publication.api.delete_file(MODEL, SOURCE)
        done = commands("bump", "small.yaml", "--json")
        assert (done.code, done.error["kind"], done.error["missing"]) == (3, "file_not_found", [MODEL])
        assert commands.recipe.read_bytes() == before

    def test_of_a_recipe_that_cannot_be_written(
        self, commands: Commands, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commands.moves()
        before = commands.recipe.read_bytes()

        def refused(*_: Any, **__: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("tempfile.mkstemp", refused)
        done = commands("bump", "small.yaml", "--no-download", "--json")
        assert (done.code, done.error["kind"]) == (2, "cannot_write")
        assert commands.recipe.read_bytes() == before
