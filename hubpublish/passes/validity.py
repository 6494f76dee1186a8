"""What a model must be for a pass to touch it: of a known opset, its nodes as their operator is defined.

A node that no runtime loads must not become one that it does: what fails before a rewrite fails after.
"""

from __future__ import annotations

import functools
from typing import Final

import onnx
import onnx_ir as ir

from hubpublish.errors import UnsupportedModelError
from hubpublish.model.scopes import ONNX_SPELLINGS, Scope

OLDEST_OPSET = 7  # before, Add broadcasts only with attributes that say so
NEWEST_OPSET = 25  # the newest that was tested

_DTYPE_NAMES: Final = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}


def require_supported_opsets(model: ir.Model) -> None:
    """Check the version of ONNX's operator set that the model and its functions import, if they do.

    Raises:
        UnsupportedModelError: It is older than 7 or newer than 25, or imported in two versions.
    """
    imports = [("the model", model.graph.opset_imports)]
    imports += [
        (f"function {each.domain}::{each.name}", each.opset_imports) for each in model.functions.values()
    ]
    for owner, versions in imports:
        opsets = list(dict.fromkeys(versions[domain] for domain in ONNX_SPELLINGS if domain in versions))
        if len(opsets) > 1:
            raise UnsupportedModelError(
                f"{owner} imports opset {opsets[0]} as '' and {opsets[1]} as 'ai.onnx', which are the same",
                hint="keep one of the two imports",
                details={"opset": opsets[0]},
            )
        if opsets and not OLDEST_OPSET <= opsets[0] <= NEWEST_OPSET:
            raise UnsupportedModelError(
                f"{owner} imports opset {opsets[0]}; supported are {OLDEST_OPSET} to {NEWEST_OPSET}",
                hint="convert the model with onnx.version_converter, or export it for another opset",
                details={"opset": opsets[0]},
            )


def why_not_onnx(node: ir.Node, model: ir.Model) -> str | None:
    """Why the node is not ONNX's own operator of that name, or None if it is."""
    if node.domain:
        return f"belongs to domain {node.domain!r}, so what it computes is not known"
    if any((domain, node.op_type, node.overload) in model.functions for domain in ONNX_SPELLINGS):
        return "the model defines a function of its own under this name"
    return None


def why_not_certain(node: ir.Node, scope: Scope, model: ir.Model) -> str | None:
    """Why it is not certain what ONNX's own operators mean here, or None if it is."""
    for domain, name, _ in model.functions:
        # Constants are read and nodes are made of ONNX's operators, whatever the node itself is.
        if domain in ONNX_SPELLINGS and onnx.defs.has(name):
            return f"the model defines a function of its own as ONNX's {name}"
    if scope.opset is None:
        return "the scope imports no version of ONNX's operator set"
    if node.device_configurations:
        return "is spread over devices by its device configuration, which parts of it would not have"
    return why_not_valid(node, scope.opset)


def why_not_valid(node: ir.Node, opset: int) -> str | None:
    """Why the node is not as ONNX defines its operator, or None if nothing is wrong with it.

    Looks at the number of inputs and outputs, at attributes, and at the declared types of inputs.
    """
    schema = _schema(node.op_type, opset)
    if schema is None:
        return f"opset {opset} has no operator {node.op_type}"
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        return f"has {len(node.inputs)} inputs, which {node.op_type} of opset {opset} does not allow"
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        return f"has {len(node.outputs)} outputs, which {node.op_type} of opset {opset} does not allow"
    return _why_not_attributes(node, schema, opset) or _why_not_types(node, schema, opset)


@functools.cache
def _schema(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _why_not_attributes(node: ir.Node, schema: onnx.defs.OpSchema, opset: int) -> str | None:
    for attribute in node.attributes.values():
        expected = schema.attributes.get(attribute.name)
        internal = attribute.name.startswith("__")  # ONNX Runtime lets these pass
        if expected is None and not internal:
            return f"has an attribute {attribute.name!r}, which {node.op_type} of opset {opset} does not have"
        if expected is not None and str(expected.type) != f"AttrType.{attribute.type.name}":
            return f"its attribute {attribute.name!r} is of type {attribute.type.name}, which is not valid"
    missing = [
        name for name, each in schema.attributes.items() if each.required and name not in node.attributes
    ]
    return f"has no attribute {missing[0]!r}, which {node.op_type} needs" if missing else None


def _why_not_types(node: ir.Node, schema: onnx.defs.OpSchema, opset: int) -> str | None:
    for number, value in enumerate(node.inputs):
        parameter = schema.inputs[min(number, len(schema.inputs) - 1)]
        if value is None or not isinstance(value.type, ir.TensorType):
            continue
        name = _DTYPE_NAMES.get(value.type.dtype, value.type.dtype.name.lower())
        if f"tensor({name})" not in parameter.types:
            return (
                f"input {value.name!r} is of type {name}, which {node.op_type} of opset {opset} does not take"
            )
    return None
