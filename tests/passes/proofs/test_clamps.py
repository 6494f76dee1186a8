from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubpublish.passes.proofs.clamps import MOST, Clamp, before
from hubpublish.passes.proofs.facts import Proofs
from tests.models.build import parse

ends = st.one_of(st.integers(-20, 20), st.sampled_from([-math.inf, math.inf]))
steps = st.one_of(st.integers(-9, 9), st.tuples(ends, ends))


def clamped(x: Any, low: Any, high: Any) -> Any:
    return min(high, max(low, x))


@given(st.lists(steps, max_size=6), st.integers(-40, 40))
def test_steps_one_after_another_are_one_function(chain: list[Any], x: int) -> None:
    clamp, value = Clamp(), x
    for step in chain:
        value = clamped(value, *step) if isinstance(step, tuple) else value + step
    for step in reversed(chain):
        clamp = clamp.after_clamping(*step) if isinstance(step, tuple) else clamp.after_adding(step)
        assert clamp.low <= clamp.high
    assert clamped(x + clamp.offset, clamp.low, clamp.high) == value


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Clip(x, two, nine)", Clamp(0, 2, 9)),
        ("Clip(x, two)", Clamp(0, 2, math.inf)),
        ("Clip(x, , nine)", Clamp(0, -math.inf, 9)),
        ("Clip(x)", Clamp()),
        ("Clip(x, nine, two)", Clamp(0, 2, 2)),
        ("Max(x, two)", Clamp(0, 2, math.inf)),
        ("Min(two1, x)", Clamp(0, -math.inf, 2)),
        ("Add(nine, x)", Clamp(9)),
        ("Sub(x, nine)", Clamp(-9)),
        ("Sub(nine, x)", None),
        ("Add(x, far)", None),
        ("Sub(x, far)", None),
        ("Add(x, y)", None),
        ("Add(x, both)", None),
        ("Add(x, deep)", None),  # would add axes
        ("Add(x, of_caller)", None),
        ("Max(x, two, nine)", None),
        ("Max(x)", None),
        ("Clip(x, two1, nine)", Clamp(0, 2, 9)),
        ("Clip(x, deep, nine)", None),
        ("Clip(x, both)", None),
        ("Clip(x, y0)", None),
        ("Mul(x, two)", None),
    ],
)
def test_what_a_node_does(node: str, expected: Clamp | None) -> None:
    model = ir.from_proto(
        parse(f"""<ir_version: 8, opset_import: ["": 17]>
        g (int64[2] x, int64[2] y, int64 y0, int64 of_caller = {{1}}) => (int64[2] z) <
            int64 two = {{2}}, int64 nine = {{9}}, int64[1] two1 = {{2}}, int64[1,1] deep = {{2}},
            int64[2] both = {{1, 2}}, int64 far = {{{MOST}}}
        > {{ z = {node} }}""")
    )
    found = before(model.graph[0], Clamp(), Proofs(model))
    assert (found[1] if found else None) == expected
    assert found is None or found[0].name == "x"
