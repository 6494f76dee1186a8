"""Counting a graph: op types, the widest nodes, bytes of weights and constants."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from hubpublish.model.scopes import opset_version, scopes


class GraphStatistics(BaseModel):
    """What a model consists of, over the main graph, every body and every function.

    ``ops`` maps op types to counts (``domain::Type`` outside ONNX's own domain), most frequent
    first; ``initializer_bytes`` and ``constant_bytes`` are sizes of the tensors in bytes;
    ``half_precision`` says whether any tensor is float16.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    opset: int | None
    ir_version: int
    nodes: int
    ops: dict[str, int]
    initializers: int
    initializer_bytes: int
    constant_bytes: int
    half_precision: bool


def op_name(node: ir.Node) -> str:
    """``Type``, or ``domain::Type`` for an operator that is not ONNX's own."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def graph_statistics(model: ir.Model) -> GraphStatistics:
    """Count a model; nothing is loaded from external data."""
    every = list(scopes(model))
    nodes = [node for scope in every for node in scope.graph]
    values = [value for scope in every for value in scope.graph.initializers.values()]
    initializers = [value.const_value for value in values if value.const_value is not None]
    constants = [tensor for node in nodes if op_name(node) == "Constant" for tensor in _tensors_of(node)]
    ops = Counter(op_name(node) for node in nodes)
    return GraphStatistics(
        opset=opset_version(model.graph.opset_imports),
        ir_version=model.ir_version,
        nodes=len(nodes),
        ops=dict(sorted(ops.items(), key=lambda item: (-item[1], item[0]))),
        initializers=len(initializers),
        initializer_bytes=sum(tensor.nbytes for tensor in initializers),
        constant_bytes=sum(tensor.nbytes for tensor in constants),
        half_precision=any(tensor.dtype == ir.DataType.FLOAT16 for tensor in (*initializers, *constants))
        or any(_casts_to_half(node) for node in nodes)
        or any(value.dtype == ir.DataType.FLOAT16 for value in model.graph.inputs),
    )


def _tensors_of(node: ir.Node) -> list[ir.TensorProtocol]:
    return [
        attribute.value  # as_tensor() checks a protocol, which takes 0.1 ms
        for attribute in node.attributes.values()
        if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref()
    ]


def _casts_to_half(node: ir.Node) -> bool:
    to = node.attributes.get("to")
    return op_name(node) == "Cast" and to is not None and not to.is_ref() and to.value == ir.DataType.FLOAT16
