from __future__ import annotations

import json
import re
from typing import Any

import pytest

import hubpublish
from hubpublish import recipe as recipes
from hubpublish import report as reports
from hubpublish.recipe import Recipe
from hubpublish.report import Report, run_key, versions
from tests.publication import TARGET, model_bytes, sha256
from tests.reports import COMMIT, recipe_of, report_of, variant_report

COPIED = {"config.json": "c" * 64, "LICENSE": "d" * 64}


def resolved(commit: str = COMMIT, target: str = TARGET, copied: Any = None, **changes: Any) -> Recipe:
    recipe = recipe_of(**changes)
    return recipes.resolved(recipe, commit=commit, target=target, copied=copied or COPIED)


class TestReport:
    def test_goes_to_json_and_back(self) -> None:
        report = report_of()
        text = report.to_json()
        assert Report.model_validate_json(text) == report
        assert Report.model_validate_json(text).to_json() == text
        assert text.endswith("}\n")

    def test_holds_nothing_that_does_not_repeat(self) -> None:
        text = report_of(variant_report()).to_json()
        assert text == report_of(variant_report()).to_json()
        assert not re.search(r"/tmp|/home|/root|127\.0|seconds|peak_bytes|started|\d\d:\d\d:\d\d", text)

    def test_has_what_each_pass_did_node_by_node(self) -> None:
        passes = json.loads(report_of().to_json())["variants"][0]["passes"]
        assert {each["name"]: each["options"] for each in passes} == {
            "concat_tree": {"max_inputs": 6},
            "split_tree": {"max_outputs": 5},
            "sum_to_add": {},
        }
        assert passes[2]["rewritten"] == [{"node": "total", "op": "Sum", "scope": "main", "into": {"Add": 2}}]
        assert passes[2]["skipped"] == []

    def test_lists_every_model_file(self) -> None:
        both = [variant_report(), variant_report("onnx/model_fp16.onnx", "fp16")]
        assert [record.path for record in report_of(*both).outputs] == [
            "onnx/model.onnx",
            "onnx/model_fp16.onnx",
        ]

    def test_needs_are_those_of_the_widest_node(self) -> None:
        variant = variant_report()
        assert variant.fit.widest is not None
        assert variant.needs.requiredLimits.maxStorageBuffersPerShaderStage == variant.fit.widest.slots
        assert variant.needs.requiredFeatures == ()


class TestKey:
    def test_is_the_same_for_the_same(self) -> None:
        key = run_key(resolved(), {"a.png": "e" * 64})
        assert re.fullmatch("[0-9a-f]{64}", key)
        assert key == run_key(resolved(), {"a.png": "e" * 64})

    def test_of_a_resolved_recipe_is_its_own(self) -> None:
        once = resolved()
        again = recipes.resolved(once, commit=COMMIT, target=TARGET, copied=COPIED)
        assert run_key(again, {}) == run_key(once, {})
        assert run_key(recipes.loads(recipes.dumps(once), "recipe.yaml"), {}) == run_key(once, {})

    @pytest.mark.parametrize(
        "changed",
        [
            {"commit": "f" * 40},
            {"target": "acme/other"},
            {"copied": {**COPIED, "config.json": "0" * 64}},
            {"copied": {"config.json": "c" * 64}},
            {"passes": ["concat_tree", "split_tree"]},
            {"passes": ["split_tree", "concat_tree", "sum_to_add"]},
            {"passes": [{"concat_tree": {"max_inputs": 5}}, "split_tree", "sum_to_add"]},
            {"device": "webgpu-desktop"},
            {"verify": {"gate": "exact_unoptimized"}},
            {"verify": {"inputs": {"noise": 1, "seed": 1}}},
            {"card": {"license": "mit", "title": "Another"}},
            {
                "variants": [
                    {"path": "onnx/model.onnx", "dtype": "fp32", "sha256": sha256(model_bytes() + b"\0")},
                ]
            },
        ],
        ids=lambda changed: next(iter(changed)),
    )
    def test_changes_with_every_ingredient(self, changed: dict[str, Any]) -> None:
        assert run_key(resolved(**changed), {}) != run_key(resolved(), {})

    def test_changes_with_an_image(self) -> None:
        keys = {
            run_key(resolved(), images) for images in ({}, {"a": "1" * 64}, {"a": "2" * 64}, {"b": "1" * 64})
        }
        assert len(keys) == 4

    @pytest.mark.parametrize("name", reports.VERSIONED)
    def test_changes_with_a_version(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        before = run_key(resolved(), {})
        found = {**versions(), name: "99.0"}
        monkeypatch.setattr(reports, "versions", lambda **_: found)
        assert run_key(resolved(), {}) != before

    def test_changes_with_the_template_of_the_card(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = run_key(resolved(), {})
        monkeypatch.setattr(reports, "card_template_sha256", lambda: "0" * 64)
        assert run_key(resolved(), {}) != before

    def test_does_not_change_with_what_defaults_say(self) -> None:
        explicit = resolved(
            passes=[{"concat_tree": {"max_inputs": 6}}, {"split_tree": {"max_outputs": 5}}, "sum_to_add"],
            device={"profile": "webgpu-min"},
        )
        assert run_key(explicit, {}) == run_key(resolved(), {})


def test_versions_are_the_installed_ones() -> None:
    found = versions()
    assert tuple(found) == reports.VERSIONED
    assert found["hubpublish"] == hubpublish.__version__
