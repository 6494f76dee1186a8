from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from hubpublish.model import load
from hubpublish.model.external import let_go
from hubpublish.passes import PASSES
from tests.models.build import parse


def external(folder: Path) -> Path:
    """Two tables that no kernel packs, in a file beside the model."""
    model = parse('<ir_version: 8, opset_import: ["": 17]> g (int64[1] i) => (float[1,512] y) {'
                  "a = Gather (first, i) b = Gather (second, i) y = Add (a, b) }")  # fmt: skip
    for number, name in enumerate(("first", "second")):
        table = np.random.default_rng(number).standard_normal((512, 512)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(table, name))
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx_data")
    return folder / "model.onnx"


def test_no_pass_leaves_external_data_in_memory(tmp_path: Path) -> None:
    model = load(external(tmp_path))
    for each in PASSES.values():
        each()(model)
    tensors = [value.const_value for value in model.graph.initializers.values()]
    external_ones = [each for each in tensors if isinstance(each, ir.ExternalTensor)]
    assert len(external_ones) == 2
    assert [each.raw for each in external_ones] == [None, None]


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    model = load(external(tmp_path))
    tensor = model.graph.initializers["first"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    array = tensor.numpy()
    before = array.copy()
    let_go(tensor)
    assert np.array_equal(array, before)
    assert np.array_equal(tensor.numpy(), before)
