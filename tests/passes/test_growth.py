"""What a rewrite takes grows with the nodes, counted in calls of functions, which no busy machine changes."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest

from bench.shapes import SHAPES
from hubpublish.model import load
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


@pytest.mark.parametrize("shape", ["one_of_many", "parallel", "tensors", "branches", "unused"])
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
