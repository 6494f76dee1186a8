"""Float16 on the CPU: equal Adds are merged, and with them what moves them, which changes what is rounded."""

from __future__ import annotations

import pytest

from hubpublish.passes.sum_to_add import SumToAdd
from tests.models.build import assert_runs_same, bits, rewrite, run

from .test_trees import LEVELS, X, model_with

REASON = "may add up float16 as another node does, with which the runtime may merge it"
#: One of two equal values is moved between arithmetic, the other one before a node that moves it on.
BEHIND = """p = Reshape(s, turned)  r = Add(p, third)  y = Mul(r, r)
    q = Reshape(t, turned)  w = Gather<axis = 0>(q, nil)"""
EQUAL = {
    "an Add": ("s = Sum(h, k)  t = Add(h, k)", 1),
    "a chain of Add": ("s = Sum(h, k, x)  o = Add(h, k)  t = Add(o, x)", 1),
    "an Add of a Sum": ("s = Sum(h, k, x)  o = Sum(h, k)  t = Sum(o, x)", 2),
    "an Add of what is computed twice": ("s = Sum(h, k)  l = Add(x, x)  t = Add(h, l)", 1),
}
OTHER = {
    "the same Sum": "s = Sum(h, k)  t = Sum(h, k)",
    "an Add of others": "s = Sum(h, k)  t = Add(k, x)",
    "a Sum in another order": "s = Sum(h, k, x)  o = Add(h, x)  t = Add(o, k)",
}


@pytest.mark.parametrize("case", EQUAL)
def test_left_alone_where_another_node_adds_up_the_same(case: str) -> None:
    sums, count = EQUAL[case]
    model = model_with(f"h = Mul(x, x)  k = Add(x, x)  {sums}  {BEHIND}")
    result = rewrite(model, SumToAdd())
    assert [skip.reason for skip in result.skipped] == [REASON] * count
    for level in LEVELS:
        assert_runs_same(model, result.model, {"x": X}, level)


@pytest.mark.parametrize("case", ["an Add", "a chain of Add", "an Add of what is computed twice"])
def test_what_is_left_alone_would_be_rounded(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_with(f"h = Mul(x, x)  k = Add(x, x)  {EQUAL[case][0]}  {BEHIND}")
    monkeypatch.setattr(SumToAdd, "_is_like_another", lambda self, node: False)
    one, other = (run(each, {"x": X}, "default") for each in (model, rewrite(model, SumToAdd()).model))
    assert isinstance(one, list)
    assert isinstance(other, list)
    assert [bits(value) for value in one] != [bits(value) for value in other]


@pytest.mark.parametrize("case", OTHER)
def test_rewritten_where_none_does(case: str) -> None:
    model = model_with(f"h = Mul(x, x)  k = Add(x, x)  {OTHER[case]}  {BEHIND}")
    result = rewrite(model, SumToAdd())
    assert result.rewritten
    assert not result.skipped
    for level in LEVELS:
        assert_runs_same(model, result.model, {"x": X}, level)


def test_float32_is_rewritten() -> None:
    model = model_with(f"h = Mul(x, x)  k = Add(x, x)  {EQUAL['an Add'][0]}  {BEHIND}", "float")
    assert len(rewrite(model, SumToAdd()).rewritten) == 1
