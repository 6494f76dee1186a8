"""Putting a constant into a graph, as what the graph can hold; what constants and nodes take in a file."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import onnx
import onnx_ir as ir

from hubpublish.model import Scope
from hubpublish.model.constants import constant_tensor_of
from hubpublish.model.scopes import GRAPH_TYPES
from hubpublish.passes.lift_constants import INITIALIZERS_ALONE
from hubpublish.passes.tidy import INITIALIZER

_CONSTANT_BYTES = 34  # most that the fields of a Constant take beside its tensor and its names
_ATTRIBUTE_BYTES = 9  # least that those of an attribute take beside its tensor and its name


class Store:
    """Adds constants to the scopes of a model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model

    def kind(self, scope: Scope) -> str:
        """``initializer``, or ``Constant`` in functions and in models whose initializers must be inputs."""
        return "Constant" if scope.function or self._model.ir_version < INITIALIZERS_ALONE else INITIALIZER

    def add(
        self, array: npt.NDArray[Any], name: str, scope: Scope, before: ir.Node, label: str | None
    ) -> ir.Value:
        """Add a constant to a scope.

        Args:
            array: Its elements.
            name: What it is called.
            scope: Where it goes.
            before: The node of the scope in front of which a Constant goes.
            label: What a Constant is called.
        """
        tensor, value = ir.Tensor(array), ir.Value(name=name)
        if self.kind(scope) == INITIALIZER:
            value.const_value, value.shape, value.type = tensor, tensor.shape, ir.TensorType(tensor.dtype)
            scope.graph.register_initializer(value)
        else:
            attributes = [ir.AttrTensor("value", tensor)]
            constant = ir.Node("", "Constant", [], attributes, outputs=[value], name=label)
            scope.graph.insert_before(before, constant)
        return value

    def size(
        self,
        dtype: ir.DataType,
        shape: tuple[int, ...],
        nbytes: int,
        name: str,
        scope: Scope,
        label: str | None,
    ) -> int:
        """The most bytes of a file that a constant takes, if it is added like that."""
        size = _tensor_size(dtype, shape, nbytes, name)
        return size if self.kind(scope) == INITIALIZER else size + _CONSTANT_BYTES + _length(label)


def node_size(node: ir.Node) -> int:
    """The least bytes of a file that a node takes; of a Constant without its tensor."""
    given = ["" if value is None else value.name for value in node.inputs]
    names = (node.op_type, node.name or None, *given, *(value.name for value in node.outputs))
    size = 2 + sum(2 + _length(name) for name in names if name is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.TENSOR:
            size += _ATTRIBUTE_BYTES + _length(attribute.name)
        elif attribute.type not in GRAPH_TYPES:
            size += 2 + int(ir.serde.serialize_attribute(attribute).ByteSize())
    return size


def constant_size(value: ir.Value) -> int:
    """The least bytes of a file that an initializer or a Constant takes, the same before and after saving."""
    node, tensor = value.producer(), constant_tensor_of(value)
    size = 0 if node is None else node_size(node)
    if tensor is None or (node is not None and "value" not in node.attributes):
        return size
    if isinstance(tensor, ir.serde.TensorProtoTensor):
        return size + int(tensor.raw.ByteSize())
    name = value.name if node is None else None
    return size + _tensor_size(tensor.dtype, tuple(tensor.shape.numpy()), tensor.nbytes, name)


def _tensor_size(dtype: ir.DataType, shape: tuple[int, ...], nbytes: int, name: str | None) -> int:
    """Bytes of a tensor in a file; its name counts even if it is empty."""
    fields: int = onnx.TensorProto(data_type=dtype.value, dims=shape, name=name).ByteSize()
    return 1 + _varint(fields + nbytes) + fields + 1 + _varint(nbytes) + nbytes


def _varint(number: int) -> int:
    """Bytes of a length as protobuf writes it."""
    return max(1, -(-number.bit_length() // 7))


def _length(name: str | None) -> int:
    return len((name or "").encode())
