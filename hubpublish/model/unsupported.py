"""What ``onnx_ir`` drops without a word when it reads a model: such models are refused by name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir
from google.protobuf.unknown_fields import UnknownFieldSet

from hubpublish.errors import UnsupportedModelError

DEVICES_SINCE_IR = 11  # IR version; before, a model has no device configurations
NAMED = 10  # so many findings the message names; the details hold all

SPARSE: Final = "make sparse tensors dense"
TRAINING: Final = "export the model for inference"
TYPES: Final = "convert the model so that it has tensors and sequences only"
DEVICES: Final = "raise the model's IR version to 11"
NEWER: Final = "install a newer version of the onnx package"
INVALID: Final = "check the file with onnx.checker.check_model"

Finding = tuple[str, str]  # what there is, and what to do about it

_A = onnx.AttributeProto
_NOTHING_INSIDE: Final = frozenset({_A.INT, _A.FLOAT, _A.STRING, _A.INTS, _A.FLOATS, _A.STRINGS})
_DTYPES: Final = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}


def refuse(proto: onnx.ModelProto, path: Path) -> None:
    """Raise if the model has anything that would be lost, in any scope.

    That is: sparse tensors, training information, values of map and opaque types, initializers
    without a name, attributes and tensors without a type, tensors of a negative shape, in two places
    or without all of their data, two attributes or functions of one name, device configurations in
    an IR version without them, and fields that this version of ``onnx`` does not know.

    Raises:
        UnsupportedModelError: With the names of what it has.
    """
    found = list(_in_model(proto))
    if not found:
        return
    names = [what for what, _ in found]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    raise UnsupportedModelError(
        f"the model has what would be lost in a rewrite: {', '.join(names[:NAMED])}{more}",
        where=str(path),
        hint="; ".join(dict.fromkeys(hint for _, hint in found)),
        details={"found": names},
    )


def _in_model(model: onnx.ModelProto) -> Iterator[Finding]:
    yield from _unknown(model, "the model")
    yield from _in_graph(model.graph, "main")
    names = [f"{f.domain}::{f.name}" + (f":{f.overload}" if f.overload else "") for f in model.functions]
    for function, name in zip(model.functions, names, strict=True):
        yield from _in_function(function, name)
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{count} functions named {name}", INVALID
    if model.training_info:
        yield f"training_info ({len(model.training_info)})", TRAINING
    if model.ir_version < DEVICES_SINCE_IR:
        sharded = any(node.device_configurations for node in _all_nodes(model))
        if model.configuration or sharded:
            yield f"device configurations in IR version {model.ir_version}", DEVICES


def _all_nodes(model: onnx.ModelProto) -> Iterator[Any]:
    yield from model.graph.node
    for function in model.functions:
        yield from function.node


def _in_graph(graph: onnx.GraphProto, scope: str) -> Iterator[Finding]:
    yield from _unknown(graph, scope)
    for sparse in graph.sparse_initializer:
        yield f"sparse initializer {sparse.values.name!r} in {scope}", SPARSE
    for number, tensor in enumerate(graph.initializer):
        if not tensor.name:
            yield f"initializer {number} in {scope}, which has no name", INVALID
        yield from _in_tensor(tensor, f"initializer {tensor.name!r} in {scope}")
    yield from _in_values((*graph.input, *graph.output, *graph.value_info), scope)
    yield from _in_nodes(graph.node, scope)


def _in_function(function: onnx.FunctionProto, name: str) -> Iterator[Finding]:
    yield from _unknown(function, name)
    yield from _in_values(function.value_info, name)
    yield from _in_nodes(function.node, name)
    yield from _in_attributes(function.attribute_proto, name)
    for attribute in function.attribute_proto:
        if attribute.type in (_A.GRAPH, _A.GRAPHS):
            yield f"default graph of attribute {attribute.name!r} of {name}", "give the graph in each call"


def _in_nodes(nodes: Iterable[Any], scope: str) -> Iterator[Finding]:
    for node in nodes:
        if UnknownFieldSet(node) or node.attribute:
            label = f"{scope}/{node.name or ','.join(node.output)}"
            yield from _unknown(node, label)
            yield from _in_attributes(node.attribute, label)


def _in_attributes(attributes: Iterable[Any], label: str) -> Iterator[Finding]:
    names = set()
    for attribute in attributes:
        place = f"{label}.{attribute.name}"
        if attribute.name in names:
            yield f"a second attribute {place}", INVALID
        names.add(attribute.name)
        yield from _unknown(attribute, place)
        if attribute.type not in _NOTHING_INSIDE and not attribute.ref_attr_name:
            yield from _in_attribute(attribute, place)


def _in_attribute(attribute: onnx.AttributeProto, place: str) -> Iterator[Finding]:
    if attribute.type == _A.UNDEFINED:
        yield f"attribute {place} without a type", INVALID
    elif attribute.type in (_A.SPARSE_TENSOR, _A.SPARSE_TENSORS):
        yield f"sparse tensor {place}", SPARSE
    elif attribute.type in (_A.TENSOR, _A.TENSORS):
        for tensor in [attribute.t] if attribute.type == _A.TENSOR else attribute.tensors:
            yield from _in_tensor(tensor, f"tensor {place}")
    elif attribute.type == _A.GRAPH:
        yield from _in_graph(attribute.g, place)
    elif attribute.type == _A.GRAPHS:
        for number, body in enumerate(attribute.graphs):
            yield from _in_graph(body, f"{place}[{number}]")
    elif attribute.type in (_A.TYPE_PROTO, _A.TYPE_PROTOS):
        for type_ in [attribute.tp] if attribute.type == _A.TYPE_PROTO else attribute.type_protos:
            yield from _in_type(type_, f"type {place}")


def _in_tensor(tensor: onnx.TensorProto, label: str) -> Iterator[Finding]:
    if tensor.data_type not in _DTYPES:
        yield f"{label} of element type {tensor.data_type}, which is not known", NEWER
    if any(length < 0 for length in tensor.dims):
        yield f"{label} of the shape {list(tensor.dims)}", INVALID
    keys = [entry.key for entry in tensor.external_data]
    if len(set(keys)) < len(keys):
        yield f"{label} with its place given twice", INVALID
    if not _is_whole(tensor):
        yield f"{label} whose data does not fit its type and shape {list(tensor.dims)}", INVALID


def _is_whole(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor in the file has as much data as its shape takes; nothing is said of other ones."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.data_type not in _DTYPES:
        return True
    dtype = ir.DataType(tensor.data_type)
    count = math.prod(tensor.dims)
    if dtype != ir.DataType.STRING and tensor.HasField("raw_data"):
        return bool(len(tensor.raw_data) == math.ceil(count * dtype.bitwidth / 8))
    field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        count *= 2
    elif field == "int32_data" and dtype.bitwidth < 8:
        count = math.ceil(count * dtype.bitwidth / 8)
    return bool(len(getattr(tensor, field)) == count)


def _in_values(values: Iterable[Any], scope: str) -> Iterator[Finding]:
    for value in values:
        yield from _unknown(value, f"{value.name!r} in {scope}")
        yield from _in_type(value.type, f"value {value.name!r} in {scope}")


def _in_type(type_: onnx.TypeProto, label: str) -> Iterator[Finding]:
    kind = type_.WhichOneof("value")
    if kind in ("map_type", "opaque_type"):
        yield f"{label} of {kind.removesuffix('_type')} type", TYPES
    elif kind in ("sequence_type", "optional_type"):
        yield from _in_type(getattr(type_, kind).elem_type, label)


def _unknown(message: Any, label: str) -> Iterator[Finding]:
    if fields := sorted({field.field_number for field in UnknownFieldSet(message)}):
        yield f"fields {fields} of {label}, which are not known", NEWER
