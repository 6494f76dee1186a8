from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest

from hubpublish.passes import PASSES
from tests.models.build import (
    Failure,
    Rewrite,
    assert_same,
    bits,
    nodes,
    op_counts,
    random_feeds,
    rewrite,
    run,
)

FOLDER = Path(__file__).parents[1] / "models" / "cases"
CASES: dict[str, dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text())
CRASHES_THE_RUNTIME = {"r10_split_omitted_outputs"}
# r01 splits 20 into 9 parts of ceil(20 / 9) = 3, so that the last would be negative.
FAILS_AT_RUN_TIME = {"p05_x_too_large_now_silent", "r01_split_num_outputs", "r08_custom_domain"}
TARGETS = ("Concat", "Split", "Sum", "GatherND")


def is_target(node: onnx.NodeProto) -> bool:
    """Whether the node is of a kind that a pass rewrites: wide ones, and those without a kernel."""
    if node.op_type == "Concat":
        return len(node.input) > 6
    if node.op_type == "Split":
        return len(node.output) > 5
    return node.op_type in ("Sum", "GatherND")


def rewritten(name: str) -> tuple[onnx.ModelProto, Rewrite]:
    model = onnx.load(FOLDER / f"{name}.onnx")
    return model, rewrite(model, *(each() for each in PASSES.values() if each.by_default))


def feeds_of(name: str, model: onnx.ModelProto) -> dict[str, Any]:
    given = CASES[name].get("feeds")
    if given is None:
        return random_feeds(model)
    shapes = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    return {
        # A nested list cannot say how long the axes inside an empty one are.
        key: np.array(each["value"], dtype=each["dtype"]).reshape(
            [dim.dim_value if dim.HasField("dim_value") else -1 for dim in shapes[key]]
        )
        for key, each in given.items()
    }


def test_there_are_seventeen() -> None:
    assert len(CASES) == 17
    assert {f"{name}.onnx" for name in CASES} == {path.name for path in FOLDER.glob("*.onnx")}


@pytest.mark.parametrize("name", sorted(CASES))
def test_comes_out_as_written(name: str) -> None:
    model, result = rewritten(name)
    before = [node for node in nodes(model, *TARGETS) if is_target(node)]
    after = [node for node in nodes(result.model, *TARGETS) if is_target(node)]
    assert before
    expected = CASES[name]["expect"]
    if expected.startswith("rewritten"):
        assert not after
        assert len(result.rewritten) >= len(before)
        # What one pass leaves alone another may rewrite.
        assert {skip.node for skip in result.skipped} <= set(result.rewritten)
    elif expected.startswith("left alone"):
        assert [node.SerializeToString() for node in after] == [node.SerializeToString() for node in before]
        assert {skip.node for skip in result.skipped} == labels(before)
        assert all(skip.reason and skip.scope for skip in result.skipped)
    else:
        assert "identical" in expected
    assert {skip.node for skip in result.skipped} - set(result.rewritten) == labels(after)


def labels(found: list[onnx.NodeProto]) -> set[str]:
    return {node.name or node.output[0] for node in found}


@pytest.mark.parametrize("name", sorted(set(CASES) - CRASHES_THE_RUNTIME))
@pytest.mark.parametrize("seed", [0, 1])
def test_outputs_are_identical(name: str, seed: int) -> None:
    model, result = rewritten(name)
    feeds = feeds_of(name, model) if seed == 0 or "feeds" in CASES[name] else random_feeds(model, seed)
    assert isinstance(run(model, feeds), Failure) == (name in FAILS_AT_RUN_TIME)
    assert_same(model, result.model, feeds)


def test_omitted_outputs_come_out_right() -> None:
    model, result = rewritten("r10_split_omitted_outputs")
    feeds = random_feeds(model)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)  # the runtime crashes on it
    assert all(all(node.output) for node in nodes(result.model, "Split"))  # else this one would crash, too
    outputs = run(result.model, feeds)
    assert not isinstance(outputs, Failure), outputs
    assert [bits(value) for value in outputs] == [bits(value) for value in expected]
    assert op_counts(result.model)["Split"] > 1


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_second_time_changes_nothing(name: str) -> None:
    _, once = rewritten(name)
    twice = rewrite(once.model, *(each() for each in PASSES.values() if each.by_default))
    assert twice.model.SerializeToString() == once.model.SerializeToString()
    assert not twice.rewritten
