"""Float16 on the CPU: what one node moves between computations may stay float32; what two do is rounded."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest

from hubpublish.passes.gather_nd_to_gather import GatherNdToGather
from tests.models.build import assert_runs_same, parse, rewrite

BETWEEN = "the data may be float16 between computations, where two nodes may round it"
BEFORE = {
    "arithmetic": "d = Mul(x, x)",
    "a node that is optimized away": "a = Mul(x, x)  d = Identity(a)",
    "a node without a kernel for float16": "a = Mul(x, x)  b = Pad(a, pads)  d = Relu(b)",
    "Transpose": "a = Mul(x, x)  d = Transpose<perm=[0,1,3,2,4]>(a)",
    "a Transpose behind an Identity": "a = Mul(x, x)  b = Transpose<perm=[0,1,3,2,4]>(a)  d = Identity(b)",
    "Reshape": "a = Mul(x, x)  f = Reshape(a, flat)  d = Reshape(f, five)",
    "Slice": "a = Mul(x, x)  b = Concat<axis=2>(a, a)  d = Slice(b, zero, eight, two)",
    "a Slice of everything": "a = Mul(x, x)  d = Slice(a, zero, most, zero)",
    "the first of a Split": "a = Mul(x, x)  b = Concat<axis=2>(a, a)  c = Relu(b)  "
    "d, e = Split<axis=2>(c, halves)  z = Mul(e, e)",
    "the second of a Split": "a = Mul(x, x)  b = Concat<axis=2>(a, a)  c = Relu(b)  "
    "e, d = Split<axis=2>(c, halves)  z = Mul(e, e)",
    "an input": "d = Identity(x)",
    "a constant": "d = Identity(table)",
}
AFTER = {
    "arithmetic": "y = Add(v, third)",
    "an output": "y = Identity(v)",
    "Transpose": "t = Transpose<perm=[0,1,3,2]>(v)  y = Add(t, third)",
    "Reshape": "w = Identity(v)  t = Reshape(w, flat)  y = Add(t, third)",
    "a Slice of everything": "t = Slice(v, zero, most, zero)  y = Add(t, third)",
    "both": "t = Reshape(v, flat)  r = Relu(v)  u = Reshape(r, flat)  w = Concat<axis=0>(t, u)  "
    "y = Add(w, w)",
    "float32": "w = Cast<to=1>(v)  y = Cast<to=10>(w)",
}
ROUNDED = {
    *("Transpose", "a Transpose behind an Identity", "Reshape", "the first of a Split", "an input"),
    "a constant",
}
MOVED = {"an output", "Transpose", "Reshape", "both"}


def model_of(before: str, after: str) -> onnx.ModelProto:
    model = parse(f"""<ir_version: 8, opset_import: ["": 17]>
    g (float16[1,1,8,8,2] x, int64[1,1,9,1] y0, int64[1,1,9,1] x0) => (float16 y) <
        float16 third = {{13653}}, int64 k0 = {{0}}, int64 k7 = {{7}}, int64[5] five = {{1,1,8,8,2}},
        int64[1] flat = {{-1}}, int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[1] eight = {{8}},
        int64[1] most = {{9223372036854775807}}, int64[2] halves = {{8,8}},
        int64[10] pads = {{0,0,0,0,0,0,0,0,0,1}}
    > {{
        {before}  yc = Clip(y0, k0, k7)  xc = Clip(x0, k0, k7)  i = Concat<axis=3>(yc, xc)
        [gnd] v = GatherND<batch_dims=2>(d, i)  {after}
    }}""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    table = np.linspace(1, 3, 128).reshape(1, 1, 8, 8, 2).astype(np.float16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    return model


@pytest.mark.parametrize(("before", "after"), [*itertools.product(BEFORE, AFTER)])
def test_exact_or_left_alone(before: str, after: str) -> None:
    rng = np.random.default_rng(0)
    model = model_of(BEFORE[before], AFTER[after])
    result = rewrite(model, GatherNdToGather())
    assert bool(result.rewritten) == (before in ROUNDED or after in MOVED)
    assert [skip.reason for skip in result.skipped] == ([] if result.rewritten else [BETWEEN])
    indices = {name: rng.integers(0, 8, (1, 1, 9, 1)) for name in ("y0", "x0")}
    feeds: dict[str, Any] = {"x": rng.standard_normal((1, 1, 8, 8, 2)).astype(np.float16), **indices}
    levels: Any = ("disabled", "default")
    for level in levels:
        assert_runs_same(model, result.model, feeds, level)


def test_float32_is_not_rounded() -> None:
    model = model_of(BEFORE["arithmetic"], AFTER["arithmetic"])
    text = onnx.printer.to_text(model).replace("float16", "float")
    model = onnx.parser.parse_model(text)
    assert rewrite(model, GatherNdToGather()).rewritten == ["gnd"]


def test_a_function_may_be_given_what_is_not_rounded() -> None:
    function = """<domain: "local", opset_import: ["": 17]>
    f (a, y0, x0) => (v) {
        five = Constant<value_ints=[1,1,8,8,2]>()  points = Constant<value_ints=[1,1,9,1]>()
        k0 = Constant<value_int=0>()  k7 = Constant<value_int=7>()  y1 = Reshape(y0, points)
        x1 = Reshape(x0, points)  yc = Clip(y1, k0, k7)  xc = Clip(x1, k0, k7)  i = Concat<axis=3>(yc, xc)
        [gnd] v = GatherND<batch_dims=2>(@, i)
    }"""
    for data, count in (("a", 0), ("d", 1)):
        body = function.replace("@", data)
        if data == "d":
            body = body.replace("[gnd]", "d = Reshape(a, five)  [gnd]")
        model = parse(f"""<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float16[1,1,8,8,2] x, int64[1,1,9,1] y0, int64[1,1,9,1] x0) => (float16[A,B,C,D] y) {{
            a = Mul(x, x)  v = local.f(a, y0, x0)  y = Add(v, v)
        }} {body}""")
        result = rewrite(model, GatherNdToGather())
        assert len(result.rewritten) == count
        feeds: dict[str, Any] = {
            "x": np.linspace(1, 3, 128).reshape(1, 1, 8, 8, 2).astype(np.float16),
            "y0": np.arange(9).reshape(1, 1, 9, 1) % 8, "x0": np.ones((1, 1, 9, 1), np.int64),
        }  # fmt: skip
        levels: Any = ("disabled", "default")
        for level in levels:
            assert_runs_same(model, result.model, feeds, level)
