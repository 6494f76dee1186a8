"""What the tests know of a graph, counted with plain ``onnx`` and nothing of the package's own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The main graph and the bodies and branches of its nodes, at every depth."""
    pending = [model.graph]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    pending.append(attribute.g)
                pending.extend(attribute.graphs)


def nodes(model: ModelProto) -> list[NodeProto]:
    """Every node, of every graph."""
    assert not model.functions
    return [node for graph in graphs(model) for node in graph.node]


def ops(model: ModelProto) -> Counter[str]:
    """How many nodes there are of each op type."""
    return Counter(node.op_type for node in nodes(model))


def widths(model: ModelProto, op: str) -> Counter[int]:
    """How many Concats there are of so many inputs, or Splits of so many outputs."""
    return Counter(
        len(node.output if op == "Split" else node.input) for node in nodes(model) if node.op_type == op
    )


def wide(model: ModelProto, op: str, limit: int) -> list[int]:
    """The widths over the limit."""
    return sorted(width for width in widths(model, op).elements() if width > limit)


def weights(model: ModelProto) -> Counter[tuple[str, str]]:
    """Every initializer: its name, and the SHA-256 over its type, shape and values."""
    found: Counter[tuple[str, str]] = Counter()
    for graph in graphs(model):
        for tensor in graph.initializer:
            array = onnx.numpy_helper.to_array(tensor)
            digest = hashlib.sha256(f"{tensor.data_type} {array.shape}".encode() + array.tobytes())
            found[tensor.name, digest.hexdigest()] += 1
    return found


def wiring(model: ModelProto) -> Counter[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Every node's op type, inputs and outputs, in whatever order they stand."""
    return Counter((node.op_type, tuple(node.input), tuple(node.output)) for node in nodes(model))


def concat_depth(model: ModelProto, output: str) -> int:
    """The longest chain of Concats that ends in this value of the main graph."""
    makers = {name: node for node in model.graph.node for name in node.output}
    maker = makers.get(output)
    if maker is None or maker.op_type != "Concat":
        return 0
    return 1 + max(concat_depth(model, name) for name in maker.input)
