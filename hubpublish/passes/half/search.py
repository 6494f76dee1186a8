"""Whether a model has any float16 at all, where it cannot be followed to a single value.

Declared types are no mere claims outside of functions: the runtime refuses a model in which one differs
from what it infers, also of what operators of other domains give.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.scopes import ONNX_SPELLINGS, bodies

#: Parts of the names of attributes that say a type, by its number.
_SAY_TYPES: Final = ("to", "type", "precision")


def may_have_halves(model: ir.Model) -> bool:
    """Whether it is not certain that nothing in the model is float16."""
    for scope in scopes(model):
        values = [*scope.graph.initializers.values(), *_not_inferred(scope.graph, model)]
        if any(_may_be_half(value) for value in values):
            return True
        if any(_says_half(attribute) for node in scope.graph for attribute in node.attributes.values()):
            return True
    return any(
        _says_half(each) for function in model.functions.values() for each in function.attributes.values()
    )


def _not_inferred(graph: ir.Graph, model: ir.Model) -> Iterator[ir.Value]:
    """Values whose types do not follow from those of others."""
    if graph is model.graph:
        yield from graph.inputs
    for node in graph:
        if node.domain in ONNX_SPELLINGS or node.op_identifier() in model.functions:
            continue
        yield from node.outputs
        yield from (value for body in bodies(node) for value in body.inputs)


def _may_be_half(value: ir.Value) -> bool:
    if value.const_value is not None and value.const_value.dtype == ir.DataType.FLOAT16:
        return True
    if value.type is None:
        return value.const_value is None
    inner: ir.TypeProtocol | ir.DataType = value.type
    while not isinstance(inner, ir.DataType):  # a sequence of optional tensors, for example
        inner = inner.elem_type
    return inner in (ir.DataType.FLOAT16, ir.DataType.UNDEFINED)


def _says_half(attribute: ir.Attr) -> bool:
    says_type = any(part in attribute.name for part in _SAY_TYPES)
    if attribute.is_ref() or attribute.value is None:
        return says_type and attribute.type == ir.AttributeType.INT
    if attribute.type == ir.AttributeType.INT:
        return says_type and attribute.value == ir.DataType.FLOAT16
    tensors = {ir.AttributeType.TENSOR: [attribute.value], ir.AttributeType.TENSORS: attribute.value}
    given = tensors.get(attribute.type, [])
    return attribute.type == ir.AttributeType.SPARSE_TENSOR or any(
        tensor.dtype == ir.DataType.FLOAT16 for tensor in given
    )
