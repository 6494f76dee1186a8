"""The values of what depends on no input, computed by the runtime, and which of them are certain.

ONNX Runtime on the CPU does not round to float16 in between, where it computes in float32: a Cast to
float16 counts only if it loses nothing. A Cast to integers counts if they can hold what they are given:
what else becomes of it depends on the machine, as the bits of a NaN do that is computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from hubpublish.model.constants import behind_identities, constant_tensor_of
from hubpublish.model.external import let_go
from hubpublish.passes.folding.cones import Cones, sources
from hubpublish.passes.folding.evaluation import run_each
from hubpublish.passes.folding.operators import MEASURES
from hubpublish.passes.proofs.certain import Array

IR_VERSION = 10  # of the models that are run
MOST_WORDS = 200  # characters of the runtime's error that a reason repeats

_NOT_COMPUTED: Final = MEASURES | {"Identity"}


@dataclass
class Values:
    """What was computed.

    Attributes:
        arrays: Of each value that was wanted, what it always is.
        computed: Nodes that do not fail.
        refused: Nodes of which it is not certain what they give, and why.
    """

    arrays: dict[ir.Value, Array] = field(default_factory=dict)
    computed: set[ir.Node] = field(default_factory=set)
    refused: dict[ir.Node, str] = field(default_factory=dict)


def compute(cones: Cones, wanted: Collection[ir.Value]) -> Values:
    """Compute the wanted values, each connected part of what they depend on in a model of its own."""
    values = Values({value: known for value in wanted if (known := cones.measured(value)) is not None})
    values.computed.update(node for node in cones.nodes if node.op_type in _NOT_COMPUTED)
    parts = [_Part(nodes, cones, wanted) for nodes in _parts(cones, wanted)]
    results = run_each([(part.model, len(part.outputs)) for part in parts])
    for part, result in zip(parts, results, strict=True):
        if isinstance(result, str):
            values.refused.update(dict.fromkeys(part.nodes, f"cannot be computed: {result[:MOST_WORDS]}"))
        else:
            values.computed.update(part.nodes)
            part.check(dict(zip(part.outputs, result, strict=True)), values)
    return values


def _parts(cones: Cones, wanted: Collection[ir.Value]) -> list[list[ir.Node]]:
    """The nodes that wanted values are computed by, divided into connected parts."""
    needed: set[ir.Node] = set()
    for node in reversed(cones.nodes):
        if node in needed or any(value in wanted for value in node.outputs):
            needed.add(node)
            needed.update(_producers(node))
    parents = {node: node for node in cones.nodes if node in needed and node.op_type not in _NOT_COMPUTED}
    for node in parents:
        for producer in _producers(node):
            if producer in parents:
                parents[_root(producer, parents)] = _root(node, parents)
    parts: dict[ir.Node, list[ir.Node]] = defaultdict(list)
    for node in parents:
        parts[_root(node, parents)].append(node)
    return [*parts.values()]


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    for source in sources(node):
        producer = source.producer()
        if producer is not None:
            yield producer


def _root(node: ir.Node, parents: dict[ir.Node, ir.Node]) -> ir.Node:
    while parents[node] is not node:
        parents[node] = node = parents[parents[node]]
    return node


class _Part:
    """Nodes that depend on each other and on constants, as a model whose values are called by numbers."""

    def __init__(self, nodes: list[ir.Node], cones: Cones, wanted: Collection[ir.Value]) -> None:
        self.nodes = nodes
        self._cones = cones
        self._made = {value for node in nodes for value in node.outputs}
        self._wanted = [value for node in nodes for value in node.outputs if value in wanted]
        checked = [source for node in nodes if node.op_type == "Cast" for source in sources(node)]
        self.outputs = list(dict.fromkeys([*self._wanted, *(each for each in checked if each in self._made)]))

    def model(self) -> bytes:
        """The serialized model; it has no inputs."""
        names: dict[ir.Value, str] = {}
        graph = onnx.GraphProto(name="constants")
        for node in self.nodes:
            proto = graph.node.add(op_type=node.op_type)
            for value in node.inputs:
                source = behind_identities(value)
                proto.input.append("" if source is None else names.setdefault(source, f"v{len(names)}"))
            for value in node.outputs:
                proto.output.append(names.setdefault(value, f"v{len(names)}") if value.name else "")
            attributes = node.attributes.values()
            proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in attributes)
        for value, name in names.items():
            if value not in self._made:
                graph.initializer.append(self._tensor(value, name))
        for value in self.outputs:
            graph.output.add(name=names[value])
        scope = self._cones.scopes[self.nodes[0]]
        model = onnx.ModelProto(ir_version=IR_VERSION, graph=graph)
        model.opset_import.add(domain="", version=scope.opset)
        return bytes(model.SerializeToString())

    def _tensor(self, value: ir.Value, name: str) -> onnx.TensorProto:
        measured = self._cones.measured(value) if value in self._cones.facts else None
        if measured is not None:
            return onnx.numpy_helper.from_array(measured, name)
        tensor = constant_tensor_of(value)
        assert tensor is not None
        made = onnx.TensorProto(
            name=name,
            data_type=tensor.dtype.value,
            dims=tuple(tensor.shape.numpy()),
            raw_data=tensor.tobytes(),
        )
        let_go(tensor)
        return made

    def check(self, found: dict[ir.Value, Array], values: Values) -> None:
        """Put those that are certain into ``values``, in order."""
        for node in self.nodes:
            if any(producer in values.refused for producer in _producers(node)):
                values.refused[node] = "is computed from what may differ between machines or levels"
            elif reason := self._why_not_certain(node, found):
                values.refused[node] = reason
        for value in self._wanted:
            if value.producer() not in values.refused:
                values.arrays[value] = found[value]

    def _why_not_certain(self, node: ir.Node, found: dict[ir.Value, Array]) -> str | None:
        arrays = {value: found[value] for value in node.outputs if value in found}
        for value, array in arrays.items():
            certain = self._cones.facts[value]
            if (certain.dtype, certain.shape) != (ir.DataType.from_numpy(array.dtype), array.shape):
                return "the runtime computes another shape than ONNX says"
        if any(array.dtype.kind == "f" and np.isnan(array).any() for array in arrays.values()):
            return "what is not a number may have other bits on another machine"
        if node.op_type == "Cast":
            (source,) = sources(node)
            to = self._cones.facts[node.outputs[0]].dtype
            assert to is not None
            return _why_cast_is_not_certain(self._array(source, found), to.numpy())
        return None

    def _array(self, value: ir.Value, found: dict[ir.Value, Array]) -> Array:
        known = found.get(value)
        if known is None and value in self._cones.facts:
            known = self._cones.measured(value)
        if known is None:
            tensor = constant_tensor_of(value)
            assert tensor is not None
            known = tensor.numpy()
        return known


def _why_cast_is_not_certain(source: Array, target: np.dtype[Any]) -> str | None:
    """Why a Cast may give something else on another machine, or unrounded, or None if it does not."""
    if source.dtype.kind == "f" and target.kind in "iu":
        least, bits = np.iinfo(target).min, np.iinfo(target).bits
        whole = np.trunc(source.astype(np.float64))
        if not bool(np.all((whole >= least) & (whole < 2.0 ** (bits - (least < 0))))):
            return "casts to integers what they cannot hold, which depends on the machine"
    if target == np.float16:
        with np.errstate(all="ignore"):
            back = source.astype(target).astype(source.dtype)
        if not np.array_equal(back, source):
            return "casts to float16 what it does not hold exactly, and the runtime may not round it"
    return None
