"""ONNX's own node tests through every pass: the outputs that ONNX expects, and the runtime's bits."""

from __future__ import annotations

import copy
import functools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

from hubpublish.errors import UnsupportedModelError
from hubpublish.passes import PASSES
from hubpublish.passes.validity import NEWEST_OPSET, OLDEST_OPSET
from tests.models.build import Failure, Level, bits, nodes, rewrite, run

from .lowest import NOT_EXACT_OPTIMIZED, lowest

KINDS: Final = ("node", "simple", "pytorch-operator", "pytorch-converted")
TARGETS: Final = frozenset(
    {"Concat", "DeformConv", "GatherND", "GridSample", "ScatterElements", "ScatterND", "Split", "Sum"}
)
#: At least so many nodes must each pass rewrite, so that nothing is tested that does not happen.
AT_LEAST: Final = {
    "concat_tree": 400,
    "lift_constants": 1000,
    "remove_unused": 200,
    "split_tree": 22,
    "sum_to_add": 9,
}
LEFT_ALONE: Final = {"its sizes are computed at run time"}


@dataclass(frozen=True)
class Case:
    """A model with inputs, and the outputs that ONNX expects."""

    name: str
    model: onnx.ModelProto
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@functools.cache
def all_cases() -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX computes the expected outputs of its tests, some of them NaN
        found = [each for kind in KINDS for each in load_model_tests(kind=kind)]
    return [Case(e.name, e.model, e.data_sets, e.rtol, e.atol) for e in found if e.model is not None]


def opset_of(model: onnx.ModelProto) -> int:
    return max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)


def ops_of(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in nodes(model) if node.domain in ("", "ai.onnx")}


# The nodes of the tests are narrow. They become wide by cutting what they join, and joining what they cut.


def widened(case: Case) -> Case | None:
    """The case with its one Concat or Split replaced by one of single slices; None if it has no such."""
    if len(case.model.graph.node) != 1 or not OLDEST_OPSET <= opset_of(case.model) <= NEWEST_OPSET:
        return None
    model = copy.deepcopy(case.model)
    (node,) = model.graph.node
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    if node.op_type == "Concat":
        cuts = list(_cut(node.input, shapes, axis, model))
        pieces = [name for each in cuts for name in each.output]
        replacement = [*cuts, helper.make_node("Concat", pieces, node.output, axis=axis)]
    elif node.op_type == "Split" and all(shapes[name][axis] for name in node.output):
        (cut,) = _cut(node.input[:1], shapes, axis, model)
        piece = iter(cut.output)
        parts = [[next(piece) for _ in range(shapes[name][axis])] for name in node.output]
        joins = zip(parts, node.output, strict=True)
        replacement = [cut, *(helper.make_node("Concat", part, [name], axis=axis) for part, name in joins)]
    else:
        return None
    del model.graph.node[:]
    model.graph.node.extend(replacement)
    return Case(f"{case.name} in slices", model, case.data, case.rtol, case.atol)


def _cut(
    names: Any, shapes: dict[str, list[int]], axis: int, model: onnx.ModelProto
) -> Iterator[onnx.NodeProto]:
    for name in names:
        length = shapes[name][axis]
        pieces = [f"{name}_{number}" for number in range(length)]
        sizes = [1] * length
        if opset_of(model) < 13:
            yield helper.make_node("Split", [name], pieces, axis=axis, split=sizes)
        else:
            tensor = numpy_helper.from_array(np.array(sizes, np.int64), f"{name}_sizes")
            model.graph.initializer.append(tensor)
            yield helper.make_node("Split", [name, tensor.name], pieces, axis=axis)


def check(case: Case, names: Iterable[str]) -> list[tuple[str, str]]:
    """Rewrite by these passes and compare; pass and node of all that was rewritten."""
    result = rewrite(case.model, *(lowest(name) for name in names))
    did = [(outcome.name, each.node) for outcome in result.outcomes for each in outcome.rewritten]
    left = {(skip.node, skip.reason) for skip in result.skipped if skip.op in ("Concat", "Split", "Sum")}
    assert {reason for _, reason in left} <= LEFT_ALONE
    assert sum(is_wide(node) for node in nodes(result.model)) == len(left)
    if result.model == case.model:
        assert not did
        return did
    not_exact = NOT_EXACT_OPTIMIZED & {name for name, _ in did}
    levels: list[Level] = ["disabled"] if not_exact else ["disabled", "default"]
    for inputs, expected in case.data:
        feeds = dict(zip([value.name for value in case.model.graph.input], inputs, strict=False))
        for level in levels:
            assert_same_bits(case.model, result.model, feeds, level)
        before = reference(case.model, feeds)
        if before is not None and is_similar(expected, before, case):
            after = reference(result.model, feeds)
            assert after is not None, "onnx.reference does not run it"
            assert is_similar(expected, after, case), "other outputs than ONNX expects"
    return did


def is_wide(node: onnx.NodeProto) -> bool:
    """Whether it is a node that a pass with the lowest limits is to replace."""
    if node.domain not in ("", "ai.onnx"):
        return False
    wide = {"Concat": len(node.input) > 2, "Split": len(node.output) > 2, "Sum": True}
    return wide.get(node.op_type, False)


def assert_same_bits(
    before: onnx.ModelProto, after: onnx.ModelProto, feeds: dict[str, Any], level: Level
) -> None:
    one, other = run(before, feeds, level), run(after, feeds, level)
    if isinstance(one, Failure):  # among others at operators that the runtime does not have
        assert isinstance(other, Failure), f"only the original fails: {one.message}"
        return
    assert not isinstance(other, Failure), f"only the rewritten fails: {other.message}"
    assert [bits_of(value) for value in other] == [bits_of(value) for value in one], f"other bits ({level})"


def bits_of(value: Any) -> Any:
    return [bits_of(each) for each in value] if isinstance(value, list) else bits(value)


def reference(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any] | None:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs: list[Any] = ReferenceEvaluator(model).run(None, feeds)  # type: ignore[assignment]
    except Exception:  # it has no operators of other domains, and more that it lacks
        return None
    return outputs


def is_similar(expected: list[Any], outputs: list[Any], case: Case) -> bool:
    try:
        Runner.assert_similar_outputs(expected, outputs, case.rtol, case.atol)
    except (AssertionError, AttributeError, TypeError):
        return False
    return True


def run_all(cases: Iterable[Case], names: Iterable[str]) -> tuple[Counter[str], dict[str, str]]:
    """How many nodes each pass rewrote, and what went wrong, by case."""
    did: Counter[str] = Counter()
    failed: dict[str, str] = {}
    for case in cases:
        try:
            did.update(name for name, _ in check(case, names))
        except UnsupportedModelError:
            if OLDEST_OPSET <= opset_of(case.model) <= NEWEST_OPSET:
                failed[case.name] = "was refused"
        except AssertionError as error:
            failed[case.name] = str(error)[:500]
    return did, failed


def assert_at_least(counts: Counter[str], least: dict[str, int]) -> None:
    assert {name: min(counts[name], number) for name, number in least.items()} == least


COSTLY = ("fold_constants", "static_shape")


def test_every_node_test_through_every_pass() -> None:
    """But for those that start a process for each model."""
    counts, failed = run_all(all_cases(), [name for name in PASSES if name not in COSTLY])
    assert not failed
    assert_at_least(counts, AT_LEAST)


def test_some_node_tests_with_folded_constants() -> None:
    found = [case for case in all_cases() if ops_of(case.model) & TARGETS]
    counts, failed = run_all(found[::8], PASSES)
    assert not failed
    assert_at_least(counts, {"fold_constants": 10})


def test_the_same_nodes_when_they_are_wide() -> None:
    found = [wide for case in all_cases() if (wide := widened(case)) is not None]
    assert len(found) >= 20
    for names in (["concat_tree", "split_tree"], ["split_tree", "concat_tree", "lift_constants"]):
        counts, failed = run_all(found, names)
        assert not failed
        assert_at_least(counts, {"concat_tree": 20, "split_tree": 14})


def test_what_onnx_has_of_the_operators() -> None:
    """So that a case that is renamed, or not found any more, does not go unnoticed."""
    counts = Counter(op for case in all_cases() for op in ops_of(case.model) & TARGETS)
    assert len(all_cases()) >= 1800
    assert_at_least(counts, {"Concat": 200, "Split": 25, "Sum": 7, "GatherND": 3, "ScatterND": 7,
                             "ScatterElements": 7, "GridSample": 18, "DeformConv": 4})  # fmt: skip
