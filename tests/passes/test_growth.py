"""What a rewrite takes grows with the nodes, counted in calls of functions, which no busy machine changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from bench.shapes import SHAPES
from hubpublish.model import load
from hubpublish.model.rewire import Rewiring
from hubpublish.passes import PASSES

FEW, TIMES = 150, 3


def calls_of(source: Path, name: str) -> int:
    model, calls = load(source), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    each = PASSES[name]()
    sys.setprofile(count)
    try:
        each(model)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("shape", ["one_of_many", "many_to_one", "parallel", "tensors", "branches", "unused"])
def test_every_pass_takes_time_that_grows_with_the_nodes(shape: str, tmp_path: Path) -> None:
    sources, sizes = [tmp_path / "few.onnx", tmp_path / "many.onnx"], []
    for source, nodes in zip(sources, (FEW, FEW * TIMES), strict=True):
        model = SHAPES[shape](nodes)
        onnx.save(model, source)
        sizes.append(model.ByteSize())
    more = sizes[1] / sizes[0]
    for name in PASSES:
        few, many = (calls_of(source, name) for source in sources)
        assert many / few < 1.15 * more, (name, few, many)


def test_a_wide_node_is_not_copied_for_each_node_that_is_replaced_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ir.from_proto(SHAPES["many_to_one"](FEW))
    (concat,) = (node for node in model.graph if node.op_type == "Concat")
    held, replace = [concat.inputs], Rewiring.replace

    def replace_and_look(self: Rewiring, new: Mapping[ir.Value, ir.Value]) -> None:
        replace(self, new)
        if concat.inputs is not held[-1]:
            held.append(concat.inputs)

    monkeypatch.setattr(Rewiring, "replace", replace_and_look)
    assert len(PASSES["sum_to_add"]()(model).rewritten) == FEW
    assert len(held) == 2
    assert isinstance(concat.inputs, tuple)
    assert {value.producer().op_type for value in concat.inputs} == {"Add"}
