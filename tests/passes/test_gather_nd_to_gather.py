from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from hubpublish.demo.config import ModelConfig
from hubpublish.demo.deformable import DeformShape, deform_conv2d
from hubpublish.demo.graph import GraphBuilder
from hubpublish.demo.model import build_model
from hubpublish.passes import PASSES
from hubpublish.passes.gather_nd_to_gather import GatherNdToGather
from tests.models.build import (
    Failure,
    Rewrite,
    assert_runs_same,
    assert_same,
    nodes,
    op_counts,
    parse,
    random_feeds,
    random_values,
    rewrite,
    run,
)

INPUTS = "float[1,1,3,4,2] data, int64[1,1,5,1] y, int64[1,1,5,1] x"
CONSTANTS = "int64 k0 = {0}, int64 kh = {2}, int64 kw = {3}"
CLAMP = "yc = Clip(y, k0, kh)  xc = Clip(x, k0, kw)  "
PAIR = "i = Concat<axis=3>(yc, xc)  "
GATHER = "[gnd] out = GatherND<batch_dims=2>(data, i)"


def text(
    body: str = CLAMP + PAIR + GATHER,
    inputs: str = INPUTS,
    constants: str = CONSTANTS,
    *,
    opset: int = 17,
    dtype: str = "float",
    functions: str = "",
) -> str:
    return f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1, "local": 1]>
    g ({inputs}) => ({dtype}[A,B,C,D] out) <{constants}> {{ {body} }} {functions}"""


def feeds_for(model: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """Data, and indices of which many lie outside; some far outside."""
    rng = np.random.default_rng(seed)
    feeds = random_feeds(model, seed)
    for name, value in feeds.items():
        if value.dtype == np.int64:
            extreme = rng.choice([-(2**63), 2**63 - 1, -1, 0, 7, 2**31], value.shape)
            feeds[name] = np.where(
                rng.integers(0, 3, value.shape) > 0, rng.integers(-2, 8, value.shape), extreme
            )
    return feeds


def apply(model: onnx.ModelProto | str) -> tuple[onnx.ModelProto, Rewrite]:
    model = parse(model) if isinstance(model, str) else model
    return model, rewrite(model, GatherNdToGather())


def assert_rewritten(model: onnx.ModelProto | str, count: int = 1, **feeds: Any) -> Rewrite:
    model, result = apply(model)
    assert not result.skipped, result.skipped
    assert len(result.rewritten) == count
    assert not nodes(result.model, "GatherND")
    for level in ("disabled", "default"):
        for seed in range(3):
            assert_runs_same(model, result.model, {**feeds_for(model, seed), **feeds}, level)
    return result


def assert_left_alone(model: onnx.ModelProto | str, reason: str, **feeds: Any) -> None:
    model, result = apply(model)
    assert not result.rewritten
    assert [(skip.node, skip.op) for skip in result.skipped] == [("gnd", "GatherND")]
    assert result.skipped[0].reason == reason
    assert [node.SerializeToString() for node in nodes(result.model)] == [
        node.SerializeToString() for node in nodes(model)
    ]
    if not any(value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.input[:1]):
        assert_same(model, result.model, {**feeds_for(model), **feeds})


# What is rewritten


def test_the_deformable_form() -> None:
    result = assert_rewritten(text())
    assert op_counts(result.model) == {
        "Clip": 2, "Constant": 3, "Reshape": 1, "Mul": 1, "Add": 1, "Squeeze": 1, "Cast": 1, "Gather": 1,
    }  # fmt: skip
    (done,) = result.outcomes[0].rewritten
    assert (done.node, done.op, done.scope) == ("gnd", "GatherND", "main")
    assert done.into == {
        "Constant": 3,
        "Reshape": 1,
        "Mul": 1,
        "Add": 1,
        "Squeeze": 1,
        "Cast": 1,
        "Gather": 1,
    }


def test_the_arithmetic_is_in_int64_and_cast_last() -> None:
    model = rewrite(parse(text()), GatherNdToGather()).model
    by_output = {name: node for node in model.graph.node for name in node.output}
    (gather,) = nodes(model, "Gather")
    cast = by_output[gather.input[1]]
    squeeze = by_output[cast.input[0]]
    assert [by_output[squeeze.input[0]].op_type, squeeze.op_type, cast.op_type] == ["Add", "Squeeze", "Cast"]
    assert onnx.helper.get_node_attr_value(cast, "to") == onnx.TensorProto.INT32


@pytest.mark.parametrize("opset", [12, 13, 14, 17, 18, 19, 21, 23, 24, 25])
def test_opsets(opset: int) -> None:
    assert_rewritten(text(opset=opset))


@pytest.mark.parametrize("dtype", ["float16", "double", "int64", "int32", "uint8", "bool"])
def test_dtypes(dtype: str) -> None:
    assert_rewritten(text(inputs=INPUTS.replace("float", dtype), dtype=dtype))


STRINGS = "the data may be strings, of which Gather copies one a row in ONNX Runtime"


def test_strings_are_left_alone() -> None:
    strings = INPUTS.replace("float", "string")
    assert_left_alone(text(inputs=strings, dtype="string"), STRINGS)
    before = "d = Reshape(data, shape)  "
    shape = CONSTANTS + ", int64[5] shape = {1, 1, 30, 40, 1}"  # so large that only the lengths are looked at
    large = strings.replace("3,4,2", "40,30,1")
    assert_left_alone(
        text(before + CLAMP + PAIR + GATHER.replace("data", "d"), large, shape, dtype="string"), STRINGS
    )


def test_what_operators_take_shows_that_there_are_no_strings() -> None:
    before = "p = Relu(data)  t = Transpose(p)  d = Reshape(t, shape)  "
    inputs = INPUTS.replace("1,1,3,4,2", "A,B,30,40,N")
    body = before + CLAMP + PAIR + GATHER.replace("data", "d")
    shape = CONSTANTS + ", int64[5] shape = {1, 1, 30, 40, 2}"
    assert_rewritten(
        text(body, inputs, shape), data=np.random.default_rng(0).random((1, 1, 30, 40, 2), np.float32)
    )


@pytest.mark.parametrize("features", ["", ",1", ",7", ",2,3", ",2,1,3", ",N", ",2,N"])
def test_any_features(features: str) -> None:
    model = parse(
        text(inputs=INPUTS.replace(",2]", features + "]")).replace("float[A,B,C,D] out", "float out")
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert_rewritten(model)


def test_features_of_unknown_length_may_be_none() -> None:
    model = parse(text(inputs=INPUTS.replace(",2]", ",N]")))
    assert_rewritten(model, data=np.zeros((1, 1, 3, 4, 0), np.float32))


@pytest.mark.parametrize(("b0", "b1"), [(2, 1), (1, 3), (2, 3)])
def test_batches(b0: int, b1: int) -> None:
    result = assert_rewritten(text(inputs=INPUTS.replace("[1,1,", f"[{b0},{b1},")))
    assert op_counts(result.model)["Add"] == 2


def test_no_points() -> None:
    assert_rewritten(text(inputs=INPUTS.replace("5,1]", "0,1]")))
    assert_rewritten(text(inputs=INPUTS.replace("5,1]", "0,1]"), opset=12))


@pytest.mark.parametrize(
    ("shape", "axis"), [("1,1,1", -1), ("1,1,1", 2), ("1,1,2,3,1", 4), ("1,1,2,0,1", -1)]
)
def test_points_on_any_number_of_axes(shape: str, axis: int) -> None:
    model = parse(text(inputs=INPUTS.replace("1,1,5,1", shape)).replace("axis=3", f"axis={axis}"))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert_rewritten(model)


@pytest.mark.parametrize("side", [1, 2])
def test_one_row_or_column(side: int) -> None:
    assert_rewritten(
        text(inputs=INPUTS.replace("3,4", f"1,{side}"), constants="int64 k0={0}, int64 kh={0}, int64 kw={0}")
    )


@pytest.mark.parametrize(
    "clamp",
    [
        "yc = Clip(y, k0, one)  xc = Clip(x, one, kw)  ",
        "t = Max(y, k0)  yc = Min(kh, t)  u = Min(x, kw)  xc = Max(u, k0)  ",
        "h = Identity(kh)  yc = Clip(y, k0, h)  xc = Clip(x, k0, kw)  ",
        """z = Constant<value_int=0>()  n = Constant<value=int64 {2}>()
        yc = Clip(y, z, n)  xc = Clip(x, z, kw)  """,
        "yc = Clip(y, v0, vh)  xc = Clip(x, v0, kw)  ",
        "t = Clip(y, , kh)  yc = Clip(t, k0)  xc = Clip(x, k0, kw)  ",
        "t = Clip(y, k0, kh)  yc = Identity(t)  u = Clip(x, k0, kw)  xc = Reshape(u, points)  ",
        "f = Reshape(y, flat)  t = Clip(f, k0, kh)  yc = Reshape(t, points)  xc = Clip(x, k0, kw)  ",
        "f = Squeeze(y, v0)  t = Clip(f, k0, kh)  yc = Unsqueeze(t, v0)  xc = Clip(x, k0, kw)  ",
        "j = Cast<to=6>(y)  t = Clip(j, i0, ih)  yc = Cast<to=7>(t)  xc = Clip(x, k0, kw)  ",
        # The last row and column as the graph itself works them out.
        """s = Shape(data)  h = Gather(s, two)  hs = Sub(h, ones)  w = Gather(s, three)  ws = Sub(w, ones)
        yc = Clip(y, k0, hs)  xc = Clip(x, k0, ws)  """,
    ],
)
def test_clamps(clamp: str) -> None:
    more = """, int64 one = {1}, int64[1] v0 = {0}, int64[1] vh = {2}, int64[4] points = {1, 1, -1, 1},
    int64[1] flat = {-1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] ones = {1}, int32 i0 = {0},
    int32 ih = {2}"""
    assert_rewritten(text(clamp + PAIR + GATHER, constants=CONSTANTS + more))


def test_a_min_above_the_max_gives_the_max() -> None:
    clamp = "yc = Clip(y, kw, kh)  xc = Clip(x, k0, kw)  "
    assert_rewritten(text(clamp + PAIR + GATHER))


def test_the_wrong_end_of_a_reversed_clamp() -> None:
    clamp = "yc = Clip(y, kh, minus)  xc = Clip(x, k0, kw)  "
    assert_left_alone(
        text(clamp + PAIR + GATHER, constants=CONSTANTS + ", int64 minus = {-1}"),
        NEGATIVE.format(-1),
    )


@pytest.mark.parametrize(
    ("before", "inputs", "opset"),
    [
        ("data = Transpose<perm=[0,1,3,4,2]>(d)", "float[1,1,2,3,4] d", 17),
        (
            "p = Pad(d, pads)  q = Reshape(p, five)  data = Transpose<perm=[0,1,3,4,2]>(q)",
            "float[1,2,1,2] d",
            17,
        ),
        (
            "p = Pad(d, pads2, , axes)  q = Unsqueeze(p, a0)  data = Transpose<perm=[0,1,3,4,2]>(q)",
            "float[1,2,1,2] d",
            18,
        ),
        ("data = Reshape(d, fit)", "float[24] d", 17),
        ("data = Reshape(d, to)", "float[N] d", 17),
        ("data = Reshape(d, copy)", "float[1,1,3,8] d", 17),
        ("data = Unsqueeze(d, a0)", "float[1,3,4,2] d", 17),
        ("data = Unsqueeze<axes=[0]>(d)", "float[1,3,4,2] d", 12),
        ("data = Squeeze(d, a0)", "float[1,1,1,3,4,2] d", 17),
        (
            "c = Conv(d, kernel)  u = Reshape(c, five)  data = Transpose<perm=[0,1,3,4,2]>(u)",
            "float[1,2,3,4] d",
            17,
        ),
        ("c = Resize(d, none, twice)  u = Unsqueeze(c, a0)  data = Identity(u)", "float[1,3,2,2] d", 17),
    ],
)
def test_where_the_length_of_the_data_comes_from(before: str, inputs: str, opset: int) -> None:
    more = """, int64[8] pads = {0,0,1,1,0,0,1,1}, int64[4] pads2 = {1,1,1,1}, int64[2] axes = {2,-1},
    int64[1] a0 = {0}, int64[5] five = {1,1,2,3,-1}, int64[5] fit = {1,1,3,4,-1}, int64[5] to = {1,1,3,4,2},
    int64[5] copy = {0,0,0,-1,2}, float[2,2,1,1] kernel = {1, 2, 3, 4}, float[4] twice = {1, 1, 2, 1}"""
    model = parse(
        text(
            before + "  " + CLAMP + PAIR + GATHER,
            INPUTS.replace("float[1,1,3,4,2] data", inputs),
            CONSTANTS + more,
            opset=opset,
        )
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(0, np.float32), "none"))
    assert_rewritten(model, **({"d": np.arange(24, dtype=np.float32)} if "N" in inputs else {}))


def test_constant_data() -> None:
    model = parse(text(inputs="int64[1,1,5,1] y, int64[1,1,5,1] x"))
    table = random_values(np.random.default_rng(0), np.float32, (1, 1, 3, 4, 2))
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "data"))
    assert_rewritten(model)


# What several share


def test_what_is_the_same_is_computed_once() -> None:
    body = (
        CLAMP
        + PAIR
        + """a = GatherND<batch_dims=2>(data, i)  b = GatherND<batch_dims=2>(data, i)
    c = GatherND<batch_dims=2>(more, i)  u = Add(a, b)  out = Add(u, c)"""
    )
    result = assert_rewritten(text(body, INPUTS + ", float[1,1,3,4,2] more"), 3)
    counts = op_counts(result.model)
    assert (counts["Gather"], counts["Reshape"], counts["Mul"], counts["Constant"]) == (3, 2, 1, 3)
    assert counts["Concat"] == 0
    assert [done.into for done in result.outcomes[0].rewritten][1:] == [
        {"Gather": 1},
        {"Gather": 1, "Reshape": 1},
    ]


def test_the_same_indices_into_data_of_other_lengths() -> None:
    body = (
        CLAMP
        + PAIR
        + """a = GatherND<batch_dims=2>(data, i)  b = GatherND<batch_dims=2>(more, i)  out = Add(a, b)"""
    )
    result = assert_rewritten(text(body, INPUTS + ", float[1,1,5,6,2] more"), 2)
    assert op_counts(result.model)["Mul"] == 2


def test_the_corners_of_a_block() -> None:
    clamp = "".join(f"{k}c = Clip({k}, k0, {'kh' if k in 'tb' else 'kw'})  " for k in "tblr")
    corners = "".join(
        f"i{y}{x} = Concat<axis=3>({y}c, {x}c)  v{y}{x} = GatherND<batch_dims=2>(data, i{y}{x})  "
        for y, x in ("tl", "br", "bl", "tr")
    )
    inputs = "float16[1,1,3,4,2] data, " + ", ".join(f"int64[1,1,5,1] {k}" for k in "tblr")
    result = assert_rewritten(
        text(f"{clamp}{corners}out = Sum(vtl, vbr, vbl, vtr)", inputs, dtype="float16"), 4
    )
    assert op_counts(result.model)["Reshape"] == 1
    assert op_counts(result.model)["Concat"] == 0


def test_indices_that_are_used_elsewhere_stay() -> None:
    body = CLAMP + PAIR + "t = GatherND<batch_dims=2>(data, i)  j = Cast<to=1>(i)  out = Add(t, j)"
    assert op_counts(assert_rewritten(text(body)).model)["Concat"] == 1


def test_indices_that_are_an_output_stay() -> None:
    model = parse(text().replace("out)", "out, int64[A,B,C,E] i)"))
    assert op_counts(assert_rewritten(model).model)["Concat"] == 1


def test_indices_behind_identities_go_with_them() -> None:
    body = CLAMP + "h = Concat<axis=-1>(yc, xc)  i0 = Identity(h)  i = Identity(i0)  " + GATHER
    assert not op_counts(assert_rewritten(text(body)).model).keys() & {"Concat", "Identity"}


def test_indices_used_by_one_that_is_left_alone_stay() -> None:
    body = (
        CLAMP
        + PAIR
        + "a = GatherND<batch_dims=2>(data, i)  [gnd] b = GatherND<batch_dims=2>(small, i)  out = Add(a, b)"
    )
    model, result = apply(text(body, INPUTS + ", float[1,1,2,4,2] small"))
    assert (len(result.rewritten), len(result.skipped)) == (1, 1)
    assert op_counts(result.model)["Concat"] == op_counts(result.model)["GatherND"] == 1
    zeros = np.zeros((1, 1, 5, 1), np.int64)
    assert_runs_same(model, result.model, {**random_feeds(model), "y": zeros, "x": zeros})
    assert_same(model, result.model, {**random_feeds(model), "y": zeros + 2, "x": zeros})


def test_nodes_that_were_dead_before_stay() -> None:
    result = assert_rewritten(text("dead = Concat<axis=3>(y, x)  " + CLAMP + PAIR + GATHER))
    assert op_counts(result.model)["Concat"] == 1


# Scopes and names


TWO = "{0} a = GatherND<batch_dims=2>(data, i)  {0} b = GatherND<batch_dims=2>(more, i)  out = Add(a, b)"


def test_unnamed_nodes() -> None:
    result = assert_rewritten(text(CLAMP + PAIR + TWO.format(""), INPUTS + ", float[1,1,3,4,2] more"), 2)
    assert result.rewritten == ["a", "b"]


def test_equally_named_nodes() -> None:
    inputs = INPUTS + ", float[1,1,3,4,2] more"
    model, result = apply(text(CLAMP + PAIR + TWO.format("[same]"), inputs))
    assert result.rewritten == ["same", "same"]
    # The runtime refuses equal names, so compare with the model without them.
    assert_runs_same(parse(text(CLAMP + PAIR + TWO.format(""), inputs)), result.model, feeds_for(model))
    names = [node.name for node in result.model.graph.node if node.name]
    assert len(names) == len(set(names))


def test_names_that_are_taken() -> None:
    body = (
        '["gnd/Mul_0"] "gnd/Mul_output_0" = Neg(y)  "gnd/Constant_output_0" = Neg(x)  '
        + CLAMP
        + PAIR
        + GATHER
    )
    result = assert_rewritten(text(body))
    names = [name for node in result.model.graph.node for name in node.output]
    assert len(names) == len(set(names))


def test_bodies() -> None:
    # The indices are made outside of one branch and inside of the other, from values around it.
    then = "then_branch = t () => (float[A,B,C,D] p) { p = GatherND<batch_dims=2>(data, i) }"
    inside = "yd = Clip(y, k0, kh)  j = Concat<axis=3>(yd, xc)  q = GatherND<batch_dims=2>(data, j)"
    other = f"else_branch = e () => (float[A,B,C,D] q) {{ {inside} }}"
    body = f"{CLAMP}{PAIR}out = If(c) <{then}, {other}>"
    for c in (True, False):
        result = assert_rewritten(text(body, INPUTS + ", bool c"), 2, c=np.array(c))
    assert [done.scope for done in result.outcomes[0].rewritten] == [
        "main/out.then_branch",
        "main/out.else_branch",
    ]
    assert op_counts(result.model)["Concat"] == 0


def test_loops_know_only_what_is_around_them() -> None:
    body = "body = b (int64 n, bool k, {0}) => (bool kk, {1}) {{ kk = Identity(k)  {2} }}"
    inside = body.format(
        "float[A,B,C,D] s", "float[A,B,C,D] s1", "v = GatherND<batch_dims=2>(data, i)  s1 = Add(s, v)"
    )
    model = text(
        f"{CLAMP}{PAIR}out = Loop(count, , start) <{inside}>",
        INPUTS + ", float[1,1,5,2] start",
        CONSTANTS + ", int64 count = {3}",
    )
    assert_rewritten(model)


def test_what_a_loop_says_of_its_state_is_not_certain() -> None:
    # Declared [1,1,3,4,2]; in fact [1,1,4,3,2] comes in, so that an x of 3 fails at run time.
    inside = f"kk = Identity(k)  s1 = Identity(s)  {CLAMP}{PAIR}[gnd] v = GatherND<batch_dims=2>(s, i)"
    outputs = "bool kk, float[1,1,3,4,2] s1, float[A,B,C,D] v"
    body = f"body = b (int64 n, bool k, float[1,1,3,4,2] s) => ({outputs}) {{ {inside} }}"
    call = f"last, all = Loop(count, , start) <{body}>  out = Squeeze(all, first)"
    inputs = "float[P,Q,R,S,T] start, int64[1,1,5,1] y, int64[1,1,5,1] x"
    model, result = apply(text(call, inputs, CONSTANTS + ", int64 count = {1}, int64[1] first = {0}"))
    assert [skip.reason for skip in result.skipped] == ["the shape of the data is not certain"]
    assert_same(model, result.model, feeds_for(model) | {"start": np.zeros((1, 1, 4, 3, 2), np.float32)})


FUNCTION = """<domain: "local", opset_import: ["": 17]>
f <bd, last> (data, y, x) => (out) {{
    k0 = Constant<value_int=0>()  kh = Constant<value_int=2>()  kw = Constant<value_int=3>()
    shape = Constant<value_ints=[1,1,3,4,2]>()  points = Constant<value_ints=[1,1,5,1]>()
    {0}
    yc = Clip(yp, k0, kh)  xc = Clip(xp, k0, kw)  i = Concat<axis=3>(yc, xc)
    [gnd] out = GatherND<{1}>(d, i)
}}"""
LOCAL = "d = Reshape(data, shape)  yp = Reshape(y, points)  xp = Reshape(x, points)"
CALL = "out = local.f<bd=2, last=3>(data, y, x)"


def test_functions() -> None:
    result = assert_rewritten(text(CALL, functions=FUNCTION.format(LOCAL, "batch_dims=2")))
    assert result.outcomes[0].rewritten[0].scope == "local::f"


def test_functions_know_nothing_of_their_inputs() -> None:
    moved = LOCAL.replace("Reshape(data, shape)", "Identity(data)")
    model = text(CALL, functions=FUNCTION.format(moved, "batch_dims=2"))
    assert_left_alone(model, "the shape of the data is not certain")


def test_functions_with_attributes_of_the_caller() -> None:
    reason = "its batch_dims is an attribute of the function, different in each call"
    assert_left_alone(text(CALL, functions=FUNCTION.format(LOCAL, "batch_dims: int = @bd")), reason)
    function = FUNCTION.format(LOCAL, "batch_dims=2").replace(
        "kw = Constant<value_int=3>", "kw = Constant<value_int: int = @last>"
    )
    # Clip gives the max where that is below the min, so without the max there is no lower bound either.
    assert_left_alone(text(CALL.replace("last=3", "last=9"), functions=function), UNCLAMPED.format("second"))


def test_functions_that_are_given_strings() -> None:
    inputs = INPUTS.replace("float", "string")
    model = text(CALL, inputs, dtype="string", functions=FUNCTION.format(LOCAL, "batch_dims=2"))
    assert_left_alone(model, STRINGS)


# What is left alone


UNCLAMPED = "the {} index column is not clamped: lower and upper bound unknown"
HALF = "the {} index column is clamped at one end only: {} bound unknown"
NEGATIVE = "the first index column's lower bound {} is negative, so it counts from the end"
EXCEEDS = "the {} index column's upper bound {} exceeds {}, the last index of an axis of length {}"


@pytest.mark.parametrize(
    ("clamp", "reason"),
    [
        ("yc = Clip(y, k0, kh)  xc = Identity(x)", UNCLAMPED.format("second")),
        ("yc = Identity(y)  xc = Clip(x, k0, kw)", UNCLAMPED.format("first")),
        ("yc = Clip(y, k0)  xc = Clip(x, k0, kw)", HALF.format("first", "upper")),
        ("yc = Clip(y, , kh)  xc = Clip(x, k0, kw)", HALF.format("first", "lower")),
        ("yc = Clip(y, low, kh)  xc = Clip(x, k0, kw)", NEGATIVE.format(-3)),
        ("yc = Clip(y, k0, kw)  xc = Clip(x, k0, kw)", EXCEEDS.format("first", 3, 2, 3)),
        ("yc = Clip(y, k0, kh)  xc = Clip(x, k0, big)", EXCEEDS.format("second", 4, 3, 4)),
        ("yc = Clip(y, k0, kh)  t = Clip(x, k0, kw)  xc = Add(t, one)", UNCLAMPED.format("second")),
        (
            "yc = Clip(y, k0, kh)  t = other.Clip(x, k0, kw)  xc = Reshape(t, points)",
            UNCLAMPED.format("second"),
        ),
        (
            "f = Cast<to=1>(y)  t = Clip(f, f0, fh)  yc = Cast<to=7>(t)  xc = Clip(x, k0, kw)",
            UNCLAMPED.format("first"),
        ),
    ],
)
def test_bounds_that_are_not_proved(clamp: str, reason: str) -> None:
    more = ", int64 low = {-3}, int64 big = {4}, int64 one = {1}, float f0 = {0}, float fh = {2}"
    more += ", int64[4] points = {1, 1, 5, 1}"
    assert_left_alone(text(f"{clamp}  {PAIR}{GATHER}", constants=CONSTANTS + more), reason)


def test_bounds_that_a_caller_may_override() -> None:
    model = parse(text(inputs=INPUTS + ", int64 kw = {3}", constants="int64 k0 = {0}, int64 kh = {2}"))
    assert_left_alone(model, UNCLAMPED.format("second"))
    assert_left_alone(model, UNCLAMPED.format("second"), kw=np.array(9))


UNCERTAIN = "the length of axis {} of {} is not certain"


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (INPUTS.replace("3,4", "H,4"), UNCERTAIN.format(2, "the data")),
        (INPUTS.replace("3,4", "3,W"), UNCERTAIN.format(3, "the data")),
        (INPUTS.replace("[1,1,3", "[1,B,3"), UNCERTAIN.format(1, "the data")),
        (INPUTS.replace(",2]", ",C,D]"), UNCERTAIN.format(4, "the data")),
        (INPUTS.replace("1,1,5,1", "1,B,5,1"), UNCERTAIN.format(1, "the first index column")),
        (INPUTS.replace("1,1,5,1] x", "1,1,P,1] x"), UNCERTAIN.format(2, "the second index column")),
        (INPUTS.replace("3,4,2", "3"), "the data has 3 axes; with pairs of indices it needs 4"),
        (INPUTS.replace("1,1,5,1", "2,1,5,1"), "the batches of data and indices differ: [1, 1] and [2, 1]"),
        (
            INPUTS.replace("1,1,5,1] x", "1,1,1,1] x"),
            "the index columns differ in shape: [1, 1, 5, 1] and [1, 1, 1, 1]",
        ),
        (
            INPUTS.replace("1,1,5,1", "1,1,5,2"),
            "its indices, [1, 1, 5, 2] twice along axis 3, are not two columns",
        ),
        (INPUTS.replace(",2]", ",0]"), "the data is empty: [1, 1, 3, 4, 0]"),
        (INPUTS.replace("[1,1,", "[0,1,"), "the data is empty: [0, 1, 3, 4, 2]"),
        (INPUTS.replace("3,4,2", "0,4,2").replace("5,1", "0,1"), "the data is empty: [1, 1, 0, 4, 2]"),
    ],
)
def test_shapes_that_are_not_proved(inputs: str, reason: str) -> None:
    assert_left_alone(text(inputs=inputs), reason)


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ([0], UNCERTAIN.format(0, "the first index column")),
        ([2], UNCERTAIN.format(2, "the data")),
        ([3, 4], UNCERTAIN.format(3, "the data")),
    ],
)
def test_negative_lengths_are_not_proved(axes: list[int], reason: str) -> None:
    model = parse(text())
    given = feeds_for(model)
    for value in model.graph.input if axes == [0] else model.graph.input[:1]:
        for axis in axes:
            value.type.tensor_type.shape.dim[axis].dim_value = -1 - axis
    _, result = apply(model)
    assert [skip.reason for skip in result.skipped] == [reason]
    assert_runs_same(model, result.model, {**given, "y": given["y"] * 0, "x": given["x"] * 0})


def test_data_that_the_runtime_broadcasts_where_the_definition_does_not() -> None:
    body = CLAMP + PAIR + "z = PRelu(data, v3)  " + GATHER.replace("data", "z")
    constants = CONSTANTS + ", float[3] v3 = {1, 2, 3}"
    assert_left_alone(
        text(body, INPUTS.replace(",2]", ",1]"), constants), "the shape of the data is not certain"
    )


def test_too_many_rows_for_an_index() -> None:
    sizes = "int8[1,1,{0},65536] data, int64[1,1,5,1] y, int64[1,1,5,1] x"
    for height, count in ((32768, 0), (32767, 1)):
        _, result = apply(text(inputs=sizes.format(height), dtype="int8"))
        assert len(result.rewritten) == count
    assert result.skipped == []
    _, result = apply(text(inputs=sizes.format(32768), dtype="int8"))
    assert [skip.reason for skip in result.skipped] == [
        "the 2147483648 rows of the data are too many for a 32-bit index"
    ]


def test_a_stale_value_info() -> None:
    inputs = "float[N] d, int64[5] s, int64[1,1,5,1] y, int64[1,1,5,1] x"
    model = text(
        "data = Reshape(d, s)  " + CLAMP + PAIR + GATHER, inputs, CONSTANTS + ", float[1,1,3,4,2] data"
    )
    feeds = {"d": np.arange(24, dtype=np.float32), "s": np.array([1, 1, 4, 3, 2])}
    assert_left_alone(model, "the length of axis 0 of the data is not certain", **feeds)


@pytest.mark.parametrize(
    ("gather", "reason"),
    [
        ("GatherND(flat, i)", "its batch_dims is 0; only 2 is replaced"),
        ("GatherND<batch_dims=1>(data, i3)", "its batch_dims is 1; only 2 is replaced"),
        ("GatherND<batch_dims=2>(data, given)", "its indices do not come from a Concat of two columns"),
        ("GatherND<batch_dims=2>(data, table)", "its indices do not come from a Concat of two columns"),
        (
            "GatherND<batch_dims=2>(data, i3)",
            "its indices come from a Concat of 3 inputs, not of two columns",
        ),
        ("GatherND<batch_dims=2>(data, stacked)", "its indices do not come from a Concat of two columns"),
        (
            "GatherND<batch_dims=2>(data, across)",
            "its indices, [1, 1, 5, 1] twice along axis 2, are not two columns",
        ),
    ],
)
def test_other_forms(gather: str, reason: str) -> None:
    body = f"""{CLAMP}{PAIR}i3 = Concat<axis=3>(yc, yc, xc)  across = Concat<axis=2>(yc, xc)
    rows = Concat<axis=2>(yc, xc)  pairs = Reshape(rows, two)  stacked = Transpose<perm=[0,1,3,2]>(pairs)
    [gnd] out = {gather}"""
    more = ", int64[4] two = {1, 1, 2, 5}, int64[1,1,2,2] table = {0, 1, 2, 3}"
    inputs = INPUTS + ", int64[1,1,5,2] given, float[3,4,2] flat"
    assert_left_alone(text(body, inputs, CONSTANTS + more), reason)


def test_a_concat_that_no_runtime_takes() -> None:
    body = CLAMP + PAIR.replace("axis=3", "axis=3, depth=1") + GATHER
    reason = "the Concat of its indices has an attribute 'depth', which Concat of opset 17 does not have"
    assert_left_alone(text(body), reason)


def test_other_domains() -> None:
    body = CLAMP + PAIR + GATHER.replace("GatherND", "other.GatherND")
    _, result = apply(text(body))
    assert [skip.reason for skip in result.skipped] == [
        "belongs to domain 'other', so what it computes is not known"
    ]


# The pass as a whole


def test_a_second_time_changes_nothing() -> None:
    _, once = apply(text())
    _, twice = apply(once.model)
    assert not twice.rewritten
    assert twice.model.SerializeToString() == once.model.SerializeToString()


def test_the_same_model_gives_the_same_bytes() -> None:
    _, one = apply(text())
    _, other = apply(text())
    assert one.model.SerializeToString() == other.model.SerializeToString()


def test_one_pass_object_for_several_models() -> None:
    each = GatherNdToGather()
    models = [parse(text()), parse(text(inputs=INPUTS.replace("3,4,2", "5,6,2")))]
    for model in models:
        result = rewrite(model, each)
        assert len(result.rewritten) == 1
        assert_runs_same(model, result.model, feeds_for(model))


def test_limit() -> None:
    body = (
        CLAMP
        + PAIR
        + "a = GatherND<batch_dims=2>(data, i)  b = GatherND<batch_dims=2>(data, i)  out = Add(a, b)"
    )
    model = parse(text(body))
    result = rewrite(model, GatherNdToGather(limit=1))
    assert (op_counts(result.model)["GatherND"], op_counts(result.model)["Concat"]) == (1, 1)
    assert_runs_same(model, result.model, feeds_for(model))


def test_nodes_out_of_order() -> None:
    model = parse(text())
    shuffled = [*reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(shuffled)
    _, result = apply(model)
    assert len(result.rewritten) == 1


def test_documentation_and_metadata_stay() -> None:
    model = parse(text())
    (node,) = nodes(model, "GatherND")
    node.doc_string = "corner"
    node.metadata_props.add(key="from", value="torchvision")
    _, result = apply(model)
    (gather,) = nodes(result.model, "Gather")
    assert gather.doc_string == "corner"
    assert [(prop.key, prop.value) for prop in gather.metadata_props] == [("from", "torchvision")]
    assert gather.output == ["out"]


def test_the_demo_model() -> None:
    model = build_model(
        ModelConfig(size=64, embed=12, depths=(2, 2, 2, 2), window=2, inner=8, aspp=8, edge=4)
    )
    _, result = apply(model)
    assert (len(result.rewritten), result.skipped) == (80, [])
    before, after = op_counts(model), op_counts(result.model)
    assert after["Concat"] == before["Concat"] - 80
    assert after["Gather"] == before["Gather"] + 80


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_deformable_convolution_of_the_demo_model(kernel: int, dtype: Any) -> None:
    g, taps, side = GraphBuilder(dtype, 0), kernel**2, 8
    elem_type = TensorProto.FLOAT16 if dtype == "fp16" else TensorProto.FLOAT
    shapes = {"x": (1, 6, side, side), "offsets": (1, 2 * taps, side, side), "mask": (1, taps, side, side)}
    inputs = [g.op("Cast", f"{name}32", to=elem_type) for name in shapes]
    # Arithmetic on both sides: runs of nodes in fp16 are computed in fp32 by the runtime.
    image, offsets, mask = (g.op("Mul", value, g.number(1.7)) for value in inputs)
    output = deform_conv2d(g, image, offsets, mask, "conv", DeformShape(6, side, kernel), 5)
    graph = helper.make_graph(
        [*g.nodes, helper.make_node("Relu", [output], ["out"])],
        "g",
        [
            helper.make_tensor_value_info(f"{name}32", TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        ],
        [helper.make_tensor_value_info("out", elem_type, None)],
        list(g.initializers.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = assert_rewritten(model, 4)
    assert op_counts(result.model)["Concat"] == 0


lengths = st.integers(1, 4)
far = st.sampled_from([-(2**63), -(2**63) + 1, -(2**31), 2**31, 2**63 - 1])
indices = st.one_of(st.integers(-6, 6), far)


@st.composite
def clamp_texts(draw: st.DrawFn, name: str, length: int) -> tuple[str, list[str]]:
    """Text that clamps ``name`` into ``name``c, mostly rightly, and the constants that it takes."""
    low = draw(st.sampled_from([0, 0, 0, 0, 0, 1, -1, -length]))
    high = draw(st.sampled_from([*[length - 1] * 6, length, 0, 2**62]))
    forms = ["{0}c = Clip({0}, {0}l, {0}h)"] * 6
    forms += [
        "{0}t = Max({0}, {0}l)  {0}c = Min({0}t, {0}h)",
        "{0}t = Min({0}, {0}h)  {0}c = Max({0}l, {0}t)",
    ]
    forms += [
        "{0}t = Clip({0}, {0}l)  {0}c = Clip({0}t, , {0}h)",
        "{0}c = Clip({0}, {0}l)",
        "{0}c = Identity({0})",
    ]
    forms += ["{0}t = Clip({0}, {0}l, {0}h)  {0}c = Mul({0}t, {0}t)"]
    return draw(st.sampled_from(forms)).format(name), [
        f"int64 {name}l = {{{low}}}",
        f"int64 {name}h = {{{high}}}",
    ]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([12, 13, 17, 21]))
def test_equal_or_left_alone(data: st.DataObject, opset: int) -> None:
    b0, b1 = data.draw(st.sampled_from([(1, 1)] * 4 + [(2, 1), (1, 2), (0, 1)]))
    height, width = data.draw(lengths), data.draw(lengths)
    points = data.draw(st.integers(0, 4))
    features = data.draw(st.lists(st.integers(0, 2).map(lambda n: n or 3), max_size=2))
    shape = (b0, b1, height, width, *features)
    declared = [str(n) if data.draw(st.integers(0, 9)) else f"n{axis}" for axis, n in enumerate(shape)]
    y_text, y_constants = data.draw(clamp_texts("y", height))
    x_text, x_constants = data.draw(clamp_texts("x", width))
    model = parse(
        text(
            f"{y_text}  {x_text}  {PAIR}{GATHER}",
            f"float[{','.join(declared)}] data, int64[{b0},{b1},{points},1] y, int64[{b0},{b1},{points},1] x",
            ", ".join([*y_constants, *x_constants]),
            opset=opset,
        )
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    _, result = apply(model)
    assert len(result.rewritten) + len(result.skipped) == 1
    columns = data.draw(st.lists(indices, min_size=2 * b0 * b1 * points, max_size=2 * b0 * b1 * points))
    y, x = np.array(columns, dtype=np.int64).reshape(2, b0, b1, points, 1)
    feeds = {"data": np.random.default_rng(0).random(shape, np.float32), "y": y, "x": x}
    assert_same(model, result.model, feeds)
    if result.rewritten:
        assert not isinstance(run(result.model, feeds), Failure)


def test_is_registered() -> None:
    assert PASSES["gather_nd_to_gather"] is GatherNdToGather
    assert GatherNdToGather.exact
    assert ir.passes.InPlacePass in GatherNdToGather.__mro__
