"""A model with the shape of BiRefNet_lite and random weights, to rewrite, verify and publish.

The structure is that of onnx-community/BiRefNet_lite-ONNX as PyTorch exports it: about 16,400 nodes of which
three quarters fold, a window-attention backbone used twice with shared weights, four patch grids, and
twenty deformable convolutions. What it computes is noise, but noise that depends on its input.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from hubpublish.demo.backbone import Backbone
from hubpublish.demo.config import FULL, Dtype, ModelConfig
from hubpublish.demo.decoder import Decoder, merge_scales
from hubpublish.demo.graph import GraphBuilder

OPSET = 17
IR_VERSION = 8
INPUT, OUTPUT = "input_image", "output_image"


def build_model(config: ModelConfig = FULL, *, dtype: Dtype = "fp32", seed: int = 0) -> onnx.ModelProto:
    """Build the model; the same arguments give the same bytes.

    Args:
        config: Sizes. The default takes 180 MB of weights and, to run at 1024 x 1024, 6 to 9 GiB.
        dtype: Precision of the weights. Input and output are float32 in both.
        seed: Seed of the weights.

    Returns:
        ``input_image`` [1, 3, size, size] -> ``output_image`` [1, 1, size, size], logits.
    """
    g = GraphBuilder(dtype, seed)
    image = INPUT if dtype == "fp32" else g.op("Cast", INPUT, to=TensorProto.FLOAT16)
    logits = _forward(g, image, config)
    if dtype == "fp32":
        _rename_output(g, logits, OUTPUT)
    else:
        _rename_output(g, g.op("Cast", logits, to=TensorProto.FLOAT), OUTPUT)
    size = config.size
    graph = helper.make_graph(
        g.nodes, "main_graph",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, 1, size, size])],
        list(g.initializers.values()),
    )  # fmt: skip
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="hubpublish-demo"
    )


def _forward(g: GraphBuilder, image: str, config: ModelConfig) -> str:
    half = [g.floor_div(g.size(image, axis), 2) for axis in (2, 3)]
    backbone = Backbone(g, config)
    fine = backbone(image, config.size)
    coarse = backbone(g.resize(image, g.dims(half)), config.size // 2)
    return Decoder(g, config, image)(merge_scales(g, fine, coarse, config))


def _rename_output(g: GraphBuilder, name: str, new_name: str) -> None:
    producer = next(node for node in reversed(g.nodes) if name in node.output)
    producer.output[list(producer.output).index(name)] = new_name
