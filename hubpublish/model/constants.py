"""Reading what is constant in a graph, and nothing that only looks so."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

_IDENTITY_CHAIN_LIMIT = 1000  # a cycle of Identities would never end

#: The types that the attributes of a Constant have which holds numbers.
_FORMS: Final = {
    "value": ir.AttributeType.TENSOR,
    "value_int": ir.AttributeType.INT,
    "value_ints": ir.AttributeType.INTS,
    "value_float": ir.AttributeType.FLOAT,
    "value_floats": ir.AttributeType.FLOATS,
}


def constant_of(value: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """The array that ``value`` always holds, or None if that is not certain.

    Certain are: an initializer that no caller can override (one that is not a graph input), a
    Constant in any of its forms, and either of them behind any number of Identities. A Constant
    whose attribute refers to a function's attribute is different in each call, so it is not.
    Returns the tensor in its own dtype and shape; strings and sparse values are never returned.
    """
    tensor = constant_tensor_of(value)
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()


def constant_tensor_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """As `constant_of`, without reading the data: for shape and dtype of large weights."""
    value = behind_identities(value)
    if value is None or value.is_graph_input():
        return None
    if value.is_initializer():
        return value.const_value
    producer = value.producer()
    if producer is None or not is_onnx(producer, "Constant") or len(producer.attributes) != 1:
        return None
    if len(producer.outputs) != 1:
        return None
    return _tensor_of_attribute(next(iter(producer.attributes.values())))


def behind_identities(value: ir.Value | None) -> ir.Value | None:
    """The value that ``value`` is a copy of, through any number of Identities."""
    for _ in range(_IDENTITY_CHAIN_LIMIT):
        producer = value.producer() if value is not None else None
        if producer is None or not is_onnx(producer, "Identity") or len(producer.inputs) != 1:
            return value
        value = producer.inputs[0]
    return None


def is_onnx(node: ir.Node | None, *op_types: str) -> bool:
    """Whether ``node`` is one of ONNX's own operators of these types."""
    return node is not None and node.domain == "" and node.op_type in op_types


def _tensor_of_attribute(attribute: ir.Attr) -> ir.TensorProtocol | None:
    if attribute.is_ref() or attribute.type != _FORMS.get(attribute.name):
        return None
    if attribute.name == "value":
        tensor: ir.TensorProtocol = attribute.value  # as_tensor() checks a protocol, which takes 0.1 ms
        return tensor
    if attribute.name in ("value_int", "value_ints"):
        return ir.Tensor(np.array(attribute.value, dtype=np.int64))
    return ir.Tensor(np.array(attribute.value, dtype=np.float32))


def integer_of(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute; the default if it is not there, of another type, or configured by a caller."""
    attribute = node.attributes.get(name)
    if attribute is None or attribute.is_ref() or attribute.type != ir.AttributeType.INT:
        return default
    return int(attribute.value)
