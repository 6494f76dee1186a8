"""Cuts the part of two models in which they differ out of each, as small models with the same boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from hubpublish.model.external import external_path
from hubpublish.verify.runner import Output
from hubpublish.verify.signature import external_location, onnx_type


@dataclass(frozen=True)
class Region:
    """Nodes of the main graph of two models, and the values that cross its boundary in both."""

    before: tuple[onnx.NodeProto, ...]
    after: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def load(path: Path) -> onnx.ModelProto:
    """The model without its external data."""
    return onnx.load(path, format="protobuf", load_external_data=False)


def difference(before: onnx.ModelProto, after: onnx.ModelProto, hops: int = 0) -> Region | None:
    """Where the models differ, widened ``hops`` times by the nodes next to it; None: they do not.

    What a subgraph or function changed shows as the node that holds or calls it.
    """
    removed, added = _unlike(before.graph, after.graph), _unlike(after.graph, before.graph)
    changed = _changed_functions(before, after)
    if changed:
        removed |= {index for index, node in enumerate(before.graph.node) if _calls(node, changed)}
        added |= {index for index, node in enumerate(after.graph.node) if _calls(node, changed)}
    if not removed or not added:
        return None
    for _ in range(hops):
        neighbours = _neighbours(before.graph, removed)
        keys = {_key(before.graph.node[index]) for index in neighbours}
        removed |= neighbours
        added |= {index for index, node in enumerate(after.graph.node) if _key(node) in keys}
    return _region(before.graph, after.graph, removed, added)


def _region(
    before: onnx.GraphProto, after: onnx.GraphProto, removed: set[int], added: set[int]
) -> Region | None:
    inside = [before.node[index] for index in sorted(removed)], [after.node[index] for index in sorted(added)]
    made = [{name for node in nodes for name in node.output if name} for nodes in inside]
    constant = _constants(before) | _constants(after)
    needed = {
        name
        for nodes, own in zip(inside, made, strict=True)
        for node in nodes
        for name in reads(node)
        if name not in own and name not in constant
    }
    wanted = {value.name for value in before.output}
    for graph, indices in ((before, removed), (after, added)):
        wanted.update(
            name for index, node in enumerate(graph.node) if index not in indices for name in reads(node)
        )
    outputs = [name for node in inside[0] for name in node.output if name in wanted & made[1]]
    if not outputs or needed & made[0]:
        return None
    return Region(tuple(inside[0]), tuple(inside[1]), tuple(sorted(needed)), tuple(outputs))


def _key(node: onnx.NodeProto) -> bytes:
    return bytes(node.SerializeToString(deterministic=True))


def _unlike(graph: onnx.GraphProto, other: onnx.GraphProto) -> set[int]:
    """The nodes of ``graph`` that ``other`` does not have."""
    theirs = Counter(_key(node) for node in other.node)
    unlike = set()
    for index, node in enumerate(graph.node):
        key = _key(node)
        if theirs[key]:
            theirs[key] -= 1
        else:
            unlike.add(index)
    return unlike


def _neighbours(graph: onnx.GraphProto, indices: set[int]) -> set[int]:
    """The nodes that give to or take from those at ``indices``, without Constants."""
    inside = [graph.node[index] for index in indices]
    taken = {name for node in inside for name in reads(node)}
    made = {name for node in inside for name in node.output if name}
    return {
        index
        for index, node in enumerate(graph.node)
        if index not in indices
        and node.op_type != "Constant"
        and (not taken.isdisjoint(node.output) or not made.isdisjoint(reads(node)))
    }


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def reads(node: onnx.NodeProto) -> set[str]:
    """The values that the node takes, those that its subgraphs capture included."""
    names = {name for name in node.input if name}
    for body in _bodies(node):
        own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
        for inner in body.node:
            names |= reads(inner) - own
            own.update(inner.output)
        names |= {value.name for value in body.output} - own
    return names


def _constants(graph: onnx.GraphProto) -> set[str]:
    made = {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    return made | {tensor.name for tensor in graph.initializer}


def _changed_functions(before: onnx.ModelProto, after: onnx.ModelProto) -> set[tuple[str, str]]:
    """Functions whose body differs, or that call one."""
    old = {(f.domain, f.name, f.overload): f.SerializeToString(deterministic=True) for f in before.functions}
    changed = {
        (f.domain, f.name)
        for f in after.functions
        if old.get((f.domain, f.name, f.overload)) != f.SerializeToString(deterministic=True)
    }
    for _ in after.functions:
        changed |= {
            (f.domain, f.name) for f in after.functions if any(_calls(node, changed) for node in f.node)
        }
    return changed


def _calls(node: onnx.NodeProto, functions: set[tuple[str, str]]) -> bool:
    if (node.domain, node.op_type) in functions:
        return True
    return any(_calls(inner, functions) for body in _bodies(node) for inner in body.node)


def exposing(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """The model with more outputs; its external data stays where it is."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    there = {value.name for value in model.graph.output}
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    return exposed


def _take_in(tensor: onnx.TensorProto, folder: Path) -> None:
    """Put external data into the tensor itself."""
    location = external_location(tensor)
    if location is None:
        return
    place = {entry.key: entry.value for entry in tensor.external_data}
    with external_path(folder, location).open("rb") as file:
        file.seek(int(place.get("offset", 0)))
        tensor.raw_data = file.read(int(place["length"]) if "length" in place else -1)
    tensor.data_location = onnx.TensorProto.DEFAULT
    tensor.ClearField("external_data")


def cut(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    region: Region,
    captured: Mapping[str, Output],
    folder: Path,
) -> onnx.ModelProto:
    """A model of ``nodes`` alone, with the constants they take, and types as they were at run time.

    Args:
        model: Where the nodes come from.
        nodes: In the order of the model.
        region: Its inputs and outputs.
        captured: The run-time values of both.
        folder: Where the model's external data lies.
    """
    small = onnx.ModelProto()
    small.CopyFrom(model)
    small.ClearField("graph")
    small.graph.name = model.graph.name
    needed = {name for node in nodes for name in reads(node)}
    made = {name for node in nodes for name in node.output}
    constants = [n for n in model.graph.node if n.op_type == "Constant" and needed & set(n.output) - made]
    small.graph.node.extend([*constants, *nodes])
    for tensor in model.graph.initializer:
        if tensor.name in needed:
            small.graph.initializer.add().CopyFrom(tensor)
            _take_in(small.graph.initializer[-1], folder)
    for values, names in ((small.graph.input, region.inputs), (small.graph.output, region.outputs)):
        values.extend(
            onnx.helper.make_tensor_value_info(name, onnx_type(captured[name].dtype), captured[name].shape)
            for name in names
        )
    return small
