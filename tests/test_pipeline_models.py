"""Models of every kind through a whole run, and what the card says of each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import yaml

from hubpublish import recipe as recipes
from hubpublish.errors import SourceError, VerificationError
from hubpublish.model import FreshNames, Scope
from hubpublish.passes import PASSES, PassOptions, RewritePass
from hubpublish.passes.base import NodeMaker, Replacement, Skip
from hubpublish.recipe import Recipe
from tests.errors import error_of
from tests.publication import TARGET, Publication, model_bytes, recipe_data, sha256

MODEL, DATA = "onnx/model.onnx", "onnx/model.onnx_data"

WEIGHTS = ", ".join(f"0.{digit}" for digit in "1234567891234567")

# Ten storage buffers that no pass can narrow.
LSTM = f"""<ir_version: 8, opset_import: ["": 14]>
g (float[3,1,2] x, float[1,1,2] h0, float[1,1,2] c0) => (float[3,1,1,2] y, float[1,1,2] h)
<float[1,8,2] w = {{{WEIGHTS}}}, float[1,8,2] r = {{{WEIGHTS}}}, float[1,16] b = {{{WEIGHTS}}},
 float[1,6] p = {{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}}>
{{
  [lstm] y, h, c = LSTM <hidden_size = 2> (x, w, r, b, , h0, c0, p)
}}"""

# What is added to a Conv the runtime folds into its bias, c + (b + k); what is summed it does not. The second
# half is folded in the original already, with 64 times the distance, so that the first half stays below it.
FUSED = """<ir_version: 8, opset_import: ["": 17]>
g (float[1,4,8,8] x) => (float[1,8,8,8] y)
{
  a = Conv <pads = [1,1,1,1]> (x, w, b)
  [total] s = Sum (a, k)
  c = Conv <pads = [1,1,1,1]> (x, w64, b64)
  t = Add (c, k64)
  y = Concat <axis = 1> (s, t)
}"""

TANH = """<ir_version: 8, opset_import: ["": 13]>
g (float[64] x) => (float[64] y) { [tanh] t = Tanh (x) [total] y = Sum (t, x) }"""


class Nearly(RewritePass[PassOptions]):
    """Tanh as a quotient of exponentials, which rounds differently."""

    name = "nearly"
    exact = False
    summary = "Tanh becomes a quotient of exponentials"
    op_types = frozenset({"Tanh"})

    def concerns(self, node: ir.Node) -> bool:
        return True

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        make = NodeMaker(node, names)
        (once,) = make("Exp", node.inputs)
        (inverse,) = make("Reciprocal", [once])
        (above,) = make("Sub", [once, inverse])
        (below,) = make("Add", [once, inverse])
        return Replacement(make.nodes, make("Div", [above, below]))


def card_of(publication: Publication) -> str:
    return publication.read("README.md").decode()


def test_external_data_stays_external(publication: Publication, tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 13]>
        g (float[2,400] x) => (float[2,400] y) { a = Mul (x, w) [total] y = Sum (a, x, w) }""")
    weight = np.linspace(-1, 1, 400, dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    made = tmp_path / "made"
    made.mkdir()
    onnx.save(model, made / "model.onnx", save_as_external_data=True, location="model.onnx_data")
    publication.models[MODEL] = (made / "model.onnx").read_bytes()
    data = (made / "model.onnx_data").read_bytes()
    publication.seed({DATA: data})
    recipe = recipe_data(publication.models)
    error = error_of(SourceError, lambda: publication.run(loaded(recipe)))
    assert DATA in str(error)
    recipe["variants"][0]["data"] = [{"path": DATA, "sha256": sha256(data)}]
    publication.run(loaded(recipe))
    files = publication.published()
    assert files[DATA] == weight.tobytes()
    report = json.loads(files["report.json"])
    outputs = {each["path"]: (each["sha256"], each["size"]) for each in report["variants"][0]["output"]}
    assert outputs == {path: (sha256(files[path]), len(files[path])) for path in (MODEL, DATA)}
    card = card_of(publication)
    assert f"| [`{DATA}`](./{DATA}) | fp32 | 1.6 kB | external data of the file above |" in card
    assert f"| here | `{DATA}` | `{sha256(files[DATA])}` |" in card
    assert sum(line.startswith("| from |") for line in card.splitlines()) == 2


def test_what_no_pass_can_narrow_is_published_and_named(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes(LSTM)
    publication.seed()
    result = publication.run()
    assert result.status == "published"
    assert result.report is not None
    (variant,) = result.report.variants
    assert [(width.node, width.slots) for width in variant.fit.cannot_run] == [("lstm", 10)]
    assert variant.needs.requiredLimits.maxStorageBuffersPerShaderStage == 10
    card = card_of(publication)
    assert "### Will not run on this device" in card
    assert "- LSTM: 10 storage buffers" in card
    assert "| 10 storage buffers per shader, tensors of up to " in card


def test_the_gate_that_held_is_stated(publication: Publication) -> None:
    model = onnx.parser.parse_model(FUSED)
    random = np.random.default_rng(0)
    for name, shape in {"w": (4, 4, 3, 3), "b": (4,), "k": (1, 4, 1, 1)}.items():
        values = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        model.graph.initializer.append(onnx.numpy_helper.from_array(64 * values, f"{name}64"))
    publication.models[MODEL] = model.SerializeToString()
    publication.seed()
    error = error_of(VerificationError, publication.run)
    assert error.kind == "different_default_level"
    assert "gate exact_unoptimized holds" in str(error)
    assert publication.nothing_is_published()
    result = publication.run(publication.recipe(verify={"gate": "exact_unoptimized"}))
    assert result.report is not None
    assert result.report.variants[0].verification.held == "exact_unoptimized"
    card = card_of(publication)
    figures = re.search(
        r"\*\*same bits\*\* as the original with optimizations disabled\. .* they differ by (\S+) at most; "
        r"the original's own two levels differ by up to (\S+)\.",
        card,
    )
    assert figures
    assert 0 < float(figures[1]) < float(figures[2])
    assert "give the same bits as the originals" not in card


def test_a_tolerance_is_never_called_equality(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PASSES, Nearly.name, Nearly)
    publication.models[MODEL] = model_bytes(TANH)
    publication.seed()
    passes = ["sum_to_add", "nearly"]
    recipe = publication.recipe(passes=passes, verify={"gate": {"max_abs": 1e-5, "mean_abs": 1e-6}})
    result = publication.run(recipe)
    assert result.report is not None
    (variant,) = result.report.variants
    assert variant.verification.held == "tolerance"
    card = card_of(publication)
    tolerance = (
        r"within the tolerance that the recipe sets \(max_abs at most 1e-05: (\S+), "
        r"mean_abs at most 1e-06: (\S+)\); not the same bits\."
    )
    found = re.search(tolerance, card)
    assert found
    assert 0 < float(found[2]) < float(found[1]) < 1e-5
    assert "give the same bits" not in card
    assert "**same bits**" not in card
    assert "quotient of exponentials (approximate)" in card


def test_what_is_equal_under_a_tolerance_is_called_equal(publication: Publication) -> None:
    publication.seed()
    publication.run(publication.recipe(verify={"gate": {"max_abs": 1e-3}}))
    assert "**same bits** as the original" in card_of(publication)


def test_a_variant_has_passes_and_verification_of_its_own(publication: Publication) -> None:
    publication.models["onnx/model_fp16.onnx"] = publication.models[MODEL]
    publication.seed()
    data = recipe_data(publication.models)
    data["variants"][1] |= {
        "passes": [{"concat_tree": {"max_inputs": 3}}, {"split_tree": {"max_outputs": 3}}],
        "verify": {"gate": {"max_abs": 1}, "inputs": {"noise": 2}},
    }
    result = publication.run(loaded(data))
    assert result.report is not None
    plain, own = result.report.variants
    assert [each.name for each in plain.passes] == ["concat_tree", "split_tree", "sum_to_add"]
    assert [each.options for each in own.passes] == [{"max_inputs": 3}, {"max_outputs": 3}]
    assert own.after.ops["Sum"] == 1
    assert own.verification.gate == {"max_abs": 1.0}
    assert [len(each.verification.inputs) for each in (plain, own)] == [1, 2]
    assert "at most 3 inputs" in card_of(publication)


def test_fixed_shapes_are_what_is_verified_and_stated(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes("""<ir_version: 8, opset_import: ["": 17]>
        g (float[batch, 3, height, width] pixels) => (float[batch, 3, height, width] y) {
          s = Shape (pixels) k = Constant <value = int64[1] {1}> () t = Mul (s, k) u = Mul (t, k)
          r = Relu (pixels) y = Reshape (r, u) }""")
    publication.seed()
    shapes = {"pixels": [1, 3, 4, 6]}
    passes = [{"static_shape": {"shapes": shapes}}]
    result = publication.run(publication.recipe(passes=passes))
    assert result.report is not None
    (variant,) = result.report.variants
    assert variant.after.ops == {"Relu": 1, "Reshape": 1}
    tensors = {each.tensors[0].shape for each in variant.verification.inputs}
    assert tensors == {(1, 3, 4, 6)}
    assert "The rewritten model takes `pixels` in the shape [1, 3, 4, 6] only." in card_of(publication)
    other = {"inputs": {"shapes": {"pixels": [1, 3, 6, 6]}}}
    error = error_of(
        VerificationError, lambda: publication.run(publication.recipe(passes=passes, verify=other))
    )
    assert "takes input 'pixels' only in the shape [1, 3, 4, 6]" in str(error)


def test_a_model_that_needs_no_rewrite_is_published_all_the_same(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes(
        '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) { y = Tanh (x) }'
    )
    publication.seed()
    assert publication.run().status == "published"
    card = card_of(publication)
    assert "No failure of the original on this device is known." in card
    assert "as they are: no pass found anything to replace" in card
    assert publication.commits()[0].startswith("Unchanged graph of acme/small@")
    warning = f"{MODEL}: nothing was rewritten, the file is upstream's graph, written again"
    assert publication.said.index(warning) < publication.said.index(f"publishing to {TARGET}")
    assert publication.nothing_is_published("acme/other")
    assert TARGET in card_of(publication)


def loaded(data: object) -> Recipe:
    return recipes.loads(yaml.safe_dump(data), "recipe.yaml")


def test_passes_chosen_for_the_device_are_those_of_the_report(publication: Publication) -> None:
    publication.seed()
    device = {"profile": "webgpu-min", "runtime": "web-1.30"}
    recipe = publication.recipe(passes="auto", device=device)
    result = publication.run(recipe)
    assert result.status == "published"
    assert result.report is not None
    (variant,) = result.report.variants
    assert {"split_tree", "sum_to_add", "fold_constants"} <= {each.name for each in variant.passes}
    assert variant.inspection_before.totals.on_cpu == 1
    assert variant.inspection.groups == ()
    assert variant.inspection.runtimes == ("web-1.30",)
    files = publication.published()
    named = recipes.loads(files["recipe.yaml"].decode()).passes
    assert [each.name for each in named if each != "auto"] == [each.name for each in variant.passes]  # type: ignore[union-attr]
    assert "The recipe left the passes to hubpublish (`passes: auto`)" in card_of(publication)
    assert json.loads(files["webgpu.json"])["files"][MODEL]["requiredFeatures"] == []
    assert "webgpu.json" in json.loads(files["manifest.json"])["files"]
    assert "Worked out from the graph for web-1.30, not measured" in card_of(publication)
    again = publication.run(recipe)
    assert again.status == "nothing_to_do"


def test_a_model_that_fails_in_a_runtime_is_published_with_a_warning(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes(
        """<ir_version: 8, opset_import: ["": 13]>
        g (float[1,2,3,4,4] x) => (float[1,2,1] y) <int64[1,2,1,3] at = {0, 1, 2, 1, 3, 0}>
        { a = Neg (x) y = GatherND <batch_dims = 2> (a, at) }"""
    )
    publication.seed()
    assert publication.run().status == "published"
    assert f"{MODEL} will not run in web-1.22: the card and webgpu.json say so" in publication.said
    needs = json.loads(publication.published()["webgpu.json"])["files"][MODEL]
    assert (needs["failsOn"], needs["onCpu"], needs["undecided"]) == (["web-1.22"], {"web-1.23": 1}, 0)
    assert "fails with a shader error (web-1.22)" in card_of(publication)


def test_an_approximate_pass_is_chosen_where_the_gate_is_a_tolerance(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication.models[MODEL] = model_bytes(TANH)
    publication.seed()
    monkeypatch.setitem(PASSES, "nearly", Nearly)
    monkeypatch.setattr(Nearly, "shrinks", True)  # as if any device asked for it
    exact = publication.run(publication.recipe(passes="auto"), dry_run=True)
    bounded = publication.run(
        publication.recipe(passes="auto", verify={"gate": {"max_abs": 1e-3}}), dry_run=True
    )
    names = [[each.name for each in run.report.variants[0].passes] for run in (exact, bounded) if run.report]
    assert ["nearly" in each for each in names] == [False, True]


@pytest.mark.webgpu
def test_a_recipe_may_ask_for_a_run_on_webgpu(publication: Publication, webgpu_device: object) -> None:
    publication.seed()
    verify = {"gate": "exact", "webgpu": {"original": True, "bounds": {"max_abs": 1e-6}}}
    result = publication.run(publication.recipe(verify=verify))
    assert result.report is not None
    (variant,) = result.report.variants
    assert variant.webgpu is not None
    assert [run.status for run in variant.webgpu.runs] == ["fails", "ok"]
    assert "onnxruntime-ep-webgpu" in result.report.versions
    card = card_of(publication)
    assert "### On a WebGPU device" in card
    assert "Too many storage buffers in shader. Current: 10, Max is 8" in card


@pytest.mark.webgpu
def test_what_does_not_run_on_webgpu_is_not_published(
    publication: Publication, webgpu_device: object
) -> None:
    publication.seed()
    verify = {"gate": "exact", "webgpu": {"storage_buffers": 8}}
    device = {"profile": "webgpu-desktop", "runtime": "native-0.4.0"}  # web-1.22 gives a Split 8 on any
    recipe = publication.recipe(passes=["sum_to_add"], device=device, verify=verify)
    error = error_of(VerificationError, lambda: publication.run(recipe))
    assert (error.kind, error.exit_code, error.where) == ("webgpu_fails", 5, MODEL)
    assert publication.nothing_is_published()
