from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import jinja2.nodes
import pytest
import yaml
from huggingface_hub import HfApi, ModelCard

from hubpublish import markdown
from hubpublish.card import render, replaced, verdict, verified, widest
from hubpublish.hub import validate_card
from hubpublish.inspection.models import WASM_BYTES
from hubpublish.markdown import cell, render_template, template_folder
from hubpublish.original import explanations
from hubpublish.pictures import NONE
from hubpublish.publish import Plan, TargetState
from hubpublish.regions import holds_words, outside_of, texts_of
from hubpublish.report import Report
from hubpublish.rows import merged
from hubpublish.verify import InputResult
from hubpublish.verify.webgpu.result import Accumulation, HalfOutput
from hubpublish.words import readable_binary_bytes
from tests.publication import TARGET
from tests.reports import COMMIT, card_spec, distance, on_webgpu, report_of, variant_report, verification

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

UNNAMED = """<ir_version: 8, opset_import: ["": 13]>
g (float[18] x, int64[9] sizes) => (float[18] y)
<int64[9] sizes = {2, 2, 2, 2, 2, 2, 2, 2, 2}>
{
  p0, p1, p2, p3, p4, p5, p6, p7, p8 = Split <axis = 0> (x, sizes)
  y = Concat <axis = 0> (p8, p7, p6, p5, p4, p3, p2, p1, p0)
}"""


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of()


@pytest.fixture(scope="module")
def card(report: Report) -> str:
    return render(report, card_spec())


def metadata(card: str) -> dict[str, Any]:
    """The block as the Hub's client reads it."""
    return {name: value for name, value in vars(ModelCard(card).data).items() if value is not None}


def tables(text: str) -> list[list[list[str]]]:
    """Every table as rows of cells; the header is the first row."""
    found: list[list[list[str]]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not all(set(each) <= {"-"} for each in cells):
                found[-1].append(cells)
        elif not found or found[-1]:
            found.append([])
    return [table for table in found if table]


def table(text: str, first: str) -> list[list[str]]:
    return next(each for each in tables(text) if each[0][0] == first)


class TestTemplates:
    @pytest.mark.parametrize("name", ["model_card.md.j2", "on_webgpu.md.j2", "preview.md.j2"])
    def test_hold_no_number(self, name: str) -> None:
        source = (template_folder() / name).read_text("utf-8")
        tree = jinja2.Environment().parse(source)
        texts = [each.data for each in tree.find_all(jinja2.nodes.TemplateData)]
        named = re.compile(r"SHA-256|`shader-f16`")  # names, not figures
        assert not [text for text in texts if re.search(r"\d", named.sub("", text))]

    def test_take_no_missing_value(self) -> None:
        with pytest.raises(jinja2.UndefinedError):
            render_template("model_card.md.j2", metadata="")
        # Also where it is only asked for, and would pass for "no".
        state = TargetState(TARGET, "main", False, None)
        given = {"report": report_of(), "plan": Plan(state, (), (), ()), "verdict": verdict, "code": str}
        given |= {
            "runtimes": "",
            "on_device": [],
            "obstacles": [],
            "webgpu_rows": [],
            "not_on_webgpu": [],
            "tag": "",
            "withdrawn": False,
            "summary": "",
            "variants": [],
            "pictures": NONE,
        }
        with pytest.raises(jinja2.UndefinedError, match="card_diff"):
            render_template("preview.md.j2", fence="", **given)

    def test_are_read_again_once_they_changed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is compiled is kept, and a card must be that of the template whose hash is in its key."""
        monkeypatch.setattr(markdown, "template_folder", lambda: tmp_path)
        for number, text in enumerate(("before", "after")):
            (tmp_path / "model_card.md.j2").write_text(text)
            os.utime(tmp_path / "model_card.md.j2", (number, number))
            assert render_template("model_card.md.j2") == f"{text}\n"

    def test_are_short_lines_of_markdown(self, card: str) -> None:
        assert card.endswith("\n")
        assert not card.endswith("\n\n")
        assert "\n\n\n" not in card
        assert not re.search(r"[ \t]$", card, re.MULTILINE)
        assert "{{" not in card
        assert "None" not in card


class TestMetadata:
    def test_is_what_the_recipe_says(self, card: str) -> None:
        data = metadata(card)
        assert data == {
            "license": "mit",
            "library_name": "transformers.js",
            "pipeline_tag": "image-segmentation",
            "tags": ["webgpu"],
            "base_model": ["acme/small"],
        }

    def test_is_valid_on_the_hub(self, api: HfApi, card: str) -> None:
        assert validate_card(api, card) == []

    def test_survives_what_yaml_would_read_otherwise(self, report: Report) -> None:
        spec = card_spec(tags=["no", "1.0", "a: b", "- c", "# d", "ü", "'e'"])
        assert metadata(render(report, spec))["tags"] == ["no", "1.0", "a: b", "- c", "# d", "ü", "'e'"]

    def test_names_a_library_that_loads_the_files_only_where_it_can(self) -> None:
        assert "library_name" not in metadata(render(report_of(copied=()), card_spec()))

    def test_names_no_task_that_there_is_not(self, report: Report) -> None:
        text = render(report, card_spec(pipeline_tag=None, tags=[]))
        assert "pipeline_tag" not in yaml.safe_load(text.split("---")[1])


class TestNumbers:
    def test_in_tables_are_the_reports(self, report: Report, card: str) -> None:
        variant = report.variants[0]
        size = f"{variant.output[0].size / 1000:.1f} kB"
        assert table(card, "File")[1][1:] == [
            "fp32",
            size,
            "7 storage buffers per shader, tensors of up to 144 B",
        ]
        replacements = section(card, "What was replaced")
        rows = [[row[1], row[3], row[4]] for row in table(replacements, "Files")[1:]]
        assert rows == [
            ["`concat_tree`", "1 Concat", "3 Concat"],
            ["`split_tree`", "1 Split", "3 Constant, 3 Split"],
            ["`sum_to_add`", "1 Sum", "2 Add"],
        ]
        widest = [each for each in tables(card) if each[0][1] == "Operator"]
        assert widest[0][1:] == [
            ["`onnx/model.onnx`", "Concat", "10", "7"],
            ["`onnx/model.onnx`", "Split", "10", "6"],
        ]
        compared = [each for each in tables(card) if "Optimizations" in each[0]]
        assert [row[1:] for row in compared[0][1:]] == [
            ["disabled", "1", "1,500", "0", "0"],
            ["default", "1", "1,500", "0", "0"],
        ]
        assert f"has {variant.before.nodes} nodes before and {variant.after.nodes} nodes after" in card

    def test_of_any_other_kind_are_the_reports_too(self, report: Report, card: str) -> None:
        known = set(NUMBER.findall(report.to_json() + json.dumps(report.to_json())))
        known |= {str(len(report.variants)), "256"}
        for variant in report.variants:
            known |= {f"{record.size / 1000:.1f}" for record in (*variant.source, *variant.output)}
            counts = [len(each.rewritten) for each in variant.passes]
            counts += [sum(node.into.get(op, 0) for node in each.rewritten) for each in variant.passes
                       for op in ("Concat", "Split", "Constant", "Add")]  # fmt: skip
            known |= {f"{count:,}" for count in counts}
            known |= {f"{variant.before.nodes:,}", f"{variant.after.nodes:,}", "1,500"}
            known |= set(NUMBER.findall("".join(explanations(report))))
        limits = (report.device.max_binding_bytes, report.device.max_buffer_bytes, WASM_BYTES)
        known |= {readable_binary_bytes(limit).split()[0] for limit in limits}
        assert set(NUMBER.findall(card)) <= known

    def test_differ_from_the_original_are_stated(self) -> None:
        proof = verification(
            held="exact_unoptimized",
            gate="exact_unoptimized",
            default=distance(7, 2.5e-7),
            own=distance(9, 3e-6),
        )
        variant = variant_report(proof=proof)
        assert [(row.level, row.differing, row.max_abs) for row in verified(variant)] == [
            ("disabled", 0, 0.0),
            ("default", 7, 2.5e-7),
        ]
        assert "differ by 2.5e-07 at most" in verdict(variant)
        assert "up to 3e-06" in verdict(variant)
        card = render(report_of(variant), card_spec())
        assert "| default | 1 | 1,500 | 7 | 2.5e-07 |" in card
        assert "give the same bits" not in card

    def test_of_inputs_are_of_those_that_were_compared(self) -> None:
        proof = verification()
        failing = InputResult(label="noise 1", status="both_fail", error="no")
        levels = [level.model_copy(update={"inputs": (*level.inputs, failing)}) for level in proof.levels]
        notes = ("Every output is empty.",)
        variant = variant_report(proof=proof.model_copy(update={"levels": tuple(levels), "notes": notes}))
        assert [row.inputs for row in verified(variant)] == [1, 1]
        card = render(report_of(variant), card_spec())
        assert (
            "and at the default level. Every output is empty. On `noise 1` the runtime reports an error for "
            "both models, so nothing is compared.\n"
        ) in card

    def test_of_a_tolerance_are_the_measured_ones(self) -> None:
        proof = verification(
            held="tolerance", gate={"max_abs": 0.001, "mean_abs": 0.01}, default=distance(7, 5e-4)
        )
        assert verdict(variant_report(proof=proof)) == (
            "within the tolerance that the recipe sets (max_abs at most 0.001: 0.0005, "
            "mean_abs at most 0.01: 0.00025); not the same bits."
        )


class TestRows:
    def test_that_say_the_same_are_one(self) -> None:
        both = [variant_report(), variant_report("onnx/model_fp16.onnx", "fp16")]
        rows = merged(row for variant in both for row in replaced(variant))
        assert [row.file for row in rows] == ["`onnx/model.onnx`, `onnx/model_fp16.onnx`"] * 3

    def test_that_do_not_stay_apart(self) -> None:
        both = [variant_report(), variant_report("onnx/b.onnx", passes=("concat_tree", "split_tree"))]
        rows = merged(row for variant in both for row in replaced(variant))
        assert [row.file for row in rows] == ["`onnx/model.onnx`, `onnx/b.onnx`"] * 2 + ["`onnx/model.onnx`"]

    def test_name_files_of_one_name_by_their_paths(self) -> None:
        both = [
            variant_report("onnx/model.onnx"),
            variant_report("q/model.onnx", passes=("concat_tree", "split_tree")),
        ]
        card = render(report_of(*both), card_spec())
        assert [row[0] for row in table(section(card, "What was replaced"), "Files")[1:]][
            -1
        ] == "`onnx/model.onnx`"

    def test_are_there_for_what_was_left_alone(self) -> None:
        text = UNNAMED.replace("p0, p1, p2, p3, p4, p5, p6, p7, p8 =", "p0, p1, p2, p3, p4, p5, p6 =")
        text = text.replace(
            "int64[9] sizes = {2, 2, 2, 2, 2, 2, 2, 2, 2}", "int64[7] sizes = {2, 2, 2, 3, 3, 3, 3}"
        )
        text = text.replace("int64[9] sizes)", "int64[7] sizes)").replace("(p8, p7, p6", "(p6")
        variant = variant_report(text=text)
        (row,) = [row for row in replaced(variant) if row.name == "split_tree"]
        assert row.rewritten == ""
        assert row.skipped.startswith("1: its sizes are an initializer that a caller may override")
        assert list(widest(variant)) == [each for each in widest(variant) if each.op == "Concat"]

    def test_claim_no_failure_of_a_node_that_fits(self) -> None:
        text = """<ir_version: 8, opset_import: ["": 13]> g (float[7] x) => (float[7] y)
        { a, b, c, d, e, f, h = Split <axis = 0> (x) y = Concat <axis = 0> (a, b, c, d, e, f, h) }"""
        card = render(report_of(variant_report(text=text)), card_spec())
        assert "1 Split" in card  # narrowed to five outputs, although seven and an input are eight
        assert "Too many storage buffers" not in card

    def test_are_absent_where_nothing_was_found(self) -> None:
        text = '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) { y = Tanh (x) }'
        card = render(report_of(variant_report(text=text)), card_spec())
        assert "Storage buffers that the widest" not in card
        assert "## What was replaced" not in card
        assert "No failure of the original on this device is known." in card


GATHER_ND = """<ir_version: 9, opset_import: ["": 17]>
g (float[1,4,4,4,4] x, int64[1,4,2,2] at) => (float y)
{ a = Relu (x) y = GatherND <batch_dims = 2> (a, at) }"""
MAX = f"""<ir_version: 9, opset_import: ["": 17]>
g (float[4] x) => (float[4] y) {{ y = Max ({", ".join(["x"] * 12)}) }}"""
FITS = '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) { y = Tanh (x) }'
NO_FAILURE = "No failure of the original on this device is known."


def section(card: str, heading: str) -> str:
    return card.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


class TestWhyTheOriginalFails:
    def test_is_what_the_inspection_of_the_original_found(self, card: str) -> None:
        text = section(card, "Why the original fails")
        assert table(text, "Files")[1:] == [
            ["`onnx/model.onnx`", "1", "Concat", "binds 10, 8 granted", "does not compile", "web-1.22"],
            [
                "`onnx/model.onnx`",
                "1",
                "Split",
                "binds 10, 8 granted",
                "does not compile",
                "all that were looked at",
            ],
        ]
        assert "Nothing of this is left in the published files." in text
        assert "left in the published files**" not in text

    @pytest.mark.parametrize(
        ("text", "failure", "left"),
        [
            (
                GATHER_ND,
                "fails with a shader error | web-1.22 |",
                "GatherND, does not work: fails with a shader",
            ),
            (MAX, "binds 13, 8 granted | does not compile |", "Max, binds 13, 8 granted: does not compile"),
        ],
    )
    def test_says_it_also_where_no_pass_helps_and_what_is_left(
        self, text: str, failure: str, left: str
    ) -> None:
        why = section(render(report_of(variant_report(text=text)), card_spec()), "Why the original fails")
        assert failure in why
        assert NO_FAILURE not in why
        assert "**Some of this is left in the published files**" in why
        assert f"- `onnx/model.onnx`: 1 node of {left}" in why
        assert "Nothing of this" not in why

    def test_is_not_known_only_where_nothing_fails(self) -> None:
        why = section(render(report_of(variant_report(text=FITS)), card_spec()), "Why the original fails")
        assert why.count(NO_FAILURE) == 1
        assert "run on the CPU" not in why
        on_cpu = FITS.replace("Tanh", "Round")
        why = section(render(report_of(variant_report(text=on_cpu)), card_spec()), "Why the original fails")
        assert f"{NO_FAILURE} Some of its nodes run on the CPU" in why

    def test_counts_a_tensor_in_several_bindings_only_where_they_are_too_many(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17]>
        g (float[16,4194304] x, float[16,4194304] z) => (float[16,4194304] y) {"""
        seven = ", ".join(["x", "z"] * 3)
        for body, known in (("y = Neg (x)", False), (f"y = Max ({seven})", True)):
            variant = variant_report(text=f"{text} {body} }}")
            why = section(render(report_of(variant), card_spec()), "Why the original fails")
            assert ("does not compile" in why) is known
            assert (NO_FAILURE in why) is not known


class TestWithoutARewrite:
    def test_it_is_not_said_that_the_graph_was_rewritten(self) -> None:
        card = render(report_of(variant_report(text=FITS)), card_spec())
        assert "as they are: no pass found anything to replace, so each is upstream's graph" in card
        assert "Nothing stood in the way of any of them on `webgpu-min`" in card
        assert "these files give the same bits as the originals" in card
        assert "rewritten" not in card

    def test_what_stands_in_the_way_all_the_same_is_not_denied(self) -> None:
        card = render(report_of(variant_report(text=GATHER_ND)), card_spec())
        assert "as they are: no pass found anything to replace" in card
        assert "Nothing stood in the way" not in card

    def test_of_one_of_two_files_only_that_is_named(self) -> None:
        both = variant_report(), variant_report("onnx/fits.onnx", text=FITS)
        card = render(report_of(*both), card_spec())
        assert "with the graph rewritten. No node" in card
        assert (
            "In `onnx/fits.onnx` no pass found anything to replace: upstream's graph, written again." in card
        )
        assert "Nothing stood in the way of `onnx/fits.onnx` on `webgpu-min`" in card

    def test_nothing_of_it_is_said_of_a_rewritten_graph(self, card: str) -> None:
        assert "with the graph rewritten. No node" in card
        assert "written again" not in card
        assert "Nothing stood in the way" not in card

    @pytest.mark.parametrize("text", [GATHER_ND, MAX, FITS, FITS.replace("Tanh", "Round"), None])
    def test_the_card_has_no_gaps_whatever_is_said(self, text: str | None) -> None:
        for auto in (False, True):
            variant = variant_report(text=text).model_copy(update={"auto": auto})
            card = render(report_of(variant), card_spec())
            assert "\n\n\n" not in card
            assert not re.search(r"[^\n]\n(#|\*\*Some|Nothing of this|\| Files|To make)", card)


class TestChosenPasses:
    def test_are_named_as_such(self, card: str) -> None:
        assert "passes: auto" not in card
        variant = variant_report().model_copy(update={"auto": True})
        found = render(report_of(variant), card_spec())
        assert (
            "(`passes: auto`), which chose them for `webgpu-min`; [recipe.yaml](./recipe.yaml) names" in found
        )
        assert "\n- `onnx/model.onnx`: `concat_tree`, `split_tree`, `sum_to_add`\n" in found


class TestOnWebGpu:
    def test_what_ran_and_what_did_not_is_stated(self) -> None:
        both = variant_report(webgpu=on_webgpu()), variant_report("onnx/model_fp16.onnx", "fp16")
        card = render(report_of(*both), card_spec())
        (rows,) = (each for each in tables(card) if "Outcome" in each[0])
        wrong = "fails: `[ONNXRuntimeError] Too many storage buffers in shader. Current: 10, Max is 8`"
        assert rows[1:] == [
            ["`onnx/model.onnx`", "the original", wrong, "–", "–", "–"],
            [
                "`onnx/model.onnx`",
                "this file",
                "runs",
                "1 of 13 (1 Round)",
                "0 to the GPU, 0 from it",
                "0.00046",
            ],
        ]
        assert "Run with onnxruntime 1.99.0 with a plugin on llvmpipe with 8 storage buffers" in card
        assert "`onnx/model_fp16.onnx` was not run on one" in card
        assert "not run on a GPU" not in card

    def test_a_limit_that_was_not_lowered_is_told(self) -> None:
        adapter = on_webgpu().adapter.model_copy(update={"storage_buffers": 16, "not_lowered": "no compiler"})
        card = render(report_of(variant_report(webgpu=on_webgpu(adapter=adapter))), card_spec())
        assert "with 16 storage buffers (not lowered to 8: no compiler)" in card

    def test_what_adds_up_most_in_half_precision_is_named(self) -> None:
        most = (Accumulation(node="a|`b`", op="Conv", terms=27648),)
        floor, far = (distance(7, max_abs=2 * each) for each in (0.00324, 0.0367))
        half = (HalfOutput(name="y", floor=floor, distance=far),)
        card = render(report_of(variant_report(webgpu=on_webgpu(accumulations=most, half=half))), card_spec())
        assert "most on such a device: `` a|`b` `` (Conv, 27,648)." in card
        assert "storing halves moves `y` by 0.00324 on average, this device by 0.0367, 11.3 times as" in card

    def test_without_a_run_it_says_so(self, card: str) -> None:
        assert "The files were not run on a GPU for this card" in card
        assert "On a WebGPU device" not in card


class TestHostileText:
    TEXTS = ("{{ 7 * 7 }}", "{% for x in y %}", "{# gone #}", "{0.__class__}", "{slots}", "%s $HOME")

    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("key", ["title", "summary", "credits", "citation", "inputs", "outputs", "usage"])
    def test_of_a_recipe_is_taken_as_it_is(self, report: Report, key: str, text: str) -> None:
        assert text in render(report, card_spec(**{key: text}))

    def test_in_cells_does_not_break_the_table(self) -> None:
        assert cell("a | b\nc\r\n\td") == "a \\| b c d"

    def test_in_names_of_a_model_is_only_text(self) -> None:
        variant = variant_report()
        hostile = "a|b`c\n{{ 7 * 7 }}{0}"
        outcome = variant.passes[0]
        skipped = [{"node": hostile, "op": "Concat", "scope": hostile, "reason": f"named {hostile}"}]
        changed = outcome.model_copy(update={"skipped": tuple(_skipped(skipped))})
        variant = variant.model_copy(update={"passes": (changed, *variant.passes[1:])})
        card = render(report_of(variant), card_spec())
        rows = table(section(card, "What was replaced"), "Files")
        assert {len(row) for row in rows} == {6}
        assert "{{ 7 * 7 }}{0}" in rows[1][5]
        assert metadata(card)["license"] == "mit"

    def test_in_paths_keeps_links_and_tables_whole(self) -> None:
        variant = variant_report("onnx/a|b (1).onnx")
        card = render(report_of(variant), card_spec())
        files = table(card, "File")
        assert {len(row) for row in files} == {4}
        assert files[1][0] == "[`onnx/a\\|b (1).onnx`](./onnx/a%7Cb%20%281%29.onnx)"

    def test_of_an_operator_keeps_the_list_whole(self) -> None:
        variant = variant_report()
        width = variant.fit.widest_by_op[0].model_copy(
            update={"op": "com.microsoft::Odd|\nOp", "slots": 12, "narrowed_by": None}
        )
        fit = variant.fit.model_copy(update={"cannot_run": (width,)})
        card = render(report_of(variant.model_copy(update={"fit": fit})), card_spec())
        assert "- com.microsoft::Odd\\| Op: 12 storage buffers" in card


class TestText:
    def test_says_where_it_comes_from_and_how_to_repeat_it(self, card: str) -> None:
        assert f"[acme/small](https://huggingface.co/acme/small) at commit `{COMMIT}`" in card
        assert f"hf download {TARGET} recipe.yaml" in card
        assert "hubpublish run recipe.yaml --dry-run" in card
        assert "hubpublish 9.8.7, onnxruntime 1.99.0" in card

    def test_counts_a_limit_of_the_runtime_below_that_of_the_device(self) -> None:
        variant = variant_report()
        (split,) = (each for each in variant.fit_before.widest_by_op if each.op == "Split")
        widths = (split.model_copy(update={"slots": 9, "limit": 8}),)
        before = variant.fit_before.model_copy(update={"limit": 10, "widest_by_op": widths})
        after = variant.fit.model_copy(update={"limit": 10, "widest_by_op": widths})
        card = render(report_of(variant.model_copy(update={"fit_before": before, "fit": after})), card_spec())
        assert "A Split binds 9 storage buffers" in card
        assert "Current: 9, Max is 8" in card
        assert any(row[1:] == ["Split", "9", "9"] for rows in tables(card) for row in rows)

    def test_quotes_the_runtime_on_why_the_original_fails(self, card: str) -> None:
        assert "Too many storage buffers in shader. Current: 10, Max is 8" in card

    def test_of_a_recipe_has_its_place(self, report: Report) -> None:
        spec: dict[str, Any] = {
            "title": "A title",
            "summary": "What it does.\n",
            "inputs": "`x`: noise.\n",
            "outputs": "`y`: noise too.\n",
            "credits": "By [acme](https://huggingface.co/acme).\n",
            "citation": "@article{a,\n  title = {B}\n}\n",
            "license": "apache-2.0",
            "license_differs_because": "The author said so.\n",
            "usage": "Load it.\n",
        }
        card = render(report, card_spec(**spec))
        headings = [line for line in card.splitlines() if re.match("#+ ", line)]
        assert headings == [
            "# A title",
            *("## Usage", "## Files", "## Why the original fails", "## What was replaced"),
            *("## On the device", "## Verification"),
            *("## Provenance", "## Credits and license", "### Citation"),
        ]
        assert "License: `apache-2.0`; the source's card says `mit`.\nThe author said so." in card
        assert "```bibtex\n@article{a,\n  title = {B}\n}\n```" in card
        assert "## Usage\n\nLoad it.\n\n## Files" in card


class TestFreeText:
    def test_is_not_there_unless_the_recipe_names_it(self, card: str) -> None:
        assert "free text" not in card
        assert texts_of(card) == {}

    def test_has_regions_in_the_order_of_the_recipe(self, report: Report, card: str) -> None:
        found = render(report, card_spec(free_text=["notes", "examples"]))
        assert list(texts_of(found)) == ["notes", "examples"]
        assert not any(map(holds_words, texts_of(found).values()))
        lines = found.splitlines()
        usage, files = lines.index("## Usage"), lines.index("## Files")
        places = [at for at, line in enumerate(lines) if "free text: " in line]
        assert all(usage < at < files for at in places)
        shown = re.sub(r"<!--.*?-->\n*", "", found)
        assert shown == card  # nobody sees what nobody has written in

    def test_reads_as_markdown_between_blank_lines(self, report: Report) -> None:
        found = render(report, card_spec(free_text=["notes", "examples"]))
        assert "\n\n<!-- free text: notes -->\n<!-- hubpublish: " in found
        assert " -->\n\n<!-- end of free text: notes -->\n\n<!-- free text: examples -->\n" in found
        assert "<!-- end of free text: examples -->\n\n## Files\n" in found
        assert "\n\n\n" not in found

    def test_leaves_all_else_as_it_is(self, report: Report) -> None:
        found = render(report, card_spec(free_text=["notes"]))
        written = found.replace("<!-- end of", "## Notes\n\nI like it.\n<!-- end of")
        assert outside_of(written) == outside_of(found)
        assert metadata(written) == metadata(found)


def _skipped(data: list[dict[str, str]]) -> Iterator[Any]:
    from hubpublish.passes import Skipped

    yield from (Skipped(**each) for each in data)
