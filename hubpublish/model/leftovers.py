"""What a file says and ``onnx_ir`` does not carry: kept beside the graph, and put back when it is saved.

``onnx_ir`` has one object for a value, whatever its name is listed for; it drops what is declared of
names that no value has, and outputs left out at the end of a node (which changes how many parts a
Split has). It adds a ``value_info`` for each initializer, and writes a tensor's metadata twice. A file
that is loaded and saved again should differ in nothing that nobody asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import onnx
import onnx_ir as ir

from hubpublish.model.scopes import RESERVED_NAMES, bodies_of, graph_attributes, scopes

KEY: Final = "hubpublish.leftovers"
VALUE_INFO_IN_FUNCTIONS = 10  # IR version; before, onnx_ir moves it to the main graph


@dataclass
class Leftovers:
    """Of one graph or function.

    Attributes:
        value_info: Declarations that ``onnx_ir`` will not write.
        annotations: Quantization annotations of names that no value of the graph has.
        declared: Initializers that have a ``value_info``.
        interface: Inputs and outputs that are declared in several ways, by field and position.
    """

    value_info: list[onnx.ValueInfoProto] = field(default_factory=list)
    annotations: list[onnx.TensorAnnotation] = field(default_factory=list)
    declared: frozenset[str] = frozenset()
    interface: dict[tuple[str, int], onnx.ValueInfoProto] = field(default_factory=dict)


def remember(proto: onnx.ModelProto, model: ir.Model) -> None:
    """Note in ``model``, just made from ``proto``, what it does not hold of it."""
    for message, graph in _pairs(proto, model):
        if isinstance(message, onnx.GraphProto):
            leftovers = _of_graph(message, graph)
        else:
            leftovers = _of_function(message, graph, proto.ir_version)
        graph.meta[KEY] = leftovers
        # A new value of such a name would be taken for the one that is declared.
        graph.meta[RESERVED_NAMES] = {info.name for info in leftovers.value_info} | {
            each.tensor_name for each in leftovers.annotations
        }
    for tensor in _tensors(model):
        if isinstance(tensor, ir.serde.TensorProtoTensor) and tensor.metadata_props:
            del tensor.raw.metadata_props[:]  # it is written from the object


def restore(proto: onnx.ModelProto, model: ir.Model) -> None:
    """Put into ``proto``, just made from ``model``, what `remember` noted."""
    moved: set[str] = set()
    for message, graph in _pairs(proto, model):
        for node_proto, node in zip(message.node, graph, strict=True):
            if omitted := len(node.outputs) - len(node_proto.output):
                node_proto.output.extend([""] * omitted)
        leftovers = graph.meta.get(KEY)
        if leftovers is None:
            continue
        if isinstance(message, onnx.GraphProto):
            _restore_graph(message, graph, leftovers)
        else:
            _declare(message.value_info, leftovers.value_info)
            moved |= {f"{message.domain}::{message.name}/{info.name}" for info in leftovers.value_info}
    if proto.ir_version < VALUE_INFO_IN_FUNCTIONS and moved:
        moved -= {info.name for info in _leftovers(model.graph).value_info}
        _keep(proto.graph.value_info, (info for info in proto.graph.value_info if info.name not in moved))


def _leftovers(graph: ir.Graph) -> Leftovers:
    found = graph.meta.get(KEY)
    return found if isinstance(found, Leftovers) else Leftovers()


def _of_graph(message: onnx.GraphProto, graph: ir.Graph) -> Leftovers:
    inputs = {info.name for info in message.input}
    outputs = {info.name for info in message.output}
    made = {value.name for node in graph for value in node.outputs}
    constant = set(graph.initializers)
    written = (made | constant) - inputs - outputs
    return Leftovers(
        [info for info in message.value_info if info.name not in written],
        [
            each
            for each in message.quantization_annotation
            if each.tensor_name not in made | inputs | constant or not each.quant_parameter_tensor_names
        ],
        frozenset({info.name for info in message.value_info} & constant),
        _ambiguous(message),
    )


def _of_function(message: onnx.FunctionProto, graph: ir.Graph, ir_version: int) -> Leftovers:
    if ir_version < VALUE_INFO_IN_FUNCTIONS:
        return Leftovers(list(message.value_info))
    written = {value.name for node in graph for value in node.outputs}  # inputs are not even read
    return Leftovers([info for info in message.value_info if info.name not in written])


def _ambiguous(message: onnx.GraphProto) -> dict[tuple[str, int], onnx.ValueInfoProto]:
    """Inputs and outputs whose name is listed more than once: there is one value for all of them."""
    entries = {("input", number): info for number, info in enumerate(message.input)}
    entries |= {("output", number): info for number, info in enumerate(message.output)}
    counts = Counter(info.name for info in entries.values())
    return {place: info for place, info in entries.items() if counts[info.name] > 1}


def _restore_graph(message: onnx.GraphProto, graph: ir.Graph, leftovers: Leftovers) -> None:
    undeclared = set(graph.initializers) - leftovers.declared
    if undeclared:
        _keep(message.value_info, (info for info in message.value_info if info.name not in undeclared))
    _declare(message.value_info, leftovers.value_info)
    for (name, number), info in leftovers.interface.items():
        entries = getattr(message, name)
        if number < len(entries) and entries[number].name == info.name:
            entries[number].CopyFrom(info)
    if message.quantization_annotation or leftovers.annotations:
        each_once = {each.tensor_name: each for each in reversed(message.quantization_annotation)}
        _keep(message.quantization_annotation, reversed(each_once.values()))
        message.quantization_annotation.extend(leftovers.annotations)


def _declare(target: Any, infos: list[onnx.ValueInfoProto]) -> None:
    if infos:
        names = {info.name for info in infos}
        _keep(target, (info for info in target if info.name not in names))
        target.extend(infos)


def _keep(target: Any, messages: Iterable[Any]) -> None:
    kept = list(messages)
    if len(kept) < len(target):
        del target[:]
        target.extend(kept)


def _pairs(
    proto: onnx.ModelProto, model: ir.Model
) -> Iterator[tuple[onnx.GraphProto | onnx.FunctionProto, ir.Graph]]:
    yield from _with_bodies(proto.graph, model.graph)
    for message, function in zip(proto.functions, model.functions.values(), strict=True):
        yield from _with_bodies(message, function.graph)


def _with_bodies(message: Any, graph: ir.Graph) -> Iterator[tuple[Any, ir.Graph]]:
    yield message, graph
    for node_proto, node in zip(message.node, graph, strict=True):
        for attribute in graph_attributes(node):
            (found,) = [each for each in node_proto.attribute if each.name == attribute.name]
            messages = [found.g] if found.type == onnx.AttributeProto.GRAPH else found.graphs
            for body, inner in zip(messages, bodies_of(attribute), strict=not attribute.is_ref()):
                yield from _with_bodies(body, inner)


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for scope in scopes(model):
        for value in scope.graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value
        for node in scope.graph:
            yield from _tensors_in(node.attributes.values())
    for function in model.functions.values():
        yield from _tensors_in(function.attributes.values())


def _tensors_in(attributes: Iterable[ir.Attr]) -> Iterator[ir.TensorProtocol]:
    for attribute in attributes:
        if attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type == ir.AttributeType.TENSOR:
            yield attribute.value  # as_tensor() checks a protocol, which takes 0.1 ms
        elif attribute.type == ir.AttributeType.TENSORS:
            yield from attribute.as_tensors()
