from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hubpublish.demo.deformable import DeformShape, _base
from hubpublish.passes import PASSES
from hubpublish.passes.compress_constants import CompressConstants, CompressConstantsOptions
from hubpublish.passes.compression.forms import Finder, Plain, same_bits, value_of
from tests.models.build import (
    Rewrite,
    assert_runs_same,
    graphs,
    nodes,
    op_counts,
    parse,
    random_feeds,
    rewrite,
)

LEVELS: Any = ("disabled", "default")
RNG = np.random.default_rng(0)


def compress(model: onnx.ModelProto, limit: int | None = None, **options: Any) -> Rewrite:
    made = CompressConstantsOptions(**{"min_bytes": 1024, **options})
    return rewrite(model, CompressConstants(made, limit=limit))


def model_of(*arrays: Any, opset: int = 17, op: str = "Add", ir: int = 8) -> onnx.ModelProto:
    """Each array with an input of its type and shape: as an initializer, or every second as a Constant."""
    body, inputs, outputs, constants = [], [], [], []
    for number, array in enumerate(map(np.asarray, arrays)):
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        used = "Equal" if array.dtype.kind == "b" else op
        tensor = numpy_helper.from_array(array, f"c{number}")
        if number % 2 or ir < 4:
            body.append(helper.make_node("Constant", [], [tensor.name], f"constant{number}", value=tensor))
        else:
            constants.append(tensor)
        body.append(helper.make_node(used, [f"x{number}", tensor.name], [f"y{number}"]))
        inputs.append(helper.make_tensor_value_info(f"x{number}", dtype, array.shape))
        outputs.append(helper.make_empty_tensor_value_info(f"y{number}"))
    graph = helper.make_graph(body, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def compressed(model: onnx.ModelProto, **options: Any) -> Rewrite:
    """The model after the pass, which must compute the same, and stay as it is a second time."""
    result = compress(model, **options)
    for level in LEVELS:
        assert_runs_same(model, result.model, random_feeds(model), level)
    if result.rewritten:
        assert result.model.ByteSize() < rewrite(model).model.ByteSize()
    again = compress(result.model, **options)
    assert not again.rewritten
    assert again.model.SerializeToString() == result.model.SerializeToString()
    return result


def into(result: Rewrite) -> list[dict[str, int]]:
    return [each.into for each in result.outcomes[0].rewritten]


def noise(*shape: int, dtype: Any = np.float32) -> Any:
    values = RNG.standard_normal(shape) * 100
    return values > 0 if dtype is bool else values.astype(dtype)


DTYPES = (np.float32, np.float16, np.float64, np.int64, np.int32)


@pytest.mark.parametrize("dtype", [*DTYPES, bool])
def test_axes_that_repeat(dtype: Any) -> None:
    array = np.broadcast_to(noise(1, 20, 1, dtype=dtype), (9, 20, 64))
    result = compressed(model_of(array, array))
    assert into(result) == [{"Expand": 1}, {"Expand": 1}]
    assert [(each.node, each.op, each.scope) for each in result.outcomes[0].rewritten] == [
        ("c0", "initializer", "main"), ("constant1", "Constant", "main"),
    ]  # fmt: skip
    assert {"c0", "c1"} <= {name for node in result.model.graph.node for name in node.output}
    assert result.model.ByteSize() < 2 * 20 * np.dtype(dtype).itemsize + 1200


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_that_repeat(dtype: Any) -> None:
    kinds = RNG.integers(0, 3, 60)
    assert into(compressed(model_of(noise(3, 7, 9, dtype=dtype)[kinds]))) == [{"Gather": 1}]
    assert into(compressed(model_of(noise(9, 3, 7, dtype=dtype)[:, kinds]))) == [{"Gather": 1}]


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_that_repeat(dtype: Any) -> None:
    first = np.broadcast_to(noise(1, 30, 1, dtype=dtype), (1, 30, 40))
    second = np.broadcast_to(noise(1, 1, 40, dtype=dtype), (1, 30, 40))
    assert into(compressed(model_of(np.concatenate([first, second])))) == [{"Concat": 1, "Expand": 2}]
    mixed = np.concatenate([first, noise(1, 30, 40, dtype=dtype), second, second])
    assert into(compressed(model_of(mixed))) == [{"Concat": 1, "Expand": 3}]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums(dtype: Any) -> None:
    """Not of float16, which the runtime would compute in each run."""
    array = (np.arange(40)[:, None] * 3 + np.arange(30)[None, :] ** 2).astype(dtype)
    result = compressed(model_of(array))
    assert into(result) == ([] if dtype == np.float16 else [{"Add": 1}])


def test_sums_that_are_rounded() -> None:
    assert not compressed(model_of(noise(40, 1) + noise(1, 30))).rewritten


def test_forms_of_forms() -> None:
    grid = np.broadcast_to((np.arange(40)[:, None] + np.arange(30)[None, :]).astype(np.float32), (5, 40, 30))
    both = np.stack([grid, np.broadcast_to(noise(5, 1, 1), (5, 40, 30))])
    assert into(compressed(model_of(both))) == [{"Add": 1, "Concat": 1, "Expand": 2}]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_coordinates_of_a_deformable_convolution(dtype: Any) -> None:
    shape = DeformShape(channels=1, side=64, kernel=3)
    array = _base(shape).astype(dtype)
    result = compressed(model_of(array), min_bytes=65_536)
    assert into(result) == [{"Concat": 1, "Expand": 2}]
    assert result.model.ByteSize() < 0.1 * array.nbytes


def test_the_mask_of_shifted_windows() -> None:
    kinds = np.where(RNG.integers(0, 2, (4, 49, 49)) > 0, np.float32(-100), np.float32(0))
    windows = np.zeros((6, 6), np.int64)
    windows[-1], windows[:, -1], windows[-1, -1] = 1, 2, 3
    assert into(compressed(model_of(kinds[windows.ravel()]))) == [{"Gather": 1}]


def test_signs_of_zeros_and_what_is_not_a_number() -> None:
    same = np.zeros((2, 30, 30), np.float32)
    result = compressed(model_of(same, np.stack([same[0], -same[0]]), op="Div"))
    assert into(result) == [{"Expand": 1}, {"Concat": 1, "Expand": 2}] or into(result) == [
        {"Expand": 1}, {"Expand": 1},
    ]  # fmt: skip
    array = np.full((30, 30), np.nan, np.float32)
    other = array.view(np.uint32).copy()
    other[3, 4] ^= 1
    assert value_of(Finder(1024, 0.5, 100).find(array)).tobytes() == array.tobytes()
    assert isinstance(Finder(1024, 0.5, 100).find(other.view(np.float32)[3:5]), Plain)


# What stays


def test_weights_and_small_ones() -> None:
    array = np.broadcast_to(noise(16, 1), (16, 16))
    assert compressed(model_of(array)).rewritten == ["c0"]
    assert not compressed(model_of(array), min_bytes=1025).rewritten
    assert not compressed(model_of(noise(64, 64))).rewritten


def test_the_gain() -> None:
    array = np.concatenate([noise(1, 5000), np.zeros((1, 5000), np.float32)])
    assert compressed(model_of(array), min_gain=0.4).rewritten == ["c0"]
    assert not compressed(model_of(array), min_gain=0.5).rewritten


def test_names_count() -> None:
    """A node of a long name takes more than it saves."""
    array = np.broadcast_to(noise(32, 1), (32, 32))
    model = model_of(array)
    long = "c" * 3000
    model.graph.initializer[0].name = model.graph.node[0].input[1] = long
    assert not compressed(model).rewritten


@pytest.mark.parametrize("moved", ["", "t = Transpose(c)", "t = Identity(c)", "t = Cast<to=1>(c)"])
def test_what_is_packed(moved: str) -> None:
    name = "t" if moved else "c"
    model = parse(f"""<ir_version: 8, opset_import: ["": 17]> g (float[32,32] x) => (float[M,N] y) {{
        {moved}  y = MatMul(x, {name}) }}""")
    array = np.broadcast_to(noise(32, 1), (32, 32))
    model.graph.initializer.append(numpy_helper.from_array(array, "c"))
    assert not compressed(model).rewritten


def test_outputs_inputs_and_what_annotations_name() -> None:
    array = np.broadcast_to(noise(32, 1), (32, 32))
    model = model_of(array, op="Mul")
    model.graph.output.append(helper.make_tensor_value_info("c0", TensorProto.FLOAT, [32, 32]))
    (skipped,) = compressed(model).skipped
    assert skipped.reason == "is an output of its graph, or named by a quantization annotation"
    model = model_of(array)
    model.graph.input.append(helper.make_tensor_value_info("c0", TensorProto.FLOAT, [32, 32]))
    assert not compress(model).rewritten
    model = model_of(array)
    entry = onnx.StringStringEntryProto(key="SCALE_TENSOR", value="c0")
    model.graph.quantization_annotation.add(tensor_name="y0", quant_parameter_tensor_names=[entry])
    assert not compressed(model).rewritten


@pytest.mark.parametrize("opset", [7, 8, 13, 25])
def test_opsets(opset: int) -> None:
    result = compressed(model_of(np.broadcast_to(noise(32, 1), (32, 32)), opset=opset))
    assert bool(result.rewritten) == (opset > 7)
    assert [each.reason for each in result.skipped] == ["opset 7 has no Expand"] * (opset == 7)


def test_other_types_stay() -> None:
    tensor = helper.make_tensor("c", TensorProto.BFLOAT16, [1024], [1.0] * 1024)
    value = helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [1024])
    graph = helper.make_graph([helper.make_node("Neg", ["c"], ["y"])], "g", [], [value], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert not compress(model).rewritten


# Where


def test_bodies_and_functions() -> None:
    branches = """then_branch = a () => (float[M,N] p) { p = Add(x, c) },
    else_branch = b () => (float[M,N] q) { q = Sub(x, d) }"""
    model = parse(f"""<ir_version: 8, opset_import: ["": 17, "local": 1]>
    g (float[32,32] x, bool w) => (float[M,N] y) {{ z = If(w) <{branches}>  y = local.f(z) }}
    <domain: "local", opset_import: ["": 17]> f (p) => (r) {{ r = Add(p, c) }}""")
    array = np.ascontiguousarray(np.broadcast_to(noise(32, 1), (32, 32)))
    model.graph.initializer.append(numpy_helper.from_array(array, "c"))
    else_branch = next(each.g for each in model.graph.node[0].attribute if each.name == "else_branch")
    else_branch.initializer.append(numpy_helper.from_array(array.T.copy(), "d"))
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(array))
    model.functions[0].node.insert(0, constant)
    for w in (True, False):
        result = compress(model)
        for level in LEVELS:
            assert_runs_same(model, result.model, {**random_feeds(model), "w": np.array(w)}, level)
    scopes = [each.scope for each in result.outcomes[0].rewritten]
    assert scopes == ["main", "main/z.else_branch", "local::f"]
    assert op_counts(result.model)["Expand"] == 3
    assert [node.op_type for node in result.model.functions[0].node] == [
        "Constant",
        "Constant",
        "Expand",
        "Add",
    ]
    made = [name for node in nodes(result.model) for name in node.output]
    made += [
        tensor.name
        for graph in graphs(result.model)
        if isinstance(graph, onnx.GraphProto)
        for tensor in graph.initializer
    ]
    assert len(made) == len(set(made)) + 1  # the function has a c of its own


def test_old_models() -> None:
    result = compressed(model_of(np.broadcast_to(noise(32, 1), (32, 32)), ir=3))
    assert op_counts(result.model) == {"Constant": 2, "Expand": 1, "Add": 1}


def test_names_that_are_taken() -> None:
    model = model_of(np.broadcast_to(noise(32, 1), (32, 32)))
    model.graph.node[0].name = "c0/Expand_0"
    model.graph.node.append(helper.make_node("Neg", ["y0"], ["c0/part_0"]))
    result = compressed(model)
    assert [node.name for node in result.model.graph.node][:2] == ["c0/Expand_1", "c0/Expand_0"]


def test_limits() -> None:
    model = model_of(*(np.broadcast_to(noise(32, 1), (32, 32)) for _ in range(3)))
    for limit in range(5):
        assert compress(model, limit).rewritten == ["c0", "c2", "constant1"][:limit]


def test_it_is_exact_and_says_what_it_does() -> None:
    assert PASSES["compress_constants"] is CompressConstants
    assert CompressConstants.exact
    assert "65536" in CompressConstants.summary.format(**CompressConstants().options.model_dump())


# Rounding to float16


def test_a_constant_keeps_a_node_in_float32() -> None:
    """Computed by a node it would have the product rounded before it is moved."""
    model = parse("""<ir_version: 8, opset_import: ["": 17]>
    g (float16[32,32] x, float16[32,32] z) => (float16[M,N] y) {
        a = Mul(x, z)  b = Concat<axis=0>(c, a)  d = Concat<axis=0>(z, z)  y = Sub(b, d)
    }""")
    array = np.broadcast_to(noise(32, 1, dtype=np.float16), (32, 32))
    model.graph.initializer.append(numpy_helper.from_array(array, "c"))
    result = compressed(model)
    assert not result.rewritten
    assert result.skipped[0].reason == "what it is given to may be rounded differently without a constant"


def test_equal_constants_of_float16() -> None:
    """If they came of few equal elements, the runtime would take the two Gathers for one."""
    rows = np.zeros((600,), np.int64)
    model = parse("""<ir_version: 8, opset_import: ["": 17]>
    g (float16[3,5] x, float16[3,5] z) => (float16[M,N] y, float16[K,L] w) {
        a = Mul(x, z)  p = Gather(a, c)  q = Gather(a, d)  y = Sub(p, e)  w = Transpose(q)
    }""")
    for name, array in (("c", rows), ("d", rows), ("e", np.float16([[1.0]]))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    compressed(model)


# Anything


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.sampled_from([*DTYPES, bool]),
    st.integers(0, 2**32),
    st.data(),
)
def test_every_form_computes_the_same_bits(
    shape: list[int], dtype: Any, seed: int, data: st.DataObject
) -> None:
    generator = np.random.default_rng(seed)
    array = np.zeros(shape)
    for _ in range(data.draw(st.integers(1, 3))):
        kept = [length if data.draw(st.booleans()) else 1 for length in shape]
        array = array + generator.integers(-2, 3, kept)
    if data.draw(st.booleans()):
        axis = data.draw(st.integers(0, len(shape) - 1))
        array = np.take(array, generator.integers(0, shape[axis], shape[axis]), axis)
    array = np.ascontiguousarray(array).astype(dtype)
    finder = Finder(data.draw(st.sampled_from([8, 64])), 0.1, 0, data.draw(st.sampled_from([1, 9])))
    form = finder.find(array)
    assert same_bits(value_of(form), array)
    assert finder.size(form) <= array.nbytes + finder.node_bytes
