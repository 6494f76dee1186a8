from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from hubpublish.demo.attention_mask import attention_mask
from hubpublish.demo.graph import GraphBuilder
from hubpublish.passes import PASSES
from hubpublish.passes.drop_empty_scatter import DropEmptyScatter
from tests.models.build import (
    Failure,
    Rewrite,
    assert_runs_same,
    assert_same,
    nodes,
    op_counts,
    parse,
    random_feeds,
    rewrite,
    run,
)

LEVELS: Any = ("disabled", "default")
INPUTS = "float[3,4] x, int64[0,1] i, float[0,4] u"
SCATTER = "[sc] out = ScatterND(x, i, u)"


def text(
    body: str = SCATTER,
    inputs: str = INPUTS,
    constants: str = "",
    *,
    opset: int = 17,
    dtype: str = "float",
    functions: str = "",
) -> str:
    declared = f"<{constants}>" if constants else ""
    return f"""<ir_version: 8, opset_import: ["": {opset}, "local": 1]>
    g ({inputs}) => ({dtype} out) {declared} {{ {body} }} {functions}"""


def apply(model: onnx.ModelProto | str) -> tuple[onnx.ModelProto, Rewrite]:
    if isinstance(model, str):
        model = parse(model)
        model.graph.output[0].type.tensor_type.ClearField("shape")
    return model, rewrite(model, DropEmptyScatter())


def feeds_for(model: onnx.ModelProto, **feeds: Any) -> dict[str, Any]:
    zeros = {name: value * 0 for name, value in random_feeds(model).items() if value.dtype.kind == "i"}
    return {**random_feeds(model), **zeros, **feeds}


def assert_dropped(model: onnx.ModelProto | str, count: int = 1, **feeds: Any) -> Rewrite:
    model, result = apply(model)
    assert not result.skipped, result.skipped
    assert len(result.rewritten) == count
    for level in LEVELS:
        assert_runs_same(model, result.model, feeds_for(model, **feeds), level)
    return result


def assert_left_alone(model: onnx.ModelProto | str, reason: str | None, **feeds: Any) -> None:
    model, result = apply(model)
    assert not result.rewritten
    assert [skip.reason for skip in result.skipped] == ([reason] if reason else [])
    assert [node.SerializeToString() for node in nodes(result.model)] == [
        node.SerializeToString() for node in nodes(model)
    ]
    for level in LEVELS:
        assert_same(model, result.model, feeds_for(model, **feeds), level)


# What becomes Identity


@pytest.mark.parametrize("opset", [11, 13, 16, 18, 21, 25])
def test_scatter_nd(opset: int) -> None:
    result = assert_dropped(text(opset=opset))
    assert op_counts(result.model) == {"Identity": 1}
    (done,) = result.outcomes[0].rewritten
    assert (done.node, done.op, done.into) == ("sc", "ScatterND", {"Identity": 1})


@pytest.mark.parametrize("opset", [9, 11, 13, 16, 18])
@pytest.mark.parametrize(("shape", "axis"), [("0,4", 0), ("0,2", 0), ("3,0", 1), ("2,0", -1), ("0,0", 0)])
def test_scatter_elements(shape: str, axis: int, opset: int) -> None:
    name = "Scatter" if opset < 11 else "ScatterElements"
    inputs = f"float[3,4] x, int32[{shape}] i, float[{shape}] u"
    result = assert_dropped(text(f"[sc] out = {name}<axis={axis}>(x, i, u)", inputs, opset=opset))
    assert op_counts(result.model) == {"Identity": 1}


@pytest.mark.parametrize(
    ("indices", "updates"),
    [("0,1", "0,4"), ("0,2", "0"), ("2,0,1", "2,0,4"), ("0,0", "0,3,4"), ("0,2,2", "0,2")],
)
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_shapes_and_reductions(indices: str, updates: str, reduction: str) -> None:
    inputs = f"float[3,4] x, int64[{indices}] i, float[{updates}] u"
    body = f'[sc] out = ScatterND<reduction="{reduction}">(x, i, u)'
    assert_dropped(text(body, inputs, opset=18))


@pytest.mark.parametrize("dtype", ["float16", "double", "int64", "bool", "string"])
def test_dtypes(dtype: str) -> None:
    assert_dropped(text(inputs=INPUTS.replace("float", dtype), dtype=dtype))


def test_data_of_any_length_where_all_axes_are_indexed() -> None:
    assert_dropped(text(inputs="float[N,4] x, int64[0,2] i, float[0] u"))


def test_empty_data() -> None:
    assert_dropped(text(inputs="float[3,0] x, int64[2,1] i, float[2,0] u"))


def test_what_only_the_updates_were_made_from_goes() -> None:
    body = """part = Slice(x, one, one)  sh = Shape(part)  value = Constant<value = float {7}>()
    ex = Expand(value, sh)  ones = ConstantOfShape<value = int64[1] {1}>(two)  eq = Equal(ones, minus)
    i0 = Where(eq, ones, none)  i1 = Expand(zero, i0)  upd = Reshape(ex, target)
    idx = Unsqueeze(i1, last)  [sc] out = ScatterND(x, idx, upd)"""
    constants = """int64[1] one = {1}, int64[1] two = {2}, int64[2] minus = {-1, -1}, int64[2] none = {1, 0},
    int64 zero = {0}, int64[3] target = {1, 0, 4}, int64[1] last = {-1}"""
    body = body.replace("Reshape(ex", "Reshape<allowzero=1>(ex")
    model, result = apply(text(body, "float[3,4] x", constants))
    assert op_counts(result.model) == {"Identity": 1}
    assert [tensor.name for tensor in result.model.graph.initializer] == []
    for level in LEVELS:
        assert_runs_same(model, result.model, feeds_for(model), level)


def test_what_is_used_elsewhere_stays() -> None:
    body = "v = Neg(u)  w = ScatterND(x, i, v)  z = Concat<axis=0>(w, v)  out = Relu(z)"
    assert op_counts(assert_dropped(text(body)).model) == {"Neg": 1, "Identity": 1, "Concat": 1, "Relu": 1}


def test_what_may_fail_stays() -> None:
    """The row of a table that is not there fails in the original, so it must fail still."""
    body = "r = Gather(x, at)  s = Slice(x, zero, zero)  y = Mul(s, r)  [sc] out = ScatterND(x, i, y)"
    inputs = "float[3,4] x, int64[0,1] i, int64 at"
    model, result = apply(text(body, inputs, "int64[1] zero = {0}"))
    assert result.rewritten == ["sc"]
    assert op_counts(result.model) == {"Gather": 1, "Identity": 1}
    for at, level in itertools.product((2, 7), LEVELS):
        feeds = feeds_for(model, at=np.array(at))
        assert isinstance(run(model, feeds, level), Failure) == (at == 7)
        assert_same(model, result.model, feeds, level)


# What is left alone


FITS = "the shapes of its inputs do not certainly fit, so it may fail"


def test_scatters_of_updates_are_no_matter_of_this_pass() -> None:
    assert_left_alone(text(inputs="float[3,4] x, int64[2,1] i, float[2,4] u"), None)


@pytest.mark.parametrize("count", [0, 2])
def test_updates_of_a_length_that_is_not_certain(count: int) -> None:
    inputs = "float[3,4] x, int64[N,1] i, float[N,4] u"
    feeds = {"i": np.zeros((count, 1), np.int64), "u": np.ones((count, 4), np.float32)}
    assert_left_alone(text(inputs=inputs), "whether it has any updates is not certain", **feeds)


def test_a_stale_value_info() -> None:
    body = "v = Reshape(u, s)  w = Reshape(i, si)  [sc] out = ScatterND(x, w, v)"
    inputs = "float[3,4] x, int64[N] i, float[M] u, int64[2] s, int64[2] si"
    model = text(body, inputs, "float[0,4] v, int64[0,1] w")
    feeds = {
        "u": np.ones(8, np.float32),
        "i": np.zeros(2, np.int64),
        "s": np.array([2, 4]),
        "si": np.array([2, 1]),
    }
    assert_left_alone(model, "whether it has any updates is not certain", **feeds)


@pytest.mark.parametrize(
    ("indices", "updates"),
    [("0,3", "0"), ("0,1", "0,3"), ("0,2", "0,1"), ("2,1", "0,4"), ("N,1", "0,4"), ("0,K", "0,4")],
)
def test_shapes_that_fail(indices: str, updates: str) -> None:
    assert_left_alone(text(inputs=f"float[3,4] x, int64[{indices}] i, float[{updates}] u"), FITS)


@pytest.mark.parametrize(
    ("indices", "updates", "axis"),
    [
        ("0,5", "0,5", 0),
        ("0,4", "0,3", 0),
        ("0", "0", 0),
        ("5,0", "5,0", 1),
        ("0,N", "0,4", 0),
        ("0,4", "0,4", 2),
    ],
)
def test_shapes_of_elements_that_fail(indices: str, updates: str, axis: int) -> None:
    inputs = f"float[3,4] x, int64[{indices}] i, float[{updates}] u"
    assert_left_alone(text(f"[sc] out = ScatterElements<axis={axis}>(x, i, u)", inputs), FITS)


def test_elements_of_data_of_a_length_that_is_not_certain() -> None:
    inputs = "float[3,N] x, int64[0,4] i, float[0,4] u"
    for length in (3, 5):
        feeds = {"x": np.ones((3, length), np.float32)}
        assert_left_alone(text("[sc] out = ScatterElements(x, i, u)", inputs), FITS, **feeds)


def test_shapes_that_are_not_certain() -> None:
    body = "d = local.f(x)  [sc] out = ScatterND(d, i, u)"
    function = '<domain: "local", opset_import: ["": 17]> f (a) => (b) { b = Identity(a) }'
    reason = "the shapes of its data and indices are not certain, so it may fail"
    assert_left_alone(text(body, functions=function), reason)


def test_updates_of_another_type() -> None:
    reason = "its updates are of type DOUBLE, and its data of type FLOAT"
    assert_left_alone(text(inputs=INPUTS.replace("float[0,4]", "double[0,4]")), reason)


def test_other_domains() -> None:
    body = SCATTER.replace("ScatterND", "local.ScatterND")
    assert_left_alone(text(body), "belongs to domain 'local', so what it computes is not known")


BETWEEN = "its data may be float16 between computations, which may not be rounded without it"


@pytest.mark.parametrize(
    ("before", "after", "dropped"),
    [
        ("d = Mul(x, x)", "out = Add(v, third)", False),
        ("d = Mul(x, x)", "t = Transpose(v)  out = Add(t, third)", False),
        ("m = Mul(x, x)  d = Transpose(m)", "out = Add(v, third)", False),
        ("m = Mul(x, x)  d = Gather(m, order)", "out = Add(v, third)", False),
        ("m = Mul(x, x)  d = Reshape(m, flat)", "t = Reshape(v, flat)  out = Add(t, third)", False),
        ("m = Mul(x, x)  d = Gather(m, order)", "t = Gather(v, order)  out = Add(t, third)", True),
        ("m = Mul(x, x)  d = Gather(m, order)", "out = Identity(v)", True),
        (
            "m = Mul(x, x)  d = Gather(m, order)",
            "w = Identity(v)  t = Gather(w, order)  out = Mul(t, t)",
            True,
        ),
        ("d = Identity(x)", "out = Add(v, third)", True),
        ("d = Identity(table)", "out = Gather(v, order)", True),
        ("d = Constant<value = float16[2,2] {1, 2, 3, 4}>()", "out = Gather(v, order)", True),
    ],
)
def test_float16_between_computations(before: str, after: str, dropped: bool) -> None:
    """Without the node, ONNX Runtime may compute on in float32 where it rounded to float16."""
    flat = "{2,2}" if "Reshape" in before else "{4}"
    constants = f"""float16 third = {{13653}}, int64[2] order = {{1, 0}}, int64[2] flat = {flat},
    float16[2,2] table = {{1, 2, 3, 4}}"""
    if "Reshape" not in before:
        constants = constants.replace("int64[2] flat", "int64[1] flat")
    body = f"{before}  [sc] v = ScatterND(d, i, u)  {after}"
    model = text(body, "float16[2,2] x, int64[0,1] i, float16[0,2] u", constants, dtype="float16")
    feeds: dict[str, Any] = {"x": np.array([[1.1, 2.3], [0.7, 3.9]], np.float16)}
    if dropped:
        assert_dropped(model, **feeds)
    else:
        assert_left_alone(model, BETWEEN, **feeds)


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_float16_that_is_rounded_for_what_goes(dtype: str) -> None:
    """ONNX Runtime runs a lone Gather between arithmetic in float32, but not where a Slice follows."""
    body = """m = Mul(x, x)  t = Gather(m, order)  n = Slice(t, zero, zero)  part = Slice(n, zero, zero)
    [sc] v = ScatterND(x, i, part)  w = Add(t, t)  out = Add(w, v)"""
    constants = "int64[1] zero = {0}, int64[2] order = {1, 0}"
    model = text(body, f"{dtype}[2,2] x, int64[0,1] i", constants, dtype=dtype)
    feeds: dict[str, Any] = {"x": np.array([[1.1, 2.3], [0.7, 3.9]], np.float16)}
    result = assert_dropped(model, **({} if dtype == "float" else feeds))
    assert op_counts(result.model)["Slice"] == (dtype == "float16")


# The pass as a whole


def test_bodies_and_functions() -> None:
    then = "then_branch = t () => (float p) { p = ScatterND(x, i, u) }"
    other = "else_branch = e () => (float q) { q = local.f(x) }"
    function = """<domain: "local", opset_import: ["": 17]> f (a) => (b) {
        i = Constant<value_ints=[0]>()  six = Constant<value_ints=[0,1]>()  e = Cast<to=1>(i)
        four = Constant<value_ints=[3,4]>()  d = Reshape(a, four)  zero = Constant<value_ints=[0]>()
        j = ConstantOfShape<value = int64[1] {0}>(six)  u = Slice(d, zero, zero)  b = ScatterND(d, j, u)
    }"""
    model = text(f"out = If(c) <{then}, {other}>", INPUTS + ", bool c", functions=function)
    for c in (True, False):
        result = assert_dropped(model, 2, c=np.array(c))
    assert [done.scope for done in result.outcomes[0].rewritten] == ["main/out.then_branch", "local::f"]


def test_outputs_keep_their_names() -> None:
    _, result = apply(text())
    assert [list(node.output) for node in nodes(result.model, "Identity")] == [["out"]]


def test_a_second_time_changes_nothing() -> None:
    _, once = apply(text())
    _, twice = apply(once.model)
    assert not twice.rewritten
    assert twice.model.SerializeToString() == once.model.SerializeToString()


def test_limit() -> None:
    model, _ = apply(text("v = ScatterND(x, i, u)  out = ScatterND(v, i, u)"))
    for limit in range(3):
        assert op_counts(rewrite(model, DropEmptyScatter(limit=limit)).model)["Identity"] == limit


@pytest.mark.parametrize(("side", "empty"), [(7, 5), (14, 0)])
def test_the_attention_masks_of_the_demo_model(side: int, empty: int) -> None:
    """They are assigned region by region, of which some are empty where there is but one window."""
    g = GraphBuilder("fp16", 0)
    mask = attention_mask(g, side, 7)
    declared = [helper.make_tensor_value_info(mask, TensorProto.FLOAT16, None)]
    graph = helper.make_graph(g.nodes, "g", [], declared, list(g.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = assert_dropped(model, empty)
    counts = op_counts(result.model)
    assert (counts["ScatterND"], counts["Identity"]) == (9 - empty, empty)


lengths = st.integers(0, 3)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_equal_or_left_alone(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    points = data.draw(st.lists(lengths, min_size=1, max_size=2))
    depth = data.draw(st.integers(0, rank + 1))
    updates = (
        [*points, *shape[depth:]]
        if data.draw(st.integers(0, 4))
        else data.draw(st.lists(lengths, max_size=3))
    )
    model = text(
        inputs=f"float{shape} x, int64{[*points, depth]} i, float{updates} u".replace(" ", "")
        .replace("]x", "] x").replace("]i", "] i").replace("]u", "] u").replace(",int64", ", int64")
    )  # fmt: skip
    model, result = apply(model)
    valid = depth <= rank and updates == [*points, *shape[depth:]]
    assert len(result.rewritten) == (valid and 0 in updates)
    indices = data.draw(st.integers(0, 0))
    feeds = {**random_feeds(model), "i": np.full((*points, depth), indices, np.int64)}
    for level in LEVELS:
        assert_same(model, result.model, feeds, level)


def test_is_registered() -> None:
    assert PASSES["drop_empty_scatter"] is DropEmptyScatter
    assert DropEmptyScatter.exact
