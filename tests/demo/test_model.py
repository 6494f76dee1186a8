"""The demo model: its structure against the original's, and that it computes something."""

import hashlib
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto

from hubpublish.demo.config import SMALL, ModelConfig
from hubpublish.demo.model import build_model

#: Nodes of onnx-community/BiRefNet_lite-ONNX, counted.
ORIGINAL = {
    "Add": 293, "BatchNormalization": 20, "Cast": 329, "Clip": 80, "Concat": 629, "Constant": 7296,
    "ConstantOfShape": 312, "Conv": 102, "Div": 138, "Equal": 304, "Erf": 24, "Expand": 360, "Floor": 20,
    "Gather": 331, "GatherND": 80, "GlobalAveragePool": 5, "Identity": 51, "LayerNormalization": 64,
    "MatMul": 150, "Mod": 32, "Mul": 570, "Not": 8, "Pad": 44, "Relu": 38, "Reshape": 854, "Resize": 22,
    "ScatterND": 72, "Shape": 412, "Sigmoid": 23, "Slice": 502, "Softmax": 24, "Split": 66, "Sub": 108,
    "Sum": 20, "Transpose": 346, "Unsqueeze": 2375, "Where": 304,
}  # fmt: skip
EXACT = (
    "BatchNormalization", "Clip", "Conv", "Erf", "Floor", "GatherND", "GlobalAveragePool", "Identity",
    "LayerNormalization", "MatMul", "Pad", "Relu", "Resize", "ScatterND", "Sigmoid", "Softmax", "Split",
    "Sum",
)  # fmt: skip
DTYPES = ("fp32", "fp16")


@pytest.fixture(scope="module")
def full() -> onnx.ModelProto:
    return build_model()


@pytest.fixture(scope="module")
def small() -> dict[str, onnx.ModelProto]:
    return {dtype: build_model(SMALL, dtype=dtype) for dtype in DTYPES}


def op_counts(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def live_nodes(model: onnx.ModelProto) -> int:
    """Nodes that depend on the values of the input; a Shape does not."""
    live = {model.graph.input[0].name}
    count = 0
    for node in model.graph.node:
        if node.op_type != "Shape" and live.intersection(node.input):
            live.update(node.output)
            count += 1
    return count


def test_every_op_count_is_within_ten_percent_of_the_original(full):
    counts = op_counts(full)
    assert set(counts) == set(ORIGINAL)
    apart = {op: (counts[op], n) for op, n in ORIGINAL.items() if abs(counts[op] - n) > 0.1 * n}
    assert apart == {}
    assert {op: counts[op] for op in EXACT} == {op: ORIGINAL[op] for op in EXACT}
    assert counts.total() == pytest.approx(16_408, rel=0.01)
    assert live_nodes(full) == pytest.approx(4_300, rel=0.02)


def test_wide_nodes_are_the_originals(full):
    outputs = Counter(len(node.output) for node in full.graph.node if node.op_type == "Split")
    assert outputs == {32: 33, 16: 17, 8: 9, 4: 5, 1: 2}
    wide = [len(node.input) for node in full.graph.node if node.op_type == "Concat" and len(node.input) > 7]
    assert wide == [1024, 256, 64, 16]


def test_weights_and_constants_weigh_what_the_originals_do(full):
    weights = sum(len(tensor.raw_data) for tensor in full.graph.initializer)
    constants = sum(
        len(node.attribute[0].t.raw_data) for node in full.graph.node if node.op_type == "Constant"
    )
    assert 170e6 < weights < 185e6
    assert 40e6 < constants < 45e6


def test_is_what_the_original_says_it_is(full):
    assert full.ir_version == 8
    assert [(opset.domain, opset.version) for opset in full.opset_import] == [("", 17)]
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*full.graph.input, *full.graph.output)
    }
    assert shapes == {"input_image": [1, 3, 1024, 1024], "output_image": [1, 1, 1024, 1024]}


def test_identities_share_a_weight_between_two_matmuls(full):
    weights = {tensor.name for tensor in full.graph.initializer}
    users: dict[str, list[str]] = {}
    for node in full.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node.op_type)
    identities = [node for node in full.graph.node if node.op_type == "Identity"]
    assert {node.input[0] for node in identities} <= weights
    assert all(sorted(users[node.input[0]]) == ["Identity", "MatMul"] for node in identities)
    assert all(users[node.output[0]] == ["MatMul"] for node in identities)


def test_the_small_model_has_the_nodes_of_the_full_one(full, small):
    def nodes(model: onnx.ModelProto) -> list[tuple[str, ...]]:
        return [(node.name, node.op_type, *node.input, *node.output) for node in model.graph.node]

    assert nodes(small["fp32"]) == nodes(full)
    casts = op_counts(small["fp16"]) - op_counts(full)
    assert casts == {"Cast": 2}


@pytest.mark.parametrize("dtype", DTYPES)
def test_passes_the_checker_and_strict_shape_inference(small, dtype):
    onnx.checker.check_model(small[dtype], full_check=True)
    onnx.shape_inference.infer_shapes(small[dtype], check_type=True, strict_mode=True, data_prop=True)


def test_the_full_model_passes_the_checker(full):
    onnx.checker.check_model(full)


def test_fp16_keeps_float32_at_both_ends_only(small):
    graph = small["fp16"].graph
    ends = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    assert ends == {TensorProto.FLOAT}
    assert {tensor.data_type for tensor in graph.initializer} == {TensorProto.FLOAT16}
    constants = {node.attribute[0].t.data_type for node in graph.node if node.op_type == "Constant"}
    assert constants == {TensorProto.FLOAT16, TensorProto.INT64}
    assert [(node.op_type, len(node.input)) for node in (graph.node[0], graph.node[-1])] == [("Cast", 1)] * 2


def run(
    model: onnx.ModelProto, seeds: tuple[int, ...], outputs: list[str] | None = None
) -> list[list[np.ndarray]]:
    """The outputs for noise of each seed."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shape = (1, 3, SMALL.size, SMALL.size)
    images = [np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) for seed in seeds]
    return [session.run(outputs, {"input_image": image}) for image in images]


@pytest.fixture(scope="module")
def logits(small) -> dict[str, list[np.ndarray]]:
    """Logits for noise 0 and noise 1, by precision."""
    return {dtype: [outputs[0] for outputs in run(model, (0, 1))] for dtype, model in small.items()}


@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_are_finite_spread_and_depend_on_the_image(logits, dtype):
    first, second = logits[dtype]
    assert first.shape == (1, 1, SMALL.size, SMALL.size)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    assert first.std() > 1
    assert (first - second).std() > 1


def test_fp16_is_the_same_model_rounded(logits):
    assert np.abs(logits["fp32"][0] - logits["fp16"][0]).mean() < 0.05


def test_every_deformable_convolution_reads_beyond_the_borders(small):
    """Without any clamping, a rewrite that gets the bounds wrong would go unnoticed."""
    model = onnx.ModelProto()
    model.CopyFrom(small["fp32"])
    clips = [node for node in model.graph.node if node.op_type == "Clip"]
    for clip in clips:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(clip.input[0]))
    indices = run(model, (0,), [clip.input[0] for clip in clips])[0]
    bounds = {
        node.output[0]: int(onnx.numpy_helper.to_array(node.attribute[0].t))
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute[0].t.dims == []
        and node.attribute[0].t.data_type == TensorProto.INT64
    }  # fmt: skip
    beyond: Counter[str] = Counter()
    for clip, index in zip(clips, indices, strict=True):
        low, high = (bounds[name] for name in clip.input[1:])
        assert low == 0
        beyond[clip.name.rsplit("/", 1)[0]] += int(((index < low) | (index > high)).sum())
        assert ((index >= low) & (index <= high)).mean() > 0.3
    assert len(beyond) == 20
    assert min(beyond.values()) > 0


def test_the_same_arguments_give_the_same_bytes_in_any_process(small):
    code = (
        "import hashlib; from hubpublish.demo.model import build_model; "
        "from hubpublish.demo.config import SMALL; "
        "print(hashlib.sha256(build_model(SMALL, dtype='fp16').SerializeToString()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert result.stdout.strip() == hashlib.sha256(small["fp16"].SerializeToString()).hexdigest()


def test_another_seed_gives_other_weights(small):
    other = build_model(SMALL, seed=1)
    assert [tensor.name for tensor in other.graph.initializer] == [
        tensor.name for tensor in small["fp32"].graph.initializer
    ]
    pairs = zip(other.graph.initializer, small["fp32"].graph.initializer, strict=True)
    assert all(a.raw_data != b.raw_data for a, b in pairs)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"size": 100}, "multiple of 64"),
        ({"embed": 98}, "multiple of 4"),
        ({"embed": 100}, "3 heads do not divide"),
        ({"window": 1}, "window"),
        ({"depths": (2, 2, 5, 2)}, "even"),
    ],
)
def test_sizes_the_architecture_cannot_take_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        ModelConfig(**values)
