"""Splits without sizes that ONNX Runtime takes for one: left alone, so that bits stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from hubpublish.passes.merged_splits import REASON, MergedSplits
from hubpublish.passes.patch_grid import PatchGrid, PatchGridOptions
from hubpublish.passes.sort_topologically import SortTopologically
from hubpublish.passes.split_tree import SplitTree, SplitTreeOptions
from tests.models.build import Level, assert_runs_same, bits, parse, rewrite, run

LEVELS: tuple[Level, ...] = ("disabled", "default")
FEEDS: dict[str, Any] = {"x": np.arange(12, dtype=np.float32).reshape(6, 2)}

MERGED = {
    "of the same": "h = Mul(x, x)  a, b = Split<axis=0>(h)  c, d, e = Split<axis=0>(h)",
    "behind an Identity": "h = Mul(x, x)  i = Identity(h)  a, b = Split(i)  c, d, e = Split(h)",
    "of what is computed twice": "h = Mul(x, x)  i = Mul(x, x)  a, b = Split(i)  c, d, e = Split(h)",
    "of an input": "a, b = Split<axis=0>(x)  c, d, e = Split<axis=0>(x)",
}
APART = {
    "of others": "h = Mul(x, x)  i = Add(x, x)  a, b = Split<axis=0>(i)  c, d, e = Split<axis=0>(h)",
    "along other axes": "h = Mul(x, x)  a, b = Split<axis=1>(h)  c, d, e = Split<axis=0>(h)",
    "of known sizes": "h = Mul(x, x)  a, b = Split<axis=0>(h, halves)  c, d, e = Split<axis=0>(h)",
    "in as many parts": "h = Mul(x, x)  a, b, f = Split<axis=0>(h)  c, d, e = Split<axis=0>(h)",
}


def model_of(splits: str, after: str = "y = Add(a, b)  p = Add(c, d)  z = Mul(p, e)") -> onnx.ModelProto:
    model = parse(f"""<ir_version: 8, opset_import: ["": 17]> g (float[6,2] x) => (float y, float z)
        <int64[2] halves = {{3, 3}}> {{ {splits}  {after} }}""")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("case", MERGED)
def test_left_alone(case: str) -> None:
    model = model_of(MERGED[case])
    result = rewrite(model, SplitTree(SplitTreeOptions(max_outputs=2)))
    assert [skip.reason for skip in result.skipped] == [REASON]
    for level in LEVELS:
        assert_runs_same(model, result.model, FEEDS, level)


@pytest.mark.parametrize("case", ["of the same", "behind an Identity", "of what is computed twice"])
def test_the_runtime_is_wrong_there(case: str) -> None:
    model = model_of(MERGED[case])
    before, after = (run(model, FEEDS, level) for level in LEVELS)
    assert isinstance(before, list)
    assert isinstance(after, list)
    assert [bits(value) for value in before] != [bits(value) for value in after]


@pytest.mark.parametrize("case", APART)
def test_rewritten_where_nothing_is_merged(case: str) -> None:
    model = model_of(APART[case])
    result = rewrite(model, SplitTree(SplitTreeOptions(max_outputs=2)))
    assert len(result.rewritten) in (1, 2)
    assert not result.skipped
    for level in LEVELS:
        assert_runs_same(model, result.model, FEEDS, level)


def test_a_grid_of_one_is_left_alone() -> None:
    model = model_of(MERGED["of the same"], "y = Add(a, b)  z = Concat<axis=1>(c, d, e)")
    result = rewrite(model, PatchGrid(PatchGridOptions(min_pieces=2)))
    assert [skip.reason for skip in result.skipped] == [REASON]
    for level in LEVELS:
        assert_runs_same(model, result.model, FEEDS, level)
    apart = model_of(APART["along other axes"], "y = Add(a, b)  z = Concat<axis=1>(c, d, e)")
    assert rewrite(apart, PatchGrid(PatchGridOptions(min_pieces=2))).rewritten


def test_since_opset_18_none_are_merged() -> None:
    text = onnx.printer.to_text(model_of(MERGED["of the same"]))
    text = text.replace('"" : 17', '"" : 18').replace("a, b = Split <", "a, b = Split <num_outputs=2, ")
    later = ir.from_proto(onnx.parser.parse_model(text.replace("e = Split <", "e = Split <num_outputs=3, ")))
    assert not any(node in MergedSplits(later) for node in later.graph)


@pytest.mark.parametrize(
    "each", [SplitTree(SplitTreeOptions(max_outputs=2)), PatchGrid(PatchGridOptions(min_pieces=2))]
)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_they_are_found_whatever_order_the_nodes_are_in(each: Any, is_sorted: bool) -> None:
    """What a pass has to know of the model it finds out after it has put the nodes in order."""
    identities = ["i = Identity(x)", "j = Identity(i)"]
    identities = identities if is_sorted else identities[::-1]
    body = "  ".join(["p, q = Split<axis=0>(x)", *identities, "a, b, c = Split<axis=0>(j)"])
    model = parse(f"""<ir_version: 8, opset_import: ["": 13]> g (float[6,2] x) => (float[3,2] u, float[2,6] v)
        {{ {body}  u = Relu(p)  v = Concat<axis=1>(a, b, c) }}""")
    result = rewrite(model, each)
    assert not result.rewritten
    assert [skip.reason for skip in result.skipped] == [REASON]
    in_order = rewrite(model, SortTopologically()).model  # as the runtime wants them
    for level in LEVELS:
        assert_runs_same(in_order, result.model, FEEDS, level)
