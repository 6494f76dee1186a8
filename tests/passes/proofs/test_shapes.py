"""What ONNX's inference says must be what ONNX Runtime does, for every operator that is believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from hubpublish.passes.proofs.certain import Certain
from hubpublish.passes.proofs.doubts import INFERRED
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.shapes import EVALUATED
from tests.models.build import Failure, parse, random_feeds, run

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Dropout Elu Erf Exp Floor HardSigmoid HardSwish
    Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign
    Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu
"""
BINARY = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul Pow Sub Sum"
REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare
"""

#: Op texts over x float[2,3,8,6], v float[6], i int64[2,3,8,6], b bool[2,3,8,6] and constants.
AT_17 = [
    *(f"{op}(x)" for op in UNARY.split()),
    *(f"{op}(x, v)" for op in BINARY.split()),
    *(f"{op}<axes=[1,-1]>(x)" for op in REDUCTIONS.split()),
    *(f"{op}<axes=[2], keepdims=0>(x)" for op in REDUCTIONS.split()),
    *(f"{op}(b, b)" for op in ("And", "Or", "Xor")),
    "Not(b)",
    "PRelu(x, v)",
    "Mod<fmod=1>(x, v)",
    "BitShift<direction='LEFT'>(u, u)",
    "Clip(x, f1, f2)",
    "Cast<to=7>(x)",
    "Where(b, x, v)",
    "CumSum(x, k1)",
    "Trilu(x)",
    "LRN<size=3>(x)",
    "LpNormalization<axis=1>(x)",
    "LayerNormalization(x, v, v)",
    "InstanceNormalization(x, v3, v3)",
    "BatchNormalization(x, v3, v3, v3, v3)",
    "Concat<axis=-2>(x, x)",
    "ConstantOfShape(k23)",
    "DepthToSpace<blocksize=2>(x4)",
    "SpaceToDepth<blocksize=2>(x)",
    "Expand(v, k2361)",
    "EyeLike(m)",
    "Flatten<axis=2>(x)",
    "Gather<axis=1>(x, k20)",
    "GatherElements<axis=2>(x, z)",
    "GatherND<batch_dims=1>(x, g)",
    "OneHot(i, k4, f12)",
    "Pad(x, pads)",
    "Pad<mode='reflect'>(x, pads)",
    "Range(k1, k9, k2)",
    "Reshape(x, r0)",
    "Reshape<allowzero=1>(e, rz)",
    "ScatterElements<axis=2>(x, z, z4)",
    "ScatterND(x, s, x2)",
    "Shape(x)",
    "Shape<start=-3, end=3>(x)",
    "Size(x)",
    "Slice(x, k20, k98, k21)",
    "Slice(x, kb, ke, k1v, km)",
    "Split<axis=2>(x)",
    "Split<axis=2>(x, s26)",
    "Squeeze(one, k1v)",
    "Squeeze(one)",
    "Tile(x, k2111)",
    "TopK<axis=2>(x, k2v)",
    "Transpose<perm=[0,2,3,1]>(x)",
    "Transpose(x)",
    "Unsqueeze(x, k05)",
    "ArgMax<axis=1>(x)",
    "ArgMin<axis=-1, keepdims=0>(x)",
    "ReduceSum(x, k21)",
    "ReduceSum<keepdims=0>(x, k21)",
    "AveragePool<kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,0]>(x)",
    "MaxPool<kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,1], dilations=[2,1]>(x)",
    "LpPool<kernel_shape=[3,2], strides=[2,2]>(x)",
    "GlobalAveragePool(x)",
    "GlobalLpPool(x)",
    "GlobalMaxPool(x)",
    "Conv<kernel_shape=[3,2], strides=[2,3], pads=[1,0,0,1], dilations=[2,1]>(x, w)",
    "Conv<auto_pad='SAME_LOWER', strides=[2,3]>(x, w)",
    "ConvInteger(u8, w8)",
    "ConvTranspose<strides=[2,3], pads=[1,0,0,1]>(x, w3)",
    "Einsum<equation='nchw,w->nhc'>(x, v)",
    "Gemm<transB=1>(m, m)",
    "GridSample(x, grid)",
    "MatMul(x, m6)",
    "MatMul(x, v)",
    "MatMulInteger(u8m, u8m)",
    "Resize(x, none, twice)",
    "Resize<mode='linear'>(x, none, none, sizes)",
    "QuantizeLinear(x, f1, zero8)",
    "DequantizeLinear(u8, f1, zero8)",
    "DynamicQuantizeLinear(x)",
    "QLinearConv(u8, f1, zero8, w8, f1, zero8, f1, zero8)",
    "QLinearMatMul(u8m, f1, zero8, u8m, f1, zero8, f1, zero8)",
]
AT_OTHER_OPSETS = [
    (12, "Squeeze<axes=[1]>(one)"),
    (12, "Unsqueeze<axes=[0,-1]>(x)"),
    (12, "ReduceSum<axes=[1], keepdims=0>(x)"),
    (12, "Split<axis=2, split=[2,6]>(x)"),
    (12, "Softmax<axis=1>(x)"),
    (18, "Pad(x, p2, empty, k23n)"),
    (18, "Split<axis=2, num_outputs=2>(x)"),
    (18, "ReduceMax(x, k21)"),
    (18, "Resize<axes=[3,2]>(x, none, none, k48)"),
    (19, "AveragePool<kernel_shape=[2,2], dilations=[2,2]>(x)"),
    (20, "Gelu(x)"),
    (20, "GridSample<mode='linear'>(x, grid)"),
    (22, "Mish(x)"),
    (22, "MaxPool<kernel_shape=[2,2]>(x)"),
    (23, "Reshape(x, r0)"),
]
INITIALIZERS = """
    float f1 = {1}, float f2 = {2}, float[2] f12 = {1, 2}, uint8 zero8 = {0}, float[4] twice = {1, 1, 2,
    0.5}, int64[4] sizes = {2, 3, 5, 7}, int64 k1 = {1}, int64 k9 = {9}, int64 k2 = {2}, int64 k4 = {4},
    int64[2] k23 = {2, 3}, int64[4] k2361 = {2, 3, 6, 1}, int64[2] k20 = {2, 0}, int64[8] pads = {0, 0, 1,
    2, 0, 0, 3, -1}, int64[4] r0 = {0, -1, 4, 1}, int64[3] rz = {0, 5, 1}, int64[2] k98 = {9, 8}, int64[2]
    k21 = {2, 1}, int64[1] kb = {-1}, int64[1] ke = {-9223372036854775807}, int64[1] km = {-1}, int64[2]
    s26 = {2, 6}, int64[1] k1v = {1}, int64[1] k2v = {2}, int64[4] k2111 = {2, 1, 1, 1}, int64[2] k05 =
    {0, 5}, int64[4] p2 = {1, 0, 2, 3}, int64[2] k23n = {2, -1}, int64[2] k48 = {4, 8}, int64[2, 1] s =
    {1, 0}
"""
#: What the text has no room for.
ZEROS = {
    "none": np.zeros(0, np.float32),
    "z": np.zeros((2, 3, 5, 6), np.int64),
    "g": np.zeros((2, 4, 1), np.int64),
    "w": np.zeros((4, 3, 3, 2), np.float32),
    "w8": np.zeros((4, 3, 3, 2), np.uint8),
}
INPUTS = """
    float[2,3,8,6] x, float[6] v, int64[2,3,8,6] i, bool[2,3,8,6] b, uint64[2,3] u, float[3] v3,
    float[2,4,8,6] x4, float[4,6] m, float[2,3,5,6] z4, float[0,5] e, float[2,3,8,6] x2, float[2,1,3,1]
    one, float[3,5,2,2] w3, float[2,4,4,2] grid, float[6,5] m6, uint8[2,3,8,6] u8, uint8[5,5] u8m
"""
OUTPUTS_OF = {"Split": 2, "TopK": 2, "DynamicQuantizeLinear": 3}


def model_of(
    text: str, opset: int, inputs: str = INPUTS, initializers: str = INITIALIZERS
) -> onnx.ModelProto:
    count = OUTPUTS_OF.get(text.split("(")[0].split("<")[0], 1)
    names = [f"y{number}" for number in range(count)]
    outputs = ", ".join(f"float[d] {name}" for name in names)
    text = text.replace("'", '"').replace(", empty,", ", ,")
    model = parse(f"""<ir_version: 10, opset_import: ["": {opset}]>
    g ({inputs}) => ({outputs}) <{initializers}> {{ {", ".join(names)} = {text} }}""")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(zeros, name) for name, zeros in ZEROS.items())
    for output in model.graph.output:
        output.ClearField("type")
    used = set(model.graph.node[0].input)
    for values in (model.graph.input, model.graph.initializer):
        kept = [value for value in values if value.name in used]
        del values[:]
        values.extend(kept)
    return model


def proved(model: onnx.ModelProto) -> list[Certain]:
    loaded = ir.from_proto(model)
    proofs = Proofs(loaded)
    return [proofs.of(value) for value in loaded.graph.outputs]


def typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The runtime needs a type for each output, and takes it without a shape."""
    typed_model = onnx.ModelProto.FromString(model.SerializeToString())
    for value, known in zip(typed_model.graph.output, proved(model), strict=True):
        value.type.tensor_type.elem_type = (known.dtype or ir.DataType.FLOAT).value
    return typed_model


@pytest.mark.parametrize(("opset", "text"), [*((17, text) for text in AT_17), *AT_OTHER_OPSETS])
def test_is_what_the_runtime_computes(opset: int, text: str) -> None:
    model = model_of(text, opset)
    outputs = run(typed(model), random_feeds(model))
    assert not isinstance(outputs, Failure), outputs.message
    assert [known.shape for known in proved(model)] == [output.shape for output in outputs]
    dtypes = [ir.DataType.from_numpy(output.dtype) for output in outputs]
    assert [known.dtype for known in proved(model)] == dtypes


def test_every_operator_that_is_believed_was_compared() -> None:
    compared = {text.split("(")[0].split("<")[0] for text in [*AT_17, *(text for _, text in AT_OTHER_OPSETS)]}
    assert compared == INFERRED


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (17, "NonZero(x)"),
        (17, "Resize(x, none, tenths)"),
        (17, "Resize<coordinate_transformation_mode='tf_crop_and_resize'>(x, roi, twice)"),
        (18, "Resize<keep_aspect_ratio_policy='not_larger'>(x, none, none, sizes)"),
        (17, "MaxPool<kernel_shape=[3,2], ceil_mode=1>(x)"),
        (19, "AveragePool<kernel_shape=[3,2], ceil_mode=1>(x)"),
        (17, "MaxPool<kernel_shape=[3,2], auto_pad='SAME_UPPER', dilations=[2,1]>(x)"),
        (17, "ConvTranspose<output_shape=[9,9], strides=[2,2]>(x, w3)"),
        (17, "ConvTranspose<auto_pad='SAME_LOWER', strides=[2,2]>(x, w3)"),
        (17, "ConvTranspose<output_padding=[1,1], strides=[2,2]>(x, w3)"),
        (17, "Slice(x, kb, largest, k1v, km)"),
        (17, "Slice(x, kb, ke, k1v, step)"),
        (17, "Slice(x, kb, k2v, step)"),
        (9, "PRelu(v, x)"),
        (17, "PRelu(ones, x)"),
        (17, "Einsum<equation='abcd,abcd->abcd'>(ones, x)"),
        (17, "Einsum<equation='...d,d'>(x, v)"),
        (10, "Squeeze<axes=[-1]>(one)"),
        (10, "Unsqueeze<axes=[0,-1]>(x)"),
    ],
)
def test_where_runtime_and_definition_part_nothing_is_certain(opset: int, text: str) -> None:
    more = ", float[4] tenths = {1, 1, 0.7, 0.3}, float[8] roi = {0, 0, 0, 0, 1, 1, 0.5, 0.5}"
    more += ", int64[1] largest = {9223372036854775807}"
    model = model_of(text, opset, INPUTS + ", int64[1] step, float[2,1,8,1] ones", INITIALIZERS + more)
    (known,) = proved(model)
    assert known.shape is None or None in known.shape or text.startswith("NonZero")
    assert known.values is None


#: Op texts over constants, and what they give.
VALUES = [
    ("Add(a, b)", [8, -5, 7]),
    ("Sub(a, b)", [6, -9, 7]),
    ("Mul(a, b)", [7, -14, 0]),
    ("Div(a, d)", [3, -3, -3]),
    ("Mod(a, d)", [1, 1, -1]),
    ("Neg(a)", [-7, 7, -7]),
    ("Max(a, b)", [7, 2, 7]),
    ("Min(a, b)", [1, -7, 0]),
    ("Cast<to=6>(a)", [7, -7, 7]),
    ("Concat<axis=0>(a, b)", [7, -7, 7, 1, 2, 0]),
    ("Equal(a, b)", [False, False, False]),
    ("Greater(a, b)", [True, False, True]),
    ("Less(a, b)", [False, True, False]),
    ("Where(t, a, b)", [7, 2, 7]),
    ("Not(t)", [False, True, False]),
    ("And(t, t)", [True, False, True]),
    ("Or(t, t)", [True, False, True]),
    ("Gather(a, i)", [7, -7]),
    ("Slice(a, one, j)", [-7, 7]),
    ("Slice(a, m, far, first, m)", [7, -7, 7]),
    ("Squeeze(q)", [3, 4]),
    ("Unsqueeze(a, i2)", [[[7], [-7], [7]]]),
    ("Reshape(a, r)", [[7], [-7], [7]]),
    ("Flatten<axis=0>(a)", [[7, -7, 7]]),
    ("Transpose(q2)", [[1, 3], [2, 4]]),
    ("Tile(i, i3)", [-1, 1, -1, 1, -1, 1]),
    ("Expand(one, i3)", [1, 1, 1]),
    ("ConstantOfShape<value=int64[1] {9}>(i3)", [9, 9, 9]),
    ("Range(s1, s9, s3)", [1, 4, 7]),
    ("ReduceProd<keepdims=0>(a)", -343),
    ("Identity(a)", [7, -7, 7]),
]
CONSTANTS = """
    int64[3] a = {7, -7, 7}, int64[3] b = {1, 2, 0}, int64[3] d = {2, 2, -2}, bool[3] t = {1, 0, 1},
    int64[2] i = {-1, 1}, int64[1] j = {3}, int64[1] m = {-1}, int64[1] far = {-9223372036854775807},
    int64[1] first = {0}, int64[1,1,2] q = {3, 4}, int64[2] i2 = {0, 2}, int64[2] r = {3, -1}, int64[2,2]
    q2 = {1, 2, 3, 4}, int64[1] i3 = {3}, int64[1] one = {1}, int64 s1 = {1}, int64 s9 = {9}, int64 s3 =
    {3}
"""


@pytest.mark.parametrize(("text", "expected"), VALUES)
def test_computes_integers_as_the_runtime_does(text: str, expected: Any) -> None:
    model = model_of(text, 17, "float[1] unused", CONSTANTS)
    outputs = run(typed(model), {})
    (known,) = proved(model)
    assert known.values is not None
    assert known.values.tolist() == expected
    assert not isinstance(outputs, Failure)
    assert known.values.tolist() == outputs[0].tolist()
    assert known.values.dtype == outputs[0].dtype


def test_every_operator_that_is_evaluated_was_compared() -> None:
    assert {text.split("(")[0].split("<")[0] for text, _ in VALUES} == EVALUATED


@pytest.mark.parametrize(
    "text", ["Div(a, b)", "Mod(a, b)", "ConstantOfShape(huge)", "Expand(one, huge)", "Range(s1, s99, s1)"]
)
def test_neither_undefined_nor_large_values_are_computed(text: str) -> None:
    more = ", int64[2] huge = {1000000, 1000000}, int64 s99 = {99999999}"
    (known,) = proved(model_of(text, 17, "float[1] unused", CONSTANTS + more))
    assert known.values is None


def test_floats_are_not_computed() -> None:
    (known,) = proved(model_of("Add(f1, f2)", 17))
    assert known.shape == ()
    assert known.values is None


dims = st.integers(1, 9)
extremes = st.sampled_from([-(2**63), -(2**63) + 1, -(2**31), 2**31 - 1, 2**31, 2**63 - 1])
positions = st.one_of(st.integers(-12, 12), extremes)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.tuples(dims, dims))
def test_slice_is_what_the_runtime_computes(data: st.DataObject, lengths: tuple[int, int]) -> None:
    pair = st.tuples(positions, positions)
    constants = {
        "starts": data.draw(pair),
        "ends": data.draw(pair),
        "axes": data.draw(st.sampled_from([(0, 1), (-1, 0)])),
        "steps": data.draw(st.tuples(*[st.one_of(st.integers(-3, 3), extremes).filter(bool)] * 2)),
    }
    values = np.arange(np.prod(lengths), dtype=np.int64).reshape(lengths)
    model = constant_model("Slice", {"x": values, **constants}, 17, {})
    outputs = run(model, {})
    (known,) = proved(model)
    assert not isinstance(outputs, Failure)
    if known.shape is not None:
        assert known.shape == outputs[0].shape
    if known.values is not None:
        assert known.values.tolist() == outputs[0].tolist()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.tuples(st.integers(0, 4), st.integers(0, 4)), st.sampled_from([12, 13, 14, 21]))
def test_reshape_is_what_the_runtime_computes(
    data: st.DataObject, lengths: tuple[int, int], opset: int
) -> None:
    target = data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6]), min_size=1, max_size=4))
    zero = {"allowzero": 1} if opset >= 14 and data.draw(st.booleans()) else {}
    values = np.arange(np.prod(lengths), dtype=np.int64).reshape(lengths)
    model = constant_model("Reshape", {"x": values, "target": target}, opset, zero)
    outputs = run(model, {})
    (known,) = proved(model)
    if isinstance(outputs, Failure):
        return
    assert known.shape == outputs[0].shape
    assert known.values is not None
    assert known.values.tolist() == outputs[0].tolist()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.tuples(dims, dims), st.sampled_from([12, 17, 18, 19, 22]))
def test_windows_are_what_the_runtime_computes(
    data: st.DataObject, lengths: tuple[int, int], opset: int
) -> None:
    op = data.draw(st.sampled_from(["Conv", "MaxPool", "AveragePool", "ConvTranspose"]))
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel = data.draw(pair)
    attributes: dict[str, Any] = {"strides": data.draw(pair)}
    if op != "AveragePool" or opset >= 19:
        attributes["dilations"] = data.draw(pair)
    padding = data.draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if padding == "NOTSET":
        attributes["pads"] = data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    else:
        attributes["auto_pad"] = padding
    inputs = {"x": np.ones((1, 2, *lengths), np.float32)}
    if op.endswith("Pool"):
        attributes |= {"kernel_shape": kernel, "ceil_mode": data.draw(st.integers(0, 1))}
    else:
        inputs["w"] = np.ones((2, 2, *kernel), np.float32)
    model = constant_model(op, inputs, opset, attributes)
    outputs = run(model, {})
    (known,) = proved(model)
    if not isinstance(outputs, Failure) and known.shape is not None:
        assert known.shape == outputs[0].shape


@settings(max_examples=150, deadline=None)
@given(st.data(), st.tuples(dims, dims), st.sampled_from([13, 17, 18, 19]))
def test_resize_is_what_the_runtime_computes(
    data: st.DataObject, lengths: tuple[int, int], opset: int
) -> None:
    attributes: dict[str, Any] = {"mode": data.draw(st.sampled_from(["nearest", "linear"]))}
    if opset >= 18:
        policies = ["stretch", "not_larger", "not_smaller"]
        attributes["keep_aspect_ratio_policy"] = data.draw(st.sampled_from(policies))
    inputs: dict[str, Any] = {"x": np.ones((1, 2, *lengths), np.float32), "roi": np.zeros(0, np.float32)}
    if data.draw(st.booleans()):
        scale = st.sampled_from([0.3, 0.5, 0.7, 1, 1.1, 1.5, 2, 2.7])
        inputs["scales"] = np.array([1, 1, data.draw(scale), data.draw(scale)], np.float32)
        attributes.pop("keep_aspect_ratio_policy", None)
    else:
        inputs |= {"scales": np.zeros(0, np.float32), "sizes": [1, 2, data.draw(dims), data.draw(dims)]}
    model = constant_model("Resize", inputs, opset, attributes)
    outputs = run(model, {})
    (known,) = proved(model)
    if not isinstance(outputs, Failure) and known.shape is not None:
        assert known.shape == outputs[0].shape


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(st.integers(1, 3), max_size=3), st.sampled_from([7, 9, 13, 16]))
def test_broadcasting_is_what_the_runtime_computes(
    data: st.DataObject, lengths: list[int], opset: int
) -> None:
    op = data.draw(st.sampled_from(["PRelu", "Add", "Pow", "Einsum"]))
    shapes = [
        [data.draw(st.sampled_from([1, length])) for length in lengths[data.draw(st.integers(0, 1)) :]]
        for _ in range(2)
    ]
    inputs = {name: np.ones(shape, np.float32) for name, shape in zip("xz", shapes, strict=True)}
    letters = ["".join("abc"[3 - len(shape) :]) for shape in shapes]
    attributes = {"equation": ",".join(letters)} if op == "Einsum" else {}
    model = constant_model(op, inputs, max(opset, 12) if op == "Einsum" else opset, attributes)
    outputs = run(model, {})
    (known,) = proved(model)
    if not isinstance(outputs, Failure) and known.shape is not None:
        assert known.shape == outputs[0].shape


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([7, 10, 11, 12]), st.sampled_from(["Squeeze", "Unsqueeze"]))
def test_axes_counted_from_the_end_are_the_runtimes(data: st.DataObject, opset: int, op: str) -> None:
    axes = data.draw(st.lists(st.integers(-3, 2), min_size=1, max_size=2, unique_by=lambda axis: axis % 3))
    shape = (1, 1, 1) if op == "Squeeze" else (2,) * (3 - len(axes))
    model = constant_model(op, {"x": np.ones(shape, np.float32)}, opset, {"axes": axes})
    outputs = run(model, {})
    (known,) = proved(model)
    if not isinstance(outputs, Failure) and known.shape is not None:
        assert known.shape == outputs[0].shape


def constant_model(
    op: str, inputs: dict[str, Any], opset: int, attributes: dict[str, Any]
) -> onnx.ModelProto:
    """A model with one node, all of whose inputs are initializers; lists are int64."""
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    elem_type = helper.np_dtype_to_tensor_dtype(arrays["x"].dtype)
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), ["y"], **attributes)],
        "g",
        [],
        [helper.make_tensor_value_info("y", elem_type, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
