"""Graphs of about as many nodes as asked for, in the shapes that a rewrite may be slow on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx
from onnx import helper

from hubpublish.demo.backbone import Backbone
from hubpublish.demo.config import Dtype, ModelConfig
from hubpublish.demo.deformable import aspp
from hubpublish.demo.graph import GraphBuilder
from hubpublish.demo.model import IR_VERSION, OPSET
from hubpublish.demo.patch_grid import patch_grid

WIDE = 12  # inputs of a Concat and outputs of a Split that is too wide for every device


def _model(g: GraphBuilder, shape: tuple[int, ...], outputs: list[str]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", g.float_type, shape)]
    free = [None] * len(shape)
    results = [helper.make_tensor_value_info(name, g.float_type, free) for name in outputs]
    graph = helper.make_graph(g.nodes, "bench", inputs, results, list(g.initializers.values()))
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def demo(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """The demo's backbone, a patch grid and a pyramid of deformable convolutions, again and again."""
    g = GraphBuilder(dtype, 0)
    backbone = Backbone(g, ModelConfig(128, 12, (2, 2, 2, 2), window=3, inner=16, aspp=32, edge=8))
    ends = []
    for number in range(max(1, nodes // 2000)):
        feature = backbone("x", 128)[-1]
        ends += [patch_grid(g, "x", 4, 32), aspp(g, feature, f"aspp{number}", (96, 4), 4)]
    return _model(g, (1, 3, 128, 128), ends)


def deformable(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Deformable convolutions taken apart, four and their average at a time."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    while len(g.nodes) < nodes:
        x = aspp(g, x, f"block{len(g.nodes)}", (4, 4), 8)
    return _model(g, (1, 4, 8, 8), [x])


def patch_grids(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Many images cut into 4 x 4 pieces."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    while len(g.nodes) < nodes:
        x = g.view(patch_grid(g, x, 4, 4), 1, 3, 16, 16)
    return _model(g, (1, 3, 16, 16), [x])


def chain(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """One node after another, and all of them share two constants."""
    g = GraphBuilder(dtype, 0)
    shared = [g.weight("a", (4,), 0.1), g.number(2)]
    x = "x"
    for number in range(nodes):
        x = g.op("Relu", x) if number % 3 == 0 else g.op(("Add", "Mul")[number % 2], x, shared[number % 2])
    return _model(g, (1, 4), [x])


def movers(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """One node after another that only moves elements."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    while len(g.nodes) < nodes:
        x = g.op("Identity", g.transpose(g.op("Reshape", x, g.ints(2, 2)), 1, 0))
    return _model(g, (2, 2), [x])


def wide(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """A Split, Concat and Sum that are too wide, again and again."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    while len(g.nodes) < nodes:
        parts = g.op_many("Split", x, outputs=WIDE, axis=1)
        parts[0] = g.op("Relu", parts[0])
        parts[1] = g.op("Sum", *parts[2:8])
        x = g.op("Concat", *parts, axis=1)
    return _model(g, (1, WIDE), [x])


def parallel(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """As many Sums beside one another, each of which is an output of the model."""
    g = GraphBuilder(dtype, 0)
    return _model(g, (1, 4), [g.op("Sum", "x", g.op("Relu", "x"), "x") for _ in range(nodes // 2)])


def one_of_many(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """One Split into many parts, one Concat of them, and one Sum of what each computes."""
    g = GraphBuilder(dtype, 0)
    count = nodes // 2
    joined = g.op("Concat", *g.op_many("Split", "x", outputs=count, axis=1), axis=1)
    total = g.op("Sum", *(g.op("Relu", joined) for _ in range(count)))
    return _model(g, (1, count), [total])


def many_to_one(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Many Sums, each of which a pass replaces, and one Concat of them all."""
    g = GraphBuilder(dtype, 0)
    return _model(g, (1, 4), [g.op("Concat", *(g.op("Sum", "x", "x") for _ in range(nodes)), axis=1)])


def constants(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """What depends on no input: short chains of integers, each used once."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    while len(g.nodes) < nodes:
        size = g.dims((g.floor_div(g.op("Mul", g.integer(2), g.integer(4)), 2), 1))
        x = g.op("Add", x, g.op("Cast", size, to=g.float_type))
    return _model(g, (1, 2), [x])


def long_cone(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """What depends on no input: one long chain, of which every tenth node is used."""
    g = GraphBuilder(dtype, 0)
    x, value = "x", g.ints(1, 2)
    while len(g.nodes) < nodes:
        for _ in range(10):
            value = g.op("Add", value, g.integer(1))
        x = g.op("Add", x, g.op("Cast", value, to=g.float_type))
    return _model(g, (1, 2), [x])


def weights(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Twice as many initializers as nodes; each is there several times, and every second is not used."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    for number in range(nodes):
        values = np.full((4, 4), number // 2, np.float32)
        g.initializer(f"unused{number}", values)
        x = g.op("MatMul", x, g.initializer(f"w{number}", values))
    return _model(g, (1, 4), [x])


def tensors(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Constants of a few elements and of many, and one Concat of as many constants as there are nodes."""
    g = GraphBuilder(dtype, 0)
    x, parts = "x", []
    for number in range(nodes // 5):
        x = g.op("Add", x, g.const(np.full((1, 16), number, np.float32)))
        x = g.op("Mul", x, g.number(number))
        parts.append(g.op("Mul", g.ints(number), g.ints(2)))
    sizes = g.op("Cast", g.op("ReduceSum", g.op("Concat", *parts, axis=0)), to=g.float_type)
    return _model(g, (1, 16), [g.op("Add", x, sizes)])


def branches(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Ifs one after another, each with two bodies."""
    g = GraphBuilder(dtype, 0)
    x, condition = "x", g.const(np.array(True))
    while len(g.nodes) * 7 < nodes:
        bodies = {}
        for name in ("then_branch", "else_branch"):
            prefix = f"{name}{len(g.nodes)}"
            body = [
                helper.make_node("Relu", [x], [f"{prefix}_a"], name=f"{prefix}_relu"),
                helper.make_node("Sum", [x, f"{prefix}_a", x], [f"{prefix}_b"], name=f"{prefix}_sum"),
                helper.make_node("Identity", [f"{prefix}_b"], [f"{prefix}_c"], name=f"{prefix}_end"),
            ]
            end = helper.make_tensor_value_info(f"{prefix}_c", g.float_type, [None, None])
            bodies[name] = helper.make_graph(body, prefix, [], [end])
        x = g.op("If", condition, **bodies)
    return _model(g, (1, 4), [x])


def unused(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """A long chain, a Concat of many and as many nodes beside one another that nothing uses."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    for _ in range(nodes // 3):
        x = g.op("Relu", x)
    g.op("Concat", *(g.op("Neg", "x") for _ in range(nodes // 3)), axis=0)
    for _ in range(nodes // 3):
        g.op("Abs", "x")
    return _model(g, (1, 4), [g.op("Relu", "x")])


def backwards(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """A chain whose nodes stand last before first."""
    model = chain(nodes, dtype)
    reverse = list(reversed(model.graph.node))
    del model.graph.node[:]
    model.graph.node.extend(reverse)
    return model


def grids_of_bases(nodes: int, dtype: Dtype = "fp32") -> onnx.ModelProto:
    """Large constants that consist of small ones, as the places of deformable convolutions do."""
    g = GraphBuilder(dtype, 0)
    x = "x"
    for number in range(nodes // 20):
        rows = np.broadcast_to(np.arange(128, dtype=np.float32)[:, None] + number, (256, 128, 1))
        constant = g.initializer(f"places{number}", np.ascontiguousarray(rows))
        for _ in range(20):
            x = g.op("Add", x, constant)
    return _model(g, (1, 128, 1), [x])


SHAPES: Final[dict[str, Callable[..., onnx.ModelProto]]] = {
    each.__name__: each
    for each in (
        *(demo, deformable, patch_grids, chain, movers, wide, parallel, one_of_many, many_to_one),
        *(constants, long_cone, weights, tensors, branches, unused, backwards, grids_of_bases),
    )
}
