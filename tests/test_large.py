"""What a rewrite has in memory of a model whose weights lie in a file beside it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from hubpublish.devices import PROFILES, Device
from hubpublish.inspection import Auto
from hubpublish.passes import PASSES
from hubpublish.rewrite import Passes, rewrite
from tests.models.build import parse

LAYERS, EDGE = 8, 1024
TABLE_BYTES = EDGE * EDGE * 4


def layered(folder: Path) -> Path:
    """Layers that multiply by a table, or look up in one what is certain or given; two are there twice."""
    layers, last = [], "x"
    for layer in range(LAYERS):
        kind = (f"MatMul ({last}, w{layer})", f"Gather (w{layer}, row)", f"Gather (w{layer}, given)")[
            layer % 3
        ]
        parts = ", ".join(f"p{layer}_{part}" for part in range(8))
        layers.append(
            f"m{layer} = {kind} s{layer} = Sum (m{layer}, {last}, {last}) "
            f"{parts} = Split <axis = 1> (s{layer}) y{layer} = Concat <axis = 1> ({parts})"
        )
        last = f"y{layer}"
    model = parse(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[1,{EDGE}] x, int64[1] given) '
        f"=> (float[1,{EDGE}] {last}) <int64[1] row = {{7}}> {{ {' '.join(layers)} }}"
    )
    for layer in range(LAYERS):
        table = np.random.default_rng(layer % (LAYERS - 2)).standard_normal((EDGE, EDGE))
        model.graph.initializer.append(numpy_helper.from_array(table.astype(np.float32), f"w{layer}"))
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.onnx_data")
    return path


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of external data are mapped, each time that some more are."""
    found: list[int] = []
    seen: set[ir.ExternalTensor] = set()
    load = ir.ExternalTensor._load

    def loaded(tensor: ir.ExternalTensor) -> None:
        load(tensor)
        seen.add(tensor)
        found.append(sum(each.nbytes for each in seen if each.raw is not None))

    monkeypatch.setattr(ir.ExternalTensor, "_load", loaded)
    return found


@pytest.mark.parametrize("passes", [Auto(), [each() for each in PASSES.values()]], ids=["auto", "every pass"])
def test_a_rewrite_has_one_external_tensor_at_a_time_in_memory(
    tmp_path: Path, passes: Passes | Auto, mapped: list[int]
) -> None:
    source = layered(tmp_path)
    tracemalloc.start()
    try:
        done = rewrite(source, tmp_path / "out.onnx", passes, Device(PROFILES["webgpu-min"]))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert any(outcome.rewritten for outcome in done.outcomes)
    assert done.saved.data is not None
    assert max(mapped) == TABLE_BYTES
    assert most < LAYERS * TABLE_BYTES / 2
