"""Float16 on the CPU: a Split or Concat alone between computations may not round; several in a row do."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from hubpublish.demo.config import SMALL, Dtype
from hubpublish.demo.model import build_model
from hubpublish.passes.concat_tree import ConcatTree, ConcatTreeOptions
from hubpublish.passes.half.trees import HalfTrees
from hubpublish.passes.split_tree import SplitTree, SplitTreeOptions
from hubpublish.passes.sum_to_add import SumToAdd
from tests.conformance.random_graphs import Pick, model_of, random_graph
from tests.models.build import Level, Rewrite, assert_runs_same, bits, parse, rewrite, run

LEVELS: tuple[Level, ...] = ("disabled", "default")
SPLIT = "may split float16 between computations, which several Splits in a row may round"
CONCAT = "may join float16 between computations, which several Concats in a row may round"
COPY = "may copy float16, at which what is moved around it is rounded otherwise"
X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float16)

ADDED = "p = Add(a, b)  q = Add(c, d)  r = Add(p, third)  y = Add(q, r)"
EACH_TRANSPOSED = """ta = Transpose(a)  tb = Transpose(b)  tc = Transpose(c)  td = Transpose(d)
    p = Add(ta, tb)  q = Add(tc, td)  r = Add(p, third)  y = Add(q, r)"""
CUT = "a, b, c, d = Split<axis = 0>(h, ones)"

#: What comes before the wide Split, it and what comes after it, and whether it may become a tree.
SPLITS = {
    "arithmetic": ("h = Mul(x, x)", ADDED, False),
    "an input": ("h = Identity(x)", ADDED, True),
    "a cast": ("w = Cast<to = 1>(x)  z = Mul(w, w)  h = Cast<to = 10>(z)", ADDED, True),
    "a cast of float16": ("z = Mul(x, x)  h = Cast<to = 10>(z)", ADDED, False),
    "Gather": ("z = Mul(x, x)  h = Gather<axis = 0>(z, four)", ADDED, True),
    "Gather and Reshape": ("z = Mul(x, x)  g = Gather<axis = 0>(z, four)  h = Reshape(g, same)", ADDED, True),
    "a Slice of everything": ("z = Mul(x, x)  h = Slice(z, nil, most, nil)", ADDED, False),
    "Transpose": ("z = Mul(x, x)  t = Transpose(z)  u = Mul(t, t)  h = Transpose(u)", ADDED, False),
    "Transposes around": ("z = Mul(x, x)  t = Reshape(z, turned)  h = Transpose(t)", EACH_TRANSPOSED, False),
    "the first of another Split": ("z = Mul(x, x)  h, k = Split<axis = 1>(z, threes)", ADDED, True),
    "the second of a Split alone": (
        "z = Mul(x, x)  k, h = Split<axis = 1>(z, threes)  l = Mul(k, k)", ADDED, False
    ),
    "the second of a Split": (
        "z = Mul(x, x)  k, h = Split<axis = 1>(z, threes)  l = Gather<axis = 0>(k, four)", ADDED, True
    ),
    "before Gather": (
        "h = Mul(x, x)", "e = Gather<axis = 0>(a, nil)  p = Add(e, b)  q = Add(c, d)  y = Add(p, q)", True
    ),
    "before Gather of the second": (
        "h = Mul(x, x)", "e = Gather<axis = 0>(b, nil)  p = Add(a, e)  q = Add(c, d)  y = Add(p, q)", False
    ),
    "before an output": ("h = Mul(x, x)", "y = Identity(a)  p = Add(a, b)  q = Add(c, d)", True),
    "before Squeeze and Concat": (
        "h = Mul(x, x)", "e = Squeeze(a, nil)  f = Concat<axis = 0>(e, e)  p = Add(f, f)  y = Add(b, c)", True
    ),
    "another Split that is like the tree's": (
        "h = Mul(x, x)", "e, f = Split<axis = 0>(h, twos)  g = Gather<axis = 0>(a, nil)  y = Add(e, f)", False
    ),
}  # fmt: skip

CONCATS = {
    "arithmetic": ("h = Mul(x, x)  k = Add(x, x)", "j = Concat<axis=0>(h, k, h)  y = Add(j, third)", False),
    "inputs": ("h = Identity(x)", "j = Concat<axis=0>(h, x, x)  y = Add(j, third)", True),
    "an input and arithmetic": ("h = Mul(x, x)", "j = Concat<axis=0>(x, h, h)  y = Add(j, third)", False),
    "first what is moved": (
        "z = Mul(x, x)  h = Gather<axis=0>(z, four)", "j = Concat<axis=0>(h, z, z)  y = Add(j, third)", True
    ),
    "second what is moved": (
        "z = Mul(x, x)  h = Gather<axis=0>(z, four)", "j = Concat<axis=0>(z, h, h)  y = Add(j, third)", False
    ),
    "before an output": ("h = Mul(x, x)", "y = Concat<axis = 0>(h, h, h)", True),
    "another Concat that is like the tree's": (
        "h = Mul(x, x)", "y = Concat<axis = 0>(h, h, h)  i = Concat<axis = 0>(h, h)  j = Add(i, third)", False
    ),
}  # fmt: skip


def model_with(body: str, dtype: str = "float16") -> onnx.ModelProto:
    """With all values as outputs that no node takes, so that nothing of them goes unseen."""
    model = parse(f"""<ir_version: 8, opset_import: ["": 17]> g ({dtype}[4,6] x) => ({dtype} y) <
        {dtype} third = {{13653}}, int64[1] nil = {{0}},
        int64[1] most = {{9223372036854775807}}, int64[4] four = {{3, 2, 1, 0}},
        int64[2] same = {{4, 6}}, int64[2] turned = {{6, 4}}, int64[4] ones = {{1, 1, 1, 1}},
        int64[2] twos = {{2, 2}}, int64[2] threes = {{3, 3}}
    > {{ {body} }}""")
    used = {name for node in model.graph.node for name in node.input}
    (output,) = model.graph.output
    for node in model.graph.node:
        for name in node.output:
            if name not in used and name != output.name:
                model.graph.output.add().CopyFrom(output)
                model.graph.output[-1].name = name
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def narrowed(model: onnx.ModelProto) -> Rewrite:
    return rewrite(
        model, SplitTree(SplitTreeOptions(max_outputs=2)), ConcatTree(ConcatTreeOptions(max_inputs=2))
    )


def assert_exact(model: onnx.ModelProto, reason: str | None, x: Any = X) -> None:
    result = narrowed(model)
    assert [skip.reason for skip in result.skipped] == ([reason] if reason else [])
    assert len(result.rewritten) == (reason is None)
    for level in LEVELS:
        assert_runs_same(model, result.model, {"x": x}, level)


@pytest.mark.parametrize("case", SPLITS)
def test_split(case: str) -> None:
    before, after, allowed = SPLITS[case]
    model = model_with(f"{before} {CUT} {after}")
    assert_exact(model, None if allowed else SPLIT)
    single = onnx.parser.parse_model(onnx.printer.to_text(model_with(f"{before} {CUT} {after}", "float")))
    if "float16" not in case and "cast" not in case:
        assert len(narrowed(single).rewritten) == 1


@pytest.mark.parametrize("case", CONCATS)
def test_concat(case: str) -> None:
    before, after, allowed = CONCATS[case]
    assert_exact(model_with(f"{before} {after}"), None if allowed else CONCAT)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("where", "case"),
    [
        (SPLITS, "arithmetic"),
        (SPLITS, "the second of a Split alone"),
        (SPLITS, "before Gather of the second"),
        (CONCATS, "arithmetic"),
        (CONCATS, "an input and arithmetic"),
        (CONCATS, "second what is moved"),
    ],
)
def test_what_is_left_alone_would_be_rounded(
    where: dict[str, Any], case: str, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after, _ = where[case]
    model = model_with(f"{before} {CUT if where is SPLITS else ''} {after}")
    monkeypatch.setattr(HalfTrees, "allows_tree", lambda self, node: True)
    result = narrowed(model)
    differ = 0  # of few elements not all runs must
    for factor in range(1, 17):
        feeds = {"x": (X * factor / 3).astype(np.float16)}
        one, other = run(model, feeds, level), run(result.model, feeds, level)
        assert isinstance(one, list)
        assert isinstance(other, list)
        differ += [bits(value) for value in one] != [bits(value) for value in other]
    assert differ


def test_a_function_that_is_given_what_is_not_rounded() -> None:
    for dtype, reason in (("float16", SPLIT), ("float", None)):
        model = parse(f"""<ir_version: 8, opset_import: ["": 17, "l": 1]>
            g ({dtype}[4,6] x) => ({dtype}[1,6] y) {{ h = Mul(x, x)  y = l.F(h) }}
            <domain: "l", opset_import: ["": 17]> F (h) => (y) {{
                ones = Constant<value_ints = [1, 1, 1, 1]>()  {CUT}
                p = Add(a, b)  q = Add(c, d)  y = Mul(p, q)
            }}""")
        assert_exact(model, reason, X.astype(dtype if dtype == "float16" else "float32"))


@pytest.mark.parametrize(
    ("body", "copied"),
    [
        ("y = Sum(x)", True),
        ("t = Transpose(x)  s = Sum(t)  y = Add(s, third)", False),
        ("m = Mul(x, x)  t = Transpose(m)  s = Sum(t)  y = Add(s, third)", False),
        ("m = Mul(x, x)  s = Sum(m)  t = Transpose(s)  y = Add(t, third)", False),
    ],
)
def test_sum_of_one(body: str, copied: bool) -> None:
    model = model_with(body)
    result = rewrite(model, SumToAdd())
    assert [skip.reason for skip in result.skipped] == ([] if copied else [COPY])
    for level in LEVELS:
        assert_runs_same(model, result.model, {"x": X}, level)


@pytest.mark.parametrize("zero", ["nil", "Identity of it"])
def test_sum_with_a_constant_zero_keeps_the_sign_that_it_gives(zero: str) -> None:
    inside = "z = Identity(k)" if zero != "nil" else ""
    model = parse(f"""<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y)
        <float {"k" if inside else "z"} = {{0}}> {{ {inside} y = Sum(x, z, x) }}""")
    result = rewrite(model, SumToAdd())
    assert [skip.reason[:16] for skip in result.skipped] == ["adds a constant "]
    for level in LEVELS:
        assert_runs_same(model, result.model, {"x": np.array([-0.0, 1.0], np.float32)}, level)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_the_demo_model_is_rewritten_whole(dtype: Dtype) -> None:
    model = ir.from_proto(build_model(SMALL, dtype=dtype))
    outcomes = [each(model) for each in (ConcatTree(), SplitTree())]
    assert [(len(outcome.rewritten), len(outcome.skipped)) for outcome in outcomes] == [(4, 0), (59, 0)]


# Property tests


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_float16_graph_keeps_its_bits(data: st.DataObject) -> None:
    pick: Pick = lambda several: data.draw(st.sampled_from(several))  # noqa: E731
    model = model_of(
        random_graph(pick, TensorProto.FLOAT16, 17, sums=False), pick(("main", "main", "function"))
    )
    result = narrowed(model)
    for level in LEVELS:
        assert_runs_same(model, result.model, feeds_of(model), level)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_float16_sum_keeps_its_bits(data: st.DataObject) -> None:
    pick: Pick = lambda several: data.draw(st.sampled_from(several))  # noqa: E731
    model = model_of(random_graph(pick, TensorProto.FLOAT16, 17), "main")
    result = rewrite(model, SumToAdd())
    for level in LEVELS:  # there is nothing that the optimizer fuses with an Add
        assert_runs_same(model, result.model, feeds_of(model), level)


def test_the_random_graphs_have_both() -> None:
    counts: Counter[str] = Counter()
    for seed in range(200):
        order = random.Random(seed)
        graph = random_graph(lambda several, order=order: order.choice(several), TensorProto.FLOAT16, 17)  # type: ignore[misc]
        result = narrowed(model_of(graph, "main"))
        counts["rewritten"] += len(result.rewritten)
        counts.update(skip.reason for skip in result.skipped)
    assert counts["rewritten"] > 50
    assert min(counts[SPLIT], counts[CONCAT]) > 5


def feeds_of(model: onnx.ModelProto) -> dict[str, Any]:
    indices = {name: np.arange(5).reshape(1, 1, 5, 1) for name in ("rows", "columns")}
    feeds = {"x": X, **indices}
    return {value.name: feeds[value.name] for value in model.graph.input}
