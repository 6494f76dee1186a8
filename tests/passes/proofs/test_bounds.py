from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubpublish.passes.proofs.bounds import Bounds, IndexBounds
from hubpublish.passes.proofs.facts import Proofs
from tests.models.build import Failure, parse, run

OPEN = Bounds()
CONSTANTS = """
    int64 k0 = {0}, int64 k5 = {5}, int64 k9 = {9}, int64 m3 = {-3}, int64[1] v0 = {0}, int64[1] v5 = {5},
    int64[2] pair = {2, 7}, int32 i0 = {0}, int32 i5 = {5}, float f0 = {0}, float f5 = {5}, int64[2] s24 =
    {2, 4}, int64 huge = {3000000000}
"""


def model(
    body: str, inputs: str = "int64[2,4] x", opset: int = 17, initializers: str = CONSTANTS
) -> onnx.ModelProto:
    return parse(f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1]>
    g ({inputs}) => (int64[A, B] y) <{initializers}> {{ {body} }}""")


def bounds(body: str, inputs: str = "int64[2,4] x", opset: int = 17, initializers: str = CONSTANTS) -> Bounds:
    loaded = ir.from_proto(model(body, inputs, opset, initializers))
    return IndexBounds(Proofs(loaded)).of(loaded.graph.outputs[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Clip(x, k0, k5)", Bounds(0, 5)),
        ("y = Clip(x, v0, v5)", Bounds(0, 5)),
        ("y = Clip(x, k0)", Bounds(low=0)),
        ("y = Clip(x, , k5)", Bounds(high=5)),
        ("y = Clip(x)", OPEN),
        ("y = Clip(x, k9, k5)", Bounds(5, 5)),  # the max wins
        ("y = Clip(x, k0, x)", OPEN),  # a max below the min wins
        ("y = Clip(x, x, k5)", Bounds(high=5)),
        ("t = Clip(x, k0, k5)  y = Clip(t, m3, k9)", Bounds(0, 5)),
        ("t = Clip(x, m3, k9)  y = Clip(t, k0, k5)", Bounds(0, 5)),
        ("t = Max(x, k0)  y = Min(t, k5)", Bounds(0, 5)),
        ("t = Min(x, k5)  y = Max(t, k0)", Bounds(0, 5)),
        ("t = Max(k0, x)  y = Min(k9, t, k5)", Bounds(0, 5)),
        ("t = Max(x, m3, k0)  y = Min(t, pair)", Bounds(0, 7)),
        ("y = Max(x, k0)", Bounds(low=0)),
        ("y = Min(x, k5)", Bounds(high=5)),
        ("t = Clip(x, , k5)  y = Clip(t, k0)", Bounds(0, 5)),
        ("k = Identity(k5)  y = Clip(x, k0, k)", Bounds(0, 5)),
        ("k = Constant<value=int64 {5}>()  z = Constant<value_int=0>()  y = Clip(x, z, k)", Bounds(0, 5)),
        ("s = Shape(x)  n = Gather(s, v1)  l = Sub(n, one)  y = Clip(x, k0, l)", Bounds(0, 3)),
        ("s = Shape(x)  n = Gather(s, v1)  l = Sub(n, one)  t = Min(x, l)  y = Max(t, k0)", Bounds(0, 3)),
        ("y = Identity(k5)", Bounds(5, 5)),
        ("y = Identity(pair)", Bounds(2, 7)),
        ("y = Add(x, k5)", OPEN),
        ("y = other.Clip(x, k0, k5)", OPEN),
        ("y = Relu(x)", OPEN),
    ],
)
def test_clamps(body: str, expected: Bounds) -> None:
    assert bounds(body, initializers=CONSTANTS + ", int64 v1 = {1}, int64 one = {1}") == expected


@pytest.mark.parametrize(
    "move",
    [
        "y = Identity(t)",
        "y = Reshape(t, s)",
        "y = Unsqueeze(t, v0)",
        "u = Unsqueeze(t, v0)  y = Squeeze(u, v0)",
        "y = Flatten(t)",
        "y = Transpose(t)",
        "y = Slice(t, v0, v1, v0)",
        "y = Gather(t, v0)",
        "y, z = Split<axis=1>(t)",
        "y = Tile(t, two)",
        "y = Expand(t, two)",
        "y = Concat<axis=0>(t, t)",
        "y = Concat<axis=0>(t, k)",
        "y = Where(b, t, t)",
        "y = Cast<to=7>(t)",
        "u = Cast<to=6>(t)  y = Cast<to=7>(u)",
    ],
)
def test_what_only_moves_values_keeps_bounds(move: str) -> None:
    body = f"t = Clip(x, k0, k5)  k = Expand(k5, s24)  {move}"
    more = ", int64[1] s = {-1}, int64[1] v1 = {1}, int64[2] two = {2, 1}"
    assert bounds(body, "int64[2,4] x, bool[2,4] b", initializers=CONSTANTS + more) == Bounds(0, 5)


def test_unions_take_the_widest() -> None:
    more = "t = Clip(x, k0, k5)  u = Clip(x, m3, k0)"
    assert bounds(f"{more}  y = Concat<axis=0>(t, u)") == Bounds(-3, 5)
    assert bounds(f"{more}  y = Where(b, t, u)", "int64[2,4] x, bool[2,4] b") == Bounds(-3, 5)
    assert bounds(f"{more}  y = Where(b, t, x)", "int64[2,4] x, bool[2,4] b") == OPEN
    assert bounds(f"{more}  y = Concat<axis=0>(t, x)") == OPEN


def test_casts() -> None:
    assert bounds("t = Clip(x, i0, i5)  y = Cast<to=7>(t)", "int32[2,4] x") == Bounds(0, 5)
    # NaN passes the clamp, and what becomes of it is not defined.
    assert bounds("t = Clip(x, f0, f5)  y = Cast<to=7>(t)", "float[2,4] x") == OPEN
    assert bounds("t = Max(x, f0)  u = Min(t, f5)  y = Cast<to=7>(u)", "float[2,4] x") == OPEN
    assert bounds("t = Clip(x, k0, huge)  u = Cast<to=6>(t)  y = Cast<to=7>(u)") == OPEN
    assert bounds("t = Clip(x, m3, k5)  u = Cast<to=2>(t)  y = Cast<to=7>(u)") == OPEN
    assert bounds("t = Clip(x, k0, k5)  u = Cast<to=1>(t)  y = Cast<to=7>(u)") == OPEN


@pytest.mark.parametrize(
    "node",
    ["Where(c)", "Cast<to=99>(x)", 'Cast<to="x">(x)', "Cast(x)", "Concat<axis=0>()", "Max()", "Clip()"],
)
def test_nodes_that_no_runtime_takes_prove_nothing(node: str) -> None:
    assert bounds(f"t = {node}  y = Reshape(t, s24)", "int64[2,4] x, bool[2,4] c") == OPEN


def test_bounds_that_a_caller_may_override_are_none() -> None:
    inputs = "int64[2,4] x, int64 hi = {5}"
    assert bounds("y = Clip(x, k0, hi)", inputs) == OPEN
    assert bounds("t = Max(x, k0)  y = Min(t, hi)", inputs) == OPEN
    assert bounds("y = Identity(hi)", inputs) == OPEN


def test_bounds_in_functions() -> None:
    text = """<ir_version: 10, opset_import: ["": 17, "local": 1]>
    g (int64[2,3] x) => (int64[A,B] y) { y = local.f<high=5>(x, x) }
    <domain: "local", opset_import: ["": 17]>
    f <high> (a, given) => (e, fixed, inner) {
        zero = Constant<value_int=0>()
        five = Constant<value_int=5>()
        attribute = Constant<value_int: int = @high>()
        fixed = Clip(a, zero, five)
        e = Clip(a, zero, attribute)
        inner = Clip(a, zero, given)
    }"""
    loaded = ir.from_proto(parse(text))
    known = IndexBounds(Proofs(loaded))
    (function,) = loaded.functions.values()
    e, fixed, inner = (known.of(value) for value in function.outputs)
    assert fixed == Bounds(0, 5)
    assert e == inner == OPEN
    assert known.of(loaded.graph.outputs[0]) == OPEN


def test_an_empty_constant_proves_nothing() -> None:
    loaded = model("y = Clip(x, k0, none)")
    loaded.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(0, np.int64), "none"))
    converted = ir.from_proto(loaded)
    assert math.isinf(IndexBounds(Proofs(converted)).of(converted.graph.outputs[0]).high)


def test_long_chains_and_wide_ones_end() -> None:
    chain = "t0 = Clip(x, k0, k5)" + "".join(f" t{i + 1} = Identity(t{i})" for i in range(3000))
    assert bounds(f"{chain}  y = Identity(t3000)") == OPEN
    diamond = "t0 = Clip(x, k0, k5)" + "".join(f" t{i + 1} = Min(t{i}, t{i})" for i in range(60))
    assert bounds(f"{diamond}  y = Identity(t60)") == Bounds(0, 5)


numbers = st.one_of(st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1, -(2**31) - 1, 2**31]))
STEPS = [
    "Clip({x}, {a}, {b})",
    "Clip({x}, {a})",
    "Clip({x}, , {a})",
    "Max({x}, {a})",
    "Min({x}, {a}, {b})",
    "Neg({x})",
]
STEPS += [
    "Cast<to=6>({x})",
    "Cast<to=7>({x})",
    "Where(c, {x}, {a})",
    "Identity({x})",
    "Add({x}, {a})",
    "Abs({x})",
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), numbers, numbers), min_size=1, max_size=5),
    st.lists(numbers, min_size=3, max_size=3),
    st.sampled_from([12, 17, 21]),
)
def test_no_value_is_ever_out_of_bounds(steps: list[tuple[str, int, int]], x: list[int], opset: int) -> None:
    body, initializers, current, wide = "", ["int64 unused = {0}"], "x", True
    for number, (step, a, b) in enumerate(steps):
        if not wide:  # back to int64, in which the constants are
            body += f" w{number} = Cast<to=7>({current})"
            current = f"w{number}"
        names = {"x": current, "a": f"a{number}", "b": f"b{number}"}
        initializers += [f"int64 a{number} = {{{a}}}", f"int64 b{number} = {{{b}}}"]
        body += f" t{number} = {step.format(**names)}"
        current, wide = f"t{number}", "to=6" not in step
    body += f" y = Cast<to=7>({current})"
    built = model(body, "int64[3] x, bool[3] c", opset, ", ".join(initializers))
    outputs = run(built, {"x": np.array(x), "c": np.array([True, False, True])})
    loaded = ir.from_proto(built)
    known = IndexBounds(Proofs(loaded)).of(loaded.graph.outputs[0])
    assert not isinstance(outputs, Failure), outputs.message
    assert known.low <= outputs[0].min()
    assert outputs[0].max() <= known.high
