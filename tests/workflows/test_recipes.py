"""The matrix of a workflow: which recipes a change concerns, which are to be published, and why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import recipes

A, B = "configs/a.yaml", "configs/b.yaml"


@pytest.fixture(autouse=True)
def _two_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    for path in (A, B):
        Path(path).touch()


def status(**changes: Any) -> dict[str, Any]:
    plain = {"recipe": A, "source": "acme/a", "target": "acme/a-webgpu", "upstream": "unchanged", "files": []}
    return {**plain, "published": "up_to_date", "edited": {}, "action": None, "error": None, **changes}


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ([A], [A]),
        (["README.md", "configs/gone.yaml", "tests/hubpublish/x.py"], []),
        *(
            ([path], [A, B])
            for path in ("hubpublish/card.py", "templates/x.j2", "pyproject.toml", "constraints.txt")
        ),
    ],
)
def test_a_change_concerns_its_recipe_or_all(changed: list[str], concerned: list[str]) -> None:
    assert recipes.changed(changed) == [{"recipe": path} for path in concerned]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"action": "bump"}, "::notice file=configs/a.yaml::not published: the source is not the pinned one"),
        ({"target": None, "published": "unknown"}, "::notice file=configs/a.yaml::skipped: a variable of"),
        ({"action": "look", "published": "withdrawn"}, "to look at acme/a-webgpu: withdrawn\n"),
        ({"action": "look", "edited": {"README.md": "edited since"}}, "webgpu: README.md: edited since\n"),
        (
            {"action": "look", "upstream": "changed", "files": [{"path": "m.onnx", "change": "removed"}]},
            "::warning file=configs/a.yaml::not published: acme/a does not have m.onnx any more\n",
        ),
    ],
)
def test_what_is_not_to_be_published_is_not_and_says_why(
    changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recipes.publishable([status(**changes)]) == []
    assert said in capsys.readouterr().err


def test_what_is_to_be_published_is_also_what_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    error = {"message": "100 % wrong\nindeed", "where": "configs/b.yaml:3"}
    found = recipes.publishable(
        [status(action="publish"), status(recipe=B, target=None, action="look", error=error)]
    )
    assert found == [{"recipe": A, "target": "acme/a-webgpu"}, {"recipe": B, "target": ""}]
    assert (
        "::error file=configs/b.yaml::configs/b.yaml:3: 100 %25 wrong%0Aindeed\n" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "printed no JSON"), ('{"error": {"message": "the Hub is down"}}', "the Hub is down")],
)
def test_without_a_status_there_is_no_matrix(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        recipes.read_status(path)


def test_a_status_document_is_read(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    path.write_text(json.dumps({"recipes": [status()]}))
    assert recipes.read_status(path) == [status()]
