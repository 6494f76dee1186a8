"""Whole runs on ONNX files that others made: fetched from a Hub, rewritten, verified, published."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from hubpublish.passes import PASSES
from hubpublish.report import VariantReport
from hubpublish.rewrite import rewrite
from tests.real.files import FILES
from tests.real.graphs import concat_depth, nodes, ops, weights, wide, widths, wiring
from tests.real.publications import DEFAULT, Publication, Publications

pytestmark = pytest.mark.real

WIDER_THAN_TWO: dict[str, dict[str, list[int]]] = {
    "silero-vad": {"Concat": [3] * 16, "Split": []},
    "silero-vad-op18": {"Concat": [], "Split": [4] * 2},
    "captcha-recognizer": {"Concat": [3] * 11 + [4], "Split": [3]},
    "nudenet": {"Concat": [3] * 11 + [4] * 4, "Split": []},
    "isnet-fp16": {"Concat": [], "Split": []},  # 89 Concats, all of two
}
# Their Convs of 129 = 3 x 43 input channels are among those that newer runtimes compute wrongly.
WRONG = ("silero-vad", "silero-vad-op18")
TREES = {"Concat": "concat_tree", "Split": "split_tree"}


@pytest.mark.parametrize("name", FILES)
def test_lowered_limits_leave_no_wide_node_and_change_no_bit(name: str, publications: Publications) -> None:
    done = publications.lowered(name)
    original = onnx.load(done.original)
    for variant, published in done.models:
        for op, expected in WIDER_THAN_TWO[name].items():
            assert wide(original, op, 2) == expected
            assert wide(published, op, 2) == []
            assert rewritten(variant, TREES[op]) == len(expected)
            # A tree of two-way nodes over n leaves has n - 1 of them.
            more = sum(width - 2 for width in expected)
            assert ops(published)[op] == ops(original)[op] + more
            assert widths(published, op)[2] == ops(published)[op]
        assert rewritten(variant, "sum_to_add") == ops(original)["Sum"] == 0
        assert rewritten(variant, "gather_nd_to_gather") == ops(original)["GatherND"] == 0
        assert_nothing_else_changed(original, published)
        assert_same_bits(variant)
        assert_served_as_reported(variant, done)


@pytest.mark.parametrize("name", [name for name in FILES if name != "isnet-fp16"])
def test_default_limits_find_nothing_to_rewrite(name: str, publications: Publications) -> None:
    done = publications.default(name)
    original = onnx.load(done.original)
    assert wide(original, "Concat", 6) == wide(original, "Split", 5) == []
    for variant, published in done.models:
        assert {each.name for each in variant.passes} == {*DEFAULT, "sum_to_add", "gather_nd_to_gather"}
        assert not any(each.rewritten for each in variant.passes)
        assert wiring(published) == wiring(original)
        assert_nothing_else_changed(original, published)
        assert_same_bits(variant)
    assert ("No failure of the original on this device is known." in done.card) == (name not in WRONG)
    assert ("Conv | does not work | computes wrong values" in done.card) == (name in WRONG)


def test_silero_is_rewritten_inside_the_branches_of_its_ifs(publications: Publications) -> None:
    done = publications.lowered("silero-vad")
    (branch,) = [node for node in onnx.load(done.original).graph.node if node.op_type == "If"]
    for variant in done.report.variants:
        scopes = Counter(each.scope for report in variant.passes for each in report.rewritten)
        assert sum(scopes.values()) == 16
        for half in ("then_branch", "else_branch"):
            inside = [scope for scope in scopes if scope.startswith(f"main/{branch.name}.{half}/")]
            assert sorted(scopes[scope] for scope in inside) == [4, 4]  # of the inner If, either way


def test_silero_answers_a_recording_alike_at_both_rates(publications: Publications) -> None:
    """Chunk by chunk, as the package's own wrapper feeds it: the state that came out goes in again."""
    done = publications.lowered("silero-vad")
    before, after = session(done.original), session(done.published["onnx/model.onnx"])
    for rate, chunk, context in ((16000, 512, 64), (8000, 256, 32)):
        recording = speechlike(rate)
        state = other = np.zeros((2, 1, 128), np.float32)
        answers, sr = [], np.array(rate)
        for start in range(context, recording.size - chunk, chunk):
            piece = recording[None, start - context : start + chunk]
            answer, state = before.run(None, {"input": piece, "state": state, "sr": sr})
            again, other = after.run(None, {"input": piece, "state": other, "sr": sr})
            assert answer.tobytes() == again.tobytes()
            assert state.tobytes() == other.tobytes()
            answers.append(float(answer[0, 0]))
        assert len(set(answers)) > 10


@pytest.mark.parametrize("limits", ["lowered", "default"])
def test_silero_is_published_although_its_lstms_will_not_run(limits: str, publications: Publications) -> None:
    done: Publication = getattr(publications, limits)("silero-vad")
    assert ops(onnx.load(done.original))["LSTM"] == 4
    for variant in done.report.variants:
        assert [(width.op, width.slots) for width in variant.fit.cannot_run] == [("LSTM", 9)] * 4
        assert not variant.fit.too_wide
    _, _, section = done.card.partition("### Will not run on this device")
    assert "- LSTM: 9 storage buffers" in section.partition("\n## ")[0]


def test_silero_of_opset_18_splits_inside_both_branches(publications: Publications) -> None:
    done = publications.lowered("silero-vad-op18")
    for variant in done.report.variants:
        (report,) = [each for each in variant.passes if each.name == "split_tree"]
        assert {each.scope.rpartition(".")[2] for each in report.rewritten} == {"then_branch", "else_branch"}
        assert [each.into["Split"] for each in report.rewritten] == [3, 3]
    assert "Will not run on this device" not in done.card


def test_captcha_recognizer_has_trees_and_not_chains(publications: Publications) -> None:
    done = publications.lowered("captcha-recognizer")
    original = onnx.load(done.original)
    ((_, published),) = done.models
    (widest,) = [node for node in nodes(original) if node.op_type == "Concat" and len(node.input) == 4]
    assert concat_depth(original, widest.output[0]) == 1
    assert concat_depth(published, widest.output[0]) == 2
    assert {each.name for each in done.report.variants[0].verification.levels[0].inputs[0].outputs} == {
        "output0",
        "output1",
    }


def test_nudenet_keeps_its_symbolic_dimensions(publications: Publications) -> None:
    done = publications.lowered("nudenet")
    shapes = {}
    for variant, published in done.models:
        dimensions = published.graph.input[0].type.tensor_type.shape.dim
        assert [each.dim_param for each in dimensions] == ["batch", "", "height", "width"]
        shapes[variant.path] = variant.verification.levels[0].inputs[0].outputs[0].shape
    # A box for every cell of the strides 8, 16 and 32.
    assert shapes == {
        "onnx/model.onnx": (1, 22, 40 * 40 + 20 * 20 + 10 * 10),
        "onnx/model_two_wide.onnx": (2, 22, 24 * 44 + 12 * 22 + 6 * 11),
    }


def test_isnet_comes_unsorted_and_is_published_sorted(publications: Publications) -> None:
    done = publications.lowered("isnet-fp16")
    original = onnx.load(done.original)
    ((variant, published),) = done.models
    with pytest.raises(onnx.checker.ValidationError, match="topologically sorted"):
        onnx.checker.check_model(original)
    onnx.checker.check_model(published)
    assert wiring(published) == wiring(original)
    assert variant.needs.requiredFeatures == ("shader-f16",)
    assert "`shader-f16`" in done.card
    assert len(variant.verification.levels[0].inputs[0].outputs) == 12


def test_isnet_is_the_same_file_at_any_limits(publications: Publications, tmp_path: Path) -> None:
    """Nothing in it is wide, so what was verified with lowered limits holds for the default ones."""
    done = publications.lowered("isnet-fp16")
    passes = [PASSES[name]() for name in (*DEFAULT, "sum_to_add", "gather_nd_to_gather")]
    saved = rewrite(done.original, tmp_path / "model.onnx", passes).saved
    assert saved.data is None
    assert saved.path.read_bytes() == done.published["onnx/model.onnx"].read_bytes()


def rewritten(variant: VariantReport, name: str) -> int:
    """How many nodes the pass rewrote; it left none alone that it is for."""
    (report,) = [each for each in variant.passes if each.name == name]
    assert report.skipped == ()
    return len(report.rewritten)


def assert_nothing_else_changed(original: onnx.ModelProto, published: onnx.ModelProto) -> None:
    onnx.checker.check_model(published)
    assert list(published.graph.input) == list(original.graph.input)
    assert list(published.graph.output) == list(original.graph.output)
    assert weights(published) == weights(original)
    assert {(each.domain, each.version) for each in published.opset_import} == {
        (each.domain, each.version) for each in original.opset_import
    }
    others = {op: count for op, count in ops(original).items() if op not in ("Concat", "Split", "Constant")}
    assert {op: ops(published)[op] for op in others} == others
    # Nothing new but the sizes of Splits.
    assert set(ops(published)) <= {*ops(original), "Constant"}


def assert_same_bits(variant: VariantReport) -> None:
    result = variant.verification
    assert result.passed
    assert result.held == "exact"
    assert result.depends_on_input
    assert [level.level for level in result.levels] == ["disabled", "default"]
    for level in result.levels:
        assert level.compared
        assert level.identical
        for each in level.inputs:
            assert all(output.distance and output.distance.elements for output in each.outputs)


def assert_served_as_reported(variant: VariantReport, done: Publication) -> None:
    (record,) = variant.output
    content = done.published[record.path].read_bytes()
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (record.sha256, record.size)
    assert record.sha256 in done.card
    assert variant.source[0].sha256 in done.card


def session(path: Path) -> Any:
    """A session without the package's help, with optimizations disabled."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def speechlike(rate: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A second with a buzz of 150 Hz that swells and fades, as a voice does, and a little noise."""
    time = np.arange(rate) / rate
    buzz = sum(np.sin(2 * np.pi * 150 * order * time) / order for order in range(1, 20))
    swell = np.sin(2 * np.pi * 2 * time) ** 2
    noise = np.random.default_rng(0).standard_normal(rate)
    return np.asarray(0.2 * buzz * swell + 0.01 * noise, dtype=np.float32)
