"""The deformable convolution taken apart, against ONNX Runtime's own DeformConv."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from hubpublish.demo.deformable import DeformShape, deform_conv2d
from hubpublish.demo.graph import GraphBuilder

CHANNELS, CHANNELS_OUT, SIDE = 3, 5, 6


def session(nodes, feeds, outputs, initializers, opset):
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in feeds.items()
    ]
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_equals_deform_conv(kernel):
    taps, random = kernel**2, np.random.default_rng(kernel)
    feeds = {
        "x": random.standard_normal((1, CHANNELS, SIDE, SIDE), dtype=np.float32),
        "offsets": 3 * random.standard_normal((1, 2 * taps, SIDE, SIDE), dtype=np.float32),
        "mask": random.random((1, taps, SIDE, SIDE), dtype=np.float32),
    }
    g = GraphBuilder("fp32", 0)
    ours = deform_conv2d(g, "x", "offsets", "mask", "conv", DeformShape(CHANNELS, SIDE, kernel), CHANNELS_OUT)
    weights = list(g.initializers.values())
    result = session(g.nodes, feeds, [ours], weights, 17).run(None, feeds)[0]

    pad = kernel // 2
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in weights}
    reference = helper.make_node(
        "DeformConv", ["x", "conv.weight", "offsets", "bias", "mask"], ["y"],
        kernel_shape=[kernel, kernel], pads=[pad] * 4,
    )  # fmt: skip
    parameters = [
        g.initializers["conv.weight"],
        onnx.numpy_helper.from_array(arrays["conv.bias"].reshape(-1), "bias"),
    ]
    expected = session([reference], feeds, ["y"], parameters, 19).run(None, feeds)[0]
    np.testing.assert_allclose(result, expected, atol=2e-5)
    assert result.shape == (1, CHANNELS_OUT, SIDE, SIDE)
