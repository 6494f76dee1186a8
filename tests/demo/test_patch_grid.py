"""The patch grid against its formula."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from hubpublish.demo.graph import GraphBuilder
from hubpublish.demo.patch_grid import patch_grid


@pytest.mark.parametrize("grid", [1, 4, 8])
def test_stacks_the_pieces_column_by_column(grid):
    side = 3
    image = np.arange(3 * (grid * side) ** 2, dtype=np.float32).reshape(1, 3, grid * side, grid * side)
    g = GraphBuilder("fp32", 0)
    output = patch_grid(g, "image", grid, side)
    graph = helper.make_graph(
        g.nodes, "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, image.shape)],
        [onnx.helper.make_empty_tensor_value_info(output)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    pieces = image.reshape(3, grid, side, grid, side).transpose(3, 1, 0, 2, 4)
    expected = pieces.reshape(1, grid**2 * 3, side, side)
    np.testing.assert_array_equal(session.run(None, {"image": image})[0], expected)
