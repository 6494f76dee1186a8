from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import onnx
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
from hubpublish.passes.int32_indices import Int32Indices
from tests.models.build import (
    Rewrite,
    assert_runs_same,
    assert_same,
    nodes,
    op_counts,
    parse,
    random_feeds,
    rewrite,
)

LEVELS: Any = ("disabled", "default")
SPECIAL = [
    *(0.0, -0.0, 0.5, -0.5, 0.99, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, -1.0, -1.5, -2.0),
    *(1e6, -1e6, 3e9, -3e9, 2.0**31, -(2.0**31), 1e18, -1e18, 2.0**62, 2.0**63, -(2.0**63), 1e30, -1e30),
    *(np.nan, np.inf, -np.inf, 65504.0, -65504.0, 2047.0, 2049.0, 16777217.0, 1e-40),
]

# A block with 4 taps of 2 x 3 places each, on an image of 2 channels of 4 x 5, padded to 6 x 7.
INPUTS = "{t}[1,1,4,2,2,3] p, {t}[1,2,4,5] im"
CONSTANTS = """int64[8] pads = {0,0,1,1,0,0,1,1}, int64[5] dims = {1,1,2,6,7}, int64[4] points = {1,1,24,1},
    int64[1] s0 = {0}, int64[1] s1 = {1}, int64[1] s2 = {2}, int64[1] a3 = {3}, int64 one = {1},
    int64 k0 = {0}, int64 kh = {5}, int64 kw = {6}"""
FLOOR = "fl = Floor(p)  q = Cast<to=7>(fl)  t = Slice(q, s0, s1, a3)  l = Slice(q, s1, s2, a3)  "
NEXT = "b = Add(t, one)  r = Add(l, one)  "
CLAMP = "tc = Clip(t, k0, kh)  lc = Clip(l, k0, kw)  "
DATA = "padded = Pad(im, pads)  five = Reshape(padded, dims)  data = Transpose<perm=[0,1,3,4,2]>(five)  "
PAIR = "y = Reshape(tc, points)  x = Reshape(lc, points)  i = Concat<axis=3>(y, x)  "
GATHER = "[gnd] out = GatherND<batch_dims=2>(data, i)"


def text(
    body: str = FLOOR + CLAMP + DATA + PAIR + GATHER,
    inputs: str = INPUTS,
    constants: str = CONSTANTS,
    *,
    opset: int = 17,
    dtype: str = "float",
    functions: str = "",
) -> str:
    return f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1, "local": 1]>
    g ({inputs.format(t=dtype)}) => ({dtype}[A,B,C,D] out) <{constants}> {{ {body} }} {functions}"""


def feeds_for(model: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """An image, and places of which many lie outside; some far outside."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Any] = dict(random_feeds(model, seed))
    for name in feeds.keys() & {"p", "offsets"}:
        near = rng.uniform(-3, 9, feeds[name].shape)
        special = rng.choice(np.array(SPECIAL), feeds[name].shape)
        with np.errstate(over="ignore"):
            feeds[name] = np.where(rng.integers(0, 2, near.shape) > 0, near, special).astype(
                feeds[name].dtype
            )
    return feeds


def apply(model: onnx.ModelProto | str) -> tuple[onnx.ModelProto, Rewrite]:
    model = parse(model) if isinstance(model, str) else model
    return model, rewrite(model, Int32Indices())


def assert_rewritten(model: onnx.ModelProto | str, count: int = 1, **feeds: Any) -> Rewrite:
    model, result = apply(model)
    assert not result.skipped, result.skipped
    assert len(result.rewritten) == count
    assert not nodes(result.model, "GatherND")
    for level, seed in itertools.product(LEVELS, range(3)):
        assert_runs_same(model, result.model, {**feeds_for(model, seed), **feeds}, level)
    return result


def assert_left_alone(model: onnx.ModelProto | str, reason: str) -> None:
    model, result = apply(model)
    assert not result.rewritten
    assert [skip.reason for skip in result.skipped if skip.node == "gnd"] == [reason]
    assert [node.SerializeToString() for node in nodes(result.model)] == [
        node.SerializeToString() for node in nodes(model)
    ]
    assert_same(model, result.model, feeds_for(model))


def types_made(model: onnx.ModelProto) -> set[int]:
    """Element types of what nodes compute in the main graph, Constants apart."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    types = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
    made = [name for node in model.graph.node if node.op_type != "Constant" for name in node.output]
    return {types[name] for name in made if name in types}


# What is rewritten


def test_the_deformable_form() -> None:
    result = assert_rewritten(text())
    assert op_counts(result.model) == {
        "Floor": 1, "Pad": 1, "Transpose": 1, "Slice": 2, "Clip": 4, "Cast": 2, "Reshape": 4, "Mul": 1,
        "Add": 1, "Gather": 1, "Constant": 9,
    }  # fmt: skip
    (done,) = result.outcomes[0].rewritten
    assert (done.node, done.op, done.scope) == ("gnd", "GatherND", "main")
    assert done.into["Gather"] == 1
    assert types_made(result.model) == {TensorProto.FLOAT, TensorProto.INT32}


def test_float16_needs_no_clamp_of_floats() -> None:
    result = assert_rewritten(text(dtype="float16"))
    assert op_counts(result.model)["Clip"] == 2
    assert types_made(result.model) == {TensorProto.FLOAT16, TensorProto.INT32}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_every_pair_of_values(dtype: str, level: Any) -> None:
    count = len(SPECIAL) ** 2
    inputs = INPUTS.replace("4,2,2,3", f"{count},2,1,1")
    model = parse(text(FLOOR + NEXT + CORNERS, inputs, CONSTANTS.replace("24", str(count)), dtype=dtype))
    result = rewrite(model, Int32Indices())
    assert len(result.rewritten) == 4
    feeds = random_feeds(model)
    with np.errstate(over="ignore"):
        pairs = np.array([*itertools.product(SPECIAL, repeat=2)]).astype(feeds["p"].dtype)
    assert_runs_same(model, result.model, {**feeds, "p": pairs.reshape(feeds["p"].shape)}, level)


@pytest.mark.parametrize("opset", [12, 13, 14, 17, 18, 19, 21, 23, 24, 25])
@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_opsets(opset: int, dtype: str) -> None:
    assert_rewritten(text(opset=opset, dtype=dtype).replace("Pad(im", 'Pad<mode="constant">(im'))


CLAMPS = "".join(f"{k}c = Clip({k}, k0, {'kh' if k in 'tb' else 'kw'})  " for k in "tblr")
CORNERS = (
    CLAMPS
    + DATA
    + "".join(
        f"y{y}{x} = Reshape({y}c, points)  x{y}{x} = Reshape({x}c, points)  "
        f"i{y}{x} = Concat<axis=3>(y{y}{x}, x{y}{x})  v{y}{x} = GatherND<batch_dims=2>(data, i{y}{x})  "
        for y, x in ("tl", "br", "bl", "tr")
    )
    + "out = Concat<axis=3>(vtl, vbr, vbl, vtr)"
)


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_the_corners_of_a_block_share_what_they_can(dtype: str) -> None:
    result = assert_rewritten(text(FLOOR + NEXT + CORNERS, dtype=dtype), 4)
    counts = op_counts(result.model)
    assert (counts["Slice"], counts["Cast"], counts["Mul"], counts["Gather"]) == (2, 2, 2, 4)
    assert counts["Clip"] == (6 if dtype == "float" else 4)
    assert counts["Reshape"] == 4  # the image twice, and the integers of each axis
    assert counts["Add"] == 2 + 4
    assert counts["Concat"] == 1


@pytest.mark.parametrize(
    "chain",
    [
        "t = Slice(q, s0, s1, a3)  l = Slice(q, s1, s2, a3)  m = Max(t, k0)  tc = Min(kh, m)  "
        "u = Min(l, kw)  lc = Max(k0, u)  ",
        "t = Slice(q, s0, s1, a3)  l = Slice(q, s1, s2, a3)  m = Clip(t, k0)  tc = Clip(m, , kh)  "
        "u = Clip(l, , kw)  lc = Clip(u, k0)  ",
        "u = Add(one, q)  t = Slice(u, s0, s1, a3)  l = Slice(u, s1, s2, a3)  " + CLAMP,
        "u = Sub(q, two)  t = Slice(u, s0, s1, a3)  l = Slice(u, s1, s2, a3)  " + CLAMP,
        "u = Add(q, two)  v = Sub(u, one1)  t = Slice(v, s0, s1, a3)  l = Slice(v, s1, s2, a3)  " + CLAMP,
        "u = Add(q, minus9)  t = Slice(u, s0, s1, a3)  l = Slice(u, s1, s2, a3)  " + CLAMP,
        "c = Clip(q, minus9, kw)  t = Slice(c, s0, s1, a3)  l = Slice(c, s1, s2, a3)  " + CLAMP,
        "tc0 = Clip(q, k0, kh)  lc0 = Clip(q, k0, kw)  tc = Slice(tc0, s0, s1, a3)  "
        "lc = Slice(lc0, s1, s2, a3)  ",
        "t = Gather<axis=3>(q, k0)  l = Gather<axis=3>(q, one)  " + CLAMP,
        "w = Transpose<perm=[3,0,1,2,4,5]>(q)  t = Slice(w, s0, s1)  l = Slice(w, s1, s2)  " + CLAMP,
        "w = Squeeze(q, s01)  t = Slice(w, s0, s1, s1)  l = Slice(w, s1, s2, s1)  " + CLAMP,
        "w = Cast<to=7>(q)  v = Identity(w)  t = Slice(v, s0, s1, a3)  l = Slice(v, s1, s2, a3)  " + CLAMP,
        "f = Slice(fl, s0, s1, a3)  t = Cast<to=7>(f)  h = Slice(fl, s1, s2, a3)  l = Cast<to=7>(h)  "
        + CLAMP,
        "f1 = Add(fl, f_one)  q1 = Cast<to=7>(f1)  t = Slice(q1, s0, s1, a3)  l = Slice(q, s1, s2, a3)  "
        + CLAMP,
        "q1 = Cast<to=7>(p)  t = Slice(q1, s0, s1, a3)  l = Slice(q1, s1, s2, a3)  " + CLAMP,
    ],
)
def test_chains(chain: str) -> None:
    more = """, int64 two = {2}, int64[1] one1 = {1}, int64 minus9 = {-9}, int64[2] s01 = {0, 1},
    float f_one = {1}"""
    cast = "q = Cast<to=7>(fl)  " if re.search(r"\bq\b", chain) else ""
    body = "fl = Floor(p)  " + cast + chain + DATA + PAIR + GATHER
    result = assert_rewritten(text(body, constants=CONSTANTS + more))
    assert types_made(result.model) == {TensorProto.FLOAT, TensorProto.INT32}


LAST = "data = Transpose<perm=[0,1,3,4,2]>(f)"


@pytest.mark.parametrize(
    ("data", "opset"),
    [
        ("padded = Pad(im, pads)  f = Unsqueeze(padded, s0)  " + LAST, 17),
        ("w = Transpose(im)  u = Pad(w, turned)  v = Transpose(u)  f = Reshape(v, dims)  " + LAST, 17),
        ("padded = Pad(im, four, , axes)  f = Reshape(padded, dims)  " + LAST, 18),
        ("padded = Pad(im, pads, seven)  f = Reshape(padded, dims)  " + LAST, 17),
        ("padded = Pad(im, pads, given)  f = Reshape(padded, dims)  " + LAST, 17),
        ("w = Transpose<perm=[0,2,3,1]>(im)  u = Unsqueeze(w, s0)  data = Pad(u, last)", 17),
        ("padded = Pad(im, pads)  d = Transpose<perm=[0,2,3,1]>(padded)  e = Identity(d)  "
         "data = Reshape(e, moved)", 17),
    ],
)  # fmt: skip
def test_padding(data: str, opset: int) -> None:
    more = """, int64[8] turned = {1,1,0,0,1,1,0,0}, int64[4] four = {1,1,1,1}, int64[2] axes = {-1,2},
    float seven = {7}, int64[10] last = {0,0,1,1,0,0,0,1,1,0}, int64[5] moved = {1,1,6,7,2}"""
    body = FLOOR + CLAMP + data + "  " + PAIR + GATHER
    assert_rewritten(text(body, INPUTS + ", {t} given", CONSTANTS + more, opset=opset))


@pytest.mark.parametrize("batch", [(2, 1), (1, 3), (2, 3)])
def test_batches(batch: tuple[int, int]) -> None:
    b0, b1 = batch
    inputs = f"{{t}}[{b0},{b1},4,2,2,3] p, {{t}}[{b0 * b1},2,4,5] im"
    constants = CONSTANTS.replace("{1,1,2,6,7}", f"{{{b0},{b1},2,6,7}}").replace("{1,1,24", f"{{{b0},{b1},24")
    assert op_counts(assert_rewritten(text(inputs=inputs, constants=constants)).model)["Add"] == 2


def test_a_channel_count_that_is_not_known() -> None:
    body = FLOOR + CLAMP + "five = Reshape(im, dims)  data = Pad(five, last)  " + PAIR + GATHER
    constants = CONSTANTS.replace("{1,1,2,6,7}", "{1,1,4,5,-1}") + ", int64[10] last = {0,0,1,1,0,0,0,1,1,0}"
    assert_rewritten(
        text(body, "{t}[1,1,4,2,2,3] p, {t}[N] im", constants), im=np.arange(60, dtype=np.float32)
    )


def test_points_on_several_axes() -> None:
    result = assert_rewritten(
        text(constants=CONSTANTS.replace("[4] points = {1,1,24,1}", "[5] points = {1,1,4,6,1}"))
        .replace("axis=3>(y", "axis=-1>(y")
        .replace("[A,B,C,D]", "[A,B,C,D,E]")
    )
    assert op_counts(result.model)["Gather"] == 1


# What goes, and what stays


def test_the_old_chain_goes_with_its_initializers() -> None:
    result = assert_rewritten(text())
    assert {tensor.name for tensor in result.model.graph.initializer} == {
        "pads", "dims", "s0", "s1", "s2", "a3", "one",
    }  # fmt: skip


def test_constants_and_shape_arithmetic_go_too() -> None:
    body = (
        FLOOR
        + "z = Constant<value_int=0>()  n = Constant<value_int=5>()  sh = Shape(t)  c = Gather(sh, a2)  "
        "ends = Concat<axis=0>(s1, s1, points1, s1)  e2 = Mul(ends, ends)  e = Sub(e2, e0)  "
        "tc = Clip(t, z, n)  lc = Clip(l, k0, kw)  "
        + DATA
        + "y = Reshape(tc, e)  x = Reshape(lc, points)  i = Concat<axis=3>(y, x)  "
        + GATHER
    )
    more = ", int64[1] a2 = {2}, int64[1] points1 = {-5}, int64[4] e0 = {0, 0, 1, 0}"
    result = assert_rewritten(text(body, constants=CONSTANTS + more))
    # What was dead before stays: Shape and Gather.
    assert op_counts(result.model).keys() & {"Concat", "Sub", "Shape", "Gather"} == {"Shape", "Gather"}


def test_what_is_used_elsewhere_stays() -> None:
    body = (
        FLOOR
        + CLAMP
        + DATA
        + PAIR
        + GATHER.replace("out", "v")
        + "  f = Cast<to=1>(i)  out = Concat<axis=3>(v, f)"
    )
    counts = op_counts(assert_rewritten(text(body)).model)
    assert (counts["Cast"], counts["Concat"], counts["Slice"]) == (4, 2, 4)


def test_nodes_that_were_dead_before_stay() -> None:
    body = "dead = Cast<to=7>(p)  " + FLOOR + CLAMP + DATA + PAIR + GATHER
    assert op_counts(assert_rewritten(text(body)).model)["Cast"] == 3


def test_documentation_and_metadata_stay() -> None:
    model = parse(text())
    (node,) = nodes(model, "GatherND")
    node.doc_string = "corner"
    node.metadata_props.add(key="from", value="torchvision")
    _, result = apply(model)
    (gather,) = nodes(result.model, "Gather")
    assert (gather.doc_string, list(gather.output)) == ("corner", ["out"])
    assert [(prop.key, prop.value) for prop in gather.metadata_props] == [("from", "torchvision")]


# What is left alone


NO_PADDING = "the ends of axis {} of the data are not certainly padding"
NO_FLOATS = "the first index column is not certainly cast from float32 or float16 to int64"
NO_CAST = "the first index column comes from {}, which is not followed to a Cast of floats"


@pytest.mark.parametrize(
    ("data", "axis"),
    [
        ('padded = Pad<mode="edge">(im, pads)  five = Reshape(padded, dims)', 2),
        ('padded = Pad<mode="wrap">(im, pads)  five = Reshape(padded, dims)', 2),
        ("padded = Pad(im, above)  five = Reshape(padded, dims)", 2),
        ("padded = Pad(im, left)  five = Reshape(padded, dims)", 3),
        ("padded = Pad(im, pads)  less = Relu(padded)  five = Reshape(less, dims)", 2),
        # Rows are cut at other places: 6 x 7 of what was padded as 7 x 6.
        ("w = Transpose<perm=[0,1,3,2]>(im)  padded = Pad(w, pads)  five = Reshape(padded, dims)", 2),
        ("five = Reshape(big, dims)", 2),
    ],
)
def test_data_that_is_not_certainly_padded(data: str, axis: int) -> None:
    more = ", int64[8] above = {0,0,2,1,0,0,0,1}, int64[8] left = {0,0,1,2,0,0,1,0}"
    body = FLOOR + CLAMP + data + "  data = Transpose<perm=[0,1,3,4,2]>(five)  " + PAIR + GATHER
    model = text(body, INPUTS + ", {t}[84] big", CONSTANTS + more, opset=19)
    assert_left_alone(model, NO_PADDING.format(axis))


def test_pads_that_a_caller_may_override() -> None:
    constants = CONSTANTS.replace("int64[8] pads = {0,0,1,1,0,0,1,1}, ", "")
    inputs = INPUTS.replace("{t}", "float") + ", int64[8] pads = {0,0,1,1,0,0,1,1}"
    model = parse(text(inputs=inputs.replace("{", "{{").replace("}", "}}"), constants=constants))
    assert_left_alone(model, NO_PADDING.format(2))


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ("tc = Clip(ty, k0, kh)  lc = Clip(tx, k0, kw)",
         "the first index column does not come from a Cast of floats"),
        ("u = Mul(t, t)  tc = Clip(u, k0, kh)  lc = Clip(l, k0, kw)", NO_CAST.format("Mul")),
        ("u = Add(t, ty)  tc = Clip(u, k0, kh)  lc = Clip(l, k0, kw)", NO_CAST.format("Add")),
        ("u = Add(t, far)  tc = Clip(u, k0, kh)  lc = Clip(l, k0, kw)", NO_CAST.format("Add")),
        ("u = Sub(one, t)  tc = Clip(u, k0, kh)  lc = Clip(l, k0, kw)", NO_CAST.format("Sub")),
        ("tc = Max(t, k0)  v = Clip(l, k0, kw)  lc = Min(v, v, kw)",
         "the first index column is clamped at one end only: upper bound unknown"),
        ("tc = Clip(t, one, kh)  lc = Clip(l, k0, kw)",
         "the first index column is clamped between 1 and 5, and not between 0 and 5, the ends of its axis"),
        ("tc = Clip(t, k0, kh)  lc = Clip(l, k0, kh)",
         "the second index column is clamped between 0 and 5, and not between 0 and 6, the ends of its axis"),
        ("j = Cast<to=6>(fl)  v = Cast<to=7>(j)  u = Slice(v, s0, s1, a3)  tc = Clip(u, k0, kh)  "
         "lc = Clip(l, k0, kw)", NO_FLOATS),
        ("d = Cast<to=11>(fl)  v = Cast<to=7>(d)  u = Slice(v, s0, s1, a3)  tc = Clip(u, k0, kh)  "
         "lc = Clip(l, k0, kw)", NO_FLOATS),
    ],
)  # fmt: skip
def test_chains_that_are_not_followed(chain: str, reason: str) -> None:
    inputs = INPUTS + ", int64[1,1,4,1,2,3] ty, int64[1,1,4,1,2,3] tx"
    body = FLOOR + chain + "  " + DATA + PAIR + GATHER
    assert_left_alone(text(body, inputs, CONSTANTS + f", int64 far = {{{2**24}}}"), reason)


def test_indices_in_int32_are_left_to_the_other_pass() -> None:
    body = (
        FLOOR.replace("to=7", "to=6") + CLAMP.replace("k", "j") + "tl = Cast<to=7>(tc)  ll = Cast<to=7>(lc)  "
    )
    body += DATA + PAIR.replace("tc", "tl").replace("lc", "ll") + GATHER
    more = ", int32 j0 = {0}, int32 jh = {5}, int32 jw = {6}"
    assert_left_alone(text(body, constants=CONSTANTS + more), NO_FLOATS)


def test_no_points() -> None:
    inputs = INPUTS.replace("[1,1,4,2,2,3]", "[1,1,0,2,2,3]")
    constants = CONSTANTS.replace("{1,1,24,1}", "{1,1,0,1}")
    model = text(inputs=inputs, constants=constants).replace("= Reshape(tc", "= Reshape<allowzero=1>(tc")
    assert_left_alone(model.replace("= Reshape(lc", "= Reshape<allowzero=1>(lc"), "gathers at no points")


@pytest.mark.parametrize(("dtype", "most"), [("float", 2**24), ("float16", 2**11)])
def test_axes_longer_than_the_type_can_count(dtype: str, most: int) -> None:
    """The last index and the offset after it must be whole numbers that the type has."""
    for last, count in ((most - 1, 1), (most, 0)):
        inputs = f"{{t}}[1,1,4,2,2,3] p, {{t}}[1,1,{last - 1},1] im"
        constants = CONSTANTS.replace("kh = {5}", f"kh = {{{last}}}").replace("kw = {6}", "kw = {2}")
        constants = constants.replace("{1,1,2,6,7}", f"{{1,1,1,{last + 1},3}}")
        _, result = apply(text(inputs=inputs, constants=constants, dtype=dtype))
        assert len(result.rewritten) == count
    name = "FLOAT" if dtype == "float" else "FLOAT16"
    assert [skip.reason for skip in result.skipped] == [
        f"the first index column takes numbers above {most}, of which {name} rounds some"
    ]


def test_float16_that_are_no_whole_numbers() -> None:
    body = FLOOR.replace("Floor(p)", "Relu(p)") + CLAMP + DATA + PAIR + GATHER
    assert_left_alone(
        text(body, dtype="float16"),
        "the first index column is cast from float16 that are not certainly whole numbers",
    )


def test_float16_of_which_the_same_is_picked() -> None:
    body = (
        "p2 = Mul(p, p)  " + FLOOR.replace("(p)", "(p2)") + CLAMP + DATA + PAIR + GATHER.replace("out", "v")
    )
    body += (
        "  f = Slice(fl, s0, s1, a3)  e = Slice(p2, s0, s1, a3)  dy = Sub(e, f)  g = Reshape(dy, points)  "
    )
    body += "out = Concat<axis=3>(v, g)"
    assert_left_alone(
        text(body, dtype="float16"),
        "the first index column picks from float16 what is picked already, which would be rounded then",
    )
    assert_rewritten(text(body))


def test_float16_data_that_the_runtime_does_not_round() -> None:
    """One node that moves elements runs in float32 between arithmetic; two would run in float16."""
    data = DATA.replace("Transpose<perm=[0,1,3,4,2]>(five)", "Mul(t5, t5)").replace("five =", "t5 =")
    data = data.replace("Reshape(padded, dims)", "Reshape(padded, moved)")
    body = FLOOR + CLAMP + data + PAIR + GATHER.replace("out", "v") + "  out = Add(v, v)"
    more = ", int64[5] moved = {1,1,6,7,2}"
    inputs = INPUTS.replace("[1,2,4,5] im", "[1,4,5,2] im0")
    body = "im = Reshape(im0, same)  " + body
    constants = (
        CONSTANTS.replace("{0,0,1,1,0,0,1,1}", "{0,1,1,0,0,1,1,0}") + more + ", int64[4] same = {1,4,5,2}"
    )
    # Padding goes through no arithmetic, so this one is refused for that with float32.
    assert_left_alone(text(body, inputs, constants), NO_PADDING.format(2))
    assert_left_alone(
        text(body, inputs, constants, dtype="float16"),
        "the data may be float16 between computations, where two nodes may round it",
    )


def test_what_is_not_proved_of_the_gather_is_not_proved_here() -> None:
    inputs = INPUTS.replace("4,5] im", "H,5] im")
    constants = CONSTANTS.replace("{1,1,2,6,7}", "{1,1,2,-1,7}")
    _, result = apply(text(inputs=inputs, constants=constants))
    assert [skip.reason for skip in result.skipped] == ["the length of axis 2 of the data is not certain"]


# Scopes, names, order


def test_bodies() -> None:
    then = "then_branch = t1 () => (float[A,B,C,D] v) { v = GatherND<batch_dims=2>(data, i) }"
    inside = "t2 = Slice(q, s0, s1, a3)  tc2 = Clip(t2, k0, kh)  y2 = Reshape(tc2, points)  "
    inside += "j = Concat<axis=3>(y2, x)  w = GatherND<batch_dims=2>(data, j)"
    other = f"else_branch = e1 () => (float[A,B,C,D] w) {{ {inside} }}"
    body = f"{FLOOR}{CLAMP}{DATA}{PAIR}out = If(c) <{then}, {other}>"
    for c in (True, False):
        result = assert_rewritten(text(body, INPUTS + ", bool c"), 2, c=np.array(c))
    assert [done.scope for done in result.outcomes[0].rewritten] == [
        "main/out.then_branch",
        "main/out.else_branch",
    ]
    assert op_counts(result.model)["Concat"] == 0


FUNCTION = """<domain: "local", opset_import: ["": 17]>
f <last> (p0, im0) => (out) {{
    pads = Constant<value_ints=[0,0,1,1,0,0,1,1]>()  dims = Constant<value_ints=[1,1,2,6,7]>()
    points = Constant<value_ints=[1,1,24,1]>()  s0 = Constant<value_ints=[0]>()
    s1 = Constant<value_ints=[1]>()  s2 = Constant<value_ints=[2]>()  a3 = Constant<value_ints=[3]>()
    k0 = Constant<value_int=0>()  kh = Constant<value_int=5>()  kw = Constant<value_int{0}>()
    six = Constant<value_ints=[1,1,4,2,2,3]>()  four = Constant<value_ints=[1,2,4,5]>()
    p1 = Reshape(p0, six)  im = Reshape(im0, four)
    zero = Constant<value = float {{0}}>()  p = {1}  {2}
}}"""


def test_functions() -> None:
    body = FLOOR + CLAMP + DATA + PAIR + GATHER
    call = "out = local.f<last=6>(p, im)"
    given = FUNCTION.format("=6", "Max(p1, zero)", body)
    assert assert_rewritten(text(call, functions=given)).outcomes[0].rewritten[0].scope == "local::f"
    of_caller = FUNCTION.format(": int = @last", "Max(p1, zero)", body)
    assert_left_alone(
        text(call, functions=of_caller),
        "the second index column is not clamped: lower and upper bound unknown",
    )
    unknown = FUNCTION.format("=6", "Identity(p0)", body)
    assert_left_alone(
        text(call, functions=unknown),
        "the first index column is not certainly cast from float32 or float16 to int64",
    )


def test_names_that_are_taken() -> None:
    body = '["gnd/Mul_0"] "gnd/Cast_output_0" = Neg(p)  ' + FLOOR + CLAMP + DATA + PAIR + GATHER
    result = assert_rewritten(text(body))
    made = [name for node in result.model.graph.node for name in node.output]
    names = [node.name for node in result.model.graph.node if node.name]
    assert len(set(made)) == len(made)
    assert len(set(names)) == len(names)


def test_nodes_out_of_order() -> None:
    model = parse(text(FLOOR + NEXT + CORNERS))
    shuffled = [*reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(shuffled)
    _, result = apply(model)
    assert len(result.rewritten) == 4
    assert_runs_same(model, result.model, feeds_for(model))


def test_before_the_other_pass_which_takes_what_is_left() -> None:
    body = (
        FLOOR
        + CLAMP
        + DATA
        + PAIR
        + "v = GatherND<batch_dims=2>(data, i)  "
        + ("w = GatherND<batch_dims=2>(five_moved, i)  out = Add(v, w)")
    )
    model = parse(text(body, INPUTS + ", {t}[1,1,6,7,2] five_moved"))
    result = rewrite(model, Int32Indices(), GatherNdToGather())
    assert [len(outcome.rewritten) for outcome in result.outcomes] == [1, 1]
    assert op_counts(result.model)["Gather"] == 2
    for level in LEVELS:
        assert_runs_same(model, result.model, feeds_for(model), level)
    again = rewrite(model, GatherNdToGather(), Int32Indices())
    assert [len(outcome.rewritten) for outcome in again.outcomes] == [2, 0]


def test_a_second_time_changes_nothing() -> None:
    _, once = apply(text(FLOOR + NEXT + CORNERS))
    _, twice = apply(once.model)
    assert not twice.rewritten
    assert twice.model.SerializeToString() == once.model.SerializeToString()


def test_the_same_model_gives_the_same_bytes() -> None:
    one, other = (apply(text(FLOOR + NEXT + CORNERS))[1] for _ in range(2))
    assert one.model.SerializeToString() == other.model.SerializeToString()


def test_limit() -> None:
    model = parse(text(FLOOR + NEXT + CORNERS))
    for limit in range(5):
        result = rewrite(model, Int32Indices(limit=limit))
        assert op_counts(result.model)["GatherND"] == 4 - limit
        assert_runs_same(model, result.model, feeds_for(model))


# The demo model's own blocks


def deformable(dtype: Any, kernel: int, side: int = 6) -> onnx.ModelProto:
    g, taps = GraphBuilder(dtype, 0), kernel**2
    elem_type = TensorProto.FLOAT16 if dtype == "fp16" else TensorProto.FLOAT
    shapes = {"x": (1, 4, side, side), "offsets": (1, 2 * taps, side, side), "mask": (1, taps, side, side)}
    # Arithmetic on both sides: runs of nodes in fp16 are computed in fp32 by the runtime.
    image, offsets, mask = (g.op("Mul", name, g.number(1.7)) for name in shapes)
    output = deform_conv2d(g, image, offsets, mask, "conv", DeformShape(4, side, kernel), 3)
    graph = helper.make_graph(
        [*g.nodes, helper.make_node("Relu", [output], ["out"])],
        "g",
        [helper.make_tensor_value_info(name, elem_type, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("out", elem_type, None)],
        list(g.initializers.values()),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_a_deformable_convolution(kernel: int, dtype: Any) -> None:
    result = assert_rewritten(deformable(dtype, kernel), 4)
    assert TensorProto.INT64 not in types_made(result.model)


def test_the_demo_model() -> None:
    model = build_model(
        ModelConfig(size=64, embed=12, depths=(2, 2, 2, 2), window=2, inner=8, aspp=8, edge=4)
    )
    _, result = apply(model)
    assert (len(result.rewritten), result.skipped) == (80, [])
    before, after = op_counts(model), op_counts(result.model)
    assert after["Concat"] == before["Concat"] - 80
    assert after["Cast"] == before["Cast"] + 20
    assert after["Slice"] == before["Slice"]


# Any block


@st.composite
def blocks(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, Any], bool]:
    """A GatherND by clamped places, what to feed it, and whether its data is padded at both ends."""
    dtype = draw(st.sampled_from(["float", "float16"]))
    (h, w), (rows, columns) = (draw(st.tuples(st.integers(1, 4), st.integers(1, 4))) for _ in range(2))
    pads = draw(st.lists(st.integers(0, 3).map(lambda n: n or 1), min_size=4, max_size=4))
    if draw(st.integers(0, 9)) == 0:
        pads[draw(st.integers(0, 3))] = 0
    taps, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    height, width = rows + pads[0] + pads[2], columns + pads[1] + pads[3]
    offset_y, offset_x = draw(st.integers(-3, 3)), draw(st.integers(-3, 3))
    clamp = draw(st.sampled_from([
        "tc = Clip(t1, k0, kh)  lc = Clip(l1, k0, kw)",
        "t2 = Max(t1, k0)  tc = Min(t2, kh)  l2 = Min(kw, l1)  lc = Max(k0, l2)",
        "t2 = Clip(t1, k0)  tc = Clip(t2, , kh)  lc = Clip(l1, k0, kw)",
    ]))  # fmt: skip
    constants = f"""int64[8] pads = {{0,0,{pads[0]},{pads[1]},0,0,{pads[2]},{pads[3]}}},
    int64[5] dims = {{1,1,{channels},{height},{width}}}, int64[4] points = {{1,1,{taps * h * w},1}},
    int64[1] s0 = {{0}}, int64[1] s1 = {{1}}, int64[1] s2 = {{2}}, int64[1] a3 = {{3}}, int64 k0 = {{0}},
    int64 kh = {{{height - 1}}}, int64 kw = {{{width - 1}}}, int64 oy = {{{offset_y}}},
    int64 ox = {{{offset_x}}}"""
    body = FLOOR + f"t1 = Add(t, oy)  l1 = Add(l, ox)  {clamp}  " + DATA + PAIR + GATHER
    inputs = f"{{t}}[1,1,{taps},2,{h},{w}] p, {{t}}[1,{channels},{rows},{columns}] im"
    model = parse(text(body, inputs, constants, dtype=dtype))
    values = st.one_of(st.floats(-5, 12, width=16), st.sampled_from(SPECIAL))
    size = taps * 2 * h * w
    places = draw(st.lists(values, min_size=size, max_size=size))
    feeds: dict[str, Any] = dict(random_feeds(model, draw(st.integers(0, 9))))
    with np.errstate(over="ignore"):
        feeds["p"] = np.array(places).reshape(feeds["p"].shape).astype(feeds["p"].dtype)
    return model, feeds, 0 not in pads


@settings(max_examples=100, deadline=None)
@given(blocks())
def test_equal_or_left_alone(block: tuple[onnx.ModelProto, dict[str, Any], bool]) -> None:
    model, feeds, padded = block
    _, result = apply(model)
    assert len(result.rewritten) == padded
    for level in LEVELS:
        assert_runs_same(model, result.model, feeds, level)


def test_is_registered() -> None:
    assert PASSES["int32_indices"] is Int32Indices
    assert Int32Indices.exact
    names = [*PASSES]
    assert names.index("int32_indices") < names.index("gather_nd_to_gather")


def test_bounds_that_are_lists_of_one() -> None:
    assert_rewritten(
        text(constants=CONSTANTS.replace("int64 kh", "int64[1] kh").replace("int64 k0", "int64[1] k0"))
    )
