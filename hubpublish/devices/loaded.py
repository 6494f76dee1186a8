"""What a runtime leaves of a graph when it loads it: the part that decides what runs where.

ONNX Runtime optimizes a graph before it assigns nodes to execution providers: what depends on constants
alone is folded, nodes that change nothing go, and of nodes that compute the same one stays. Fusions and
changes of the layout are not followed: they change how many nodes there are, on the CPU too (the shape of
a Reshape that becomes a constant, a Gather after a Shape), and neither what is on which side nor what is
copied.
Source: measured with onnxruntime 1.32 (``optimized_model_filepath``), default optimization level.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from hubpublish.devices.tensors import Tensors
from hubpublish.model import Scope, constant_of, scopes, sort_topologically
from hubpublish.model.constants import constant_tensor_of, integer_of, is_onnx
from hubpublish.model.scopes import bodies, cycle_error

NOT_FOLDED: Final = frozenset(
    """
    Bernoulli DequantizeLinear DynamicQuantizeLinear If Loop Multinomial QuantizeLinear RandomNormal
    RandomNormalLike RandomUniform RandomUniformLike Scan
    """.split()  # noqa: SIM905
)
MOST_INLINED: Final = 50_000  # nodes that the calls of functions may become, with what a call itself costs
CALL_COST: Final = 100  # nodes that are walked in the time that one call takes
SHARED_ELEMENTS: Final = 8  # constants of so many elements are equal if their values are

Key = tuple[object, ...]


@dataclass
class Loaded:
    """A model as a runtime sees it once it is loaded.

    Attributes:
        model: The model, or a copy with its functions inlined, where they can be, and its nodes sorted.
        live: The nodes that are left, each with its scope, in an order in which they can run.
        folded, merged, dropped: How many others are gone, for which reason.
        constants: Values that do not depend on an input.
    """

    model: ir.Model
    tensors: Tensors
    live: list[tuple[ir.Node, Scope]] = field(default_factory=list)
    folded: int = 0
    merged: int = 0
    dropped: int = 0
    constants: set[ir.Value] = field(default_factory=set)
    _same: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def inputs(self, node: ir.Node) -> list[ir.Value | None]:
        """A node's inputs, each as the one of several equal values that is left."""
        return [value and self._same.get(value, value) for value in node.inputs]

    def source(self, value: ir.Value) -> ir.Value:
        """The value that stands for this one."""
        return self._same.get(value, value)


def load_like_a_runtime(model: ir.Model) -> Loaded:
    """Work out what is left of a model; the model itself is not changed.

    Raises:
        UnsupportedModelError: A graph has a cycle.
    """
    prepared = _prepared(model)
    loaded = Loaded(prepared, Tensors(prepared))
    for scope in scopes(prepared):
        _Loading(loaded, scope).run()
    return loaded


def _prepared(model: ir.Model) -> ir.Model:
    if not model.functions or not _may_be_inlined(model):
        return model
    copy = ir.from_proto(ir.to_proto(model))  # a clone cannot be made of an unsorted model
    sort_topologically(copy)
    try:
        InlinePass()(copy)
    except (RuntimeError, ir.passes.InvariantError, ValueError):
        return model  # of other opsets, for example: what a call stands for is then not known
    return copy


def _may_be_inlined(model: ir.Model) -> bool:
    """Whether the functions, put in the place of their calls, make a model of a size that is worth it."""
    sizes: dict[ir.OperatorIdentifier, int] = {}  # nodes that a call becomes

    def expanded(graph: ir.Graph, above: tuple[ir.OperatorIdentifier, ...]) -> int:
        total = 0
        for node in graph.all_nodes():
            key, total = node.op_identifier(), total + 1
            if key not in model.functions:
                continue
            if key in above:
                return MOST_INLINED + 1  # calls itself
            if key not in sizes:
                sizes[key] = expanded(model.functions[key].graph, (*above, key))
            total += sizes[key] + CALL_COST
            if total > MOST_INLINED:
                break
        return total

    return expanded(model.graph, ()) <= MOST_INLINED


def in_order(graph: ir.Graph) -> list[ir.Node]:
    """The nodes of a graph in an order in which they can run: their own, if that is one.

    Raises:
        UnsupportedModelError: There is none.
    """
    nodes = list(graph)
    number = {node: index for index, node in enumerate(nodes)}
    needed = [{number[each] for each in _producers(node) if each in number} for node in nodes]
    if all(not wants or max(wants) < index for index, wants in enumerate(needed)):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for index, wants in enumerate(needed):
        for each in wants:
            readers[each].append(index)
    open_ = [len(wants) for wants in needed]
    ready = [index for index, count in enumerate(open_) if not count]
    order = []
    while ready:
        current = heapq.heappop(ready)
        order.append(nodes[current])
        for reader in readers[current]:
            open_[reader] -= 1
            if not open_[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        raise cycle_error()
    return order


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes whose results a node and the graphs inside it read."""
    values = [value for value in node.inputs if value is not None]
    for body in bodies(node):
        values += [value for inner in body.all_nodes() for value in inner.inputs if value is not None]
        values += list(body.outputs)
    for value in values:
        if (producer := value.producer()) is not None:
            yield producer


class _Loading:
    """One scope. A body comes after the graph around it, so what it takes from there is known."""

    def __init__(self, loaded: Loaded, scope: Scope) -> None:
        self._to = loaded
        self._scope = scope
        self._outputs = set(scope.graph.outputs)
        self._seen: dict[Key, ir.Node] = {}

    def run(self) -> None:
        loaded = self._to
        loaded.constants.update(
            value for value in self._scope.graph.initializers.values() if not value.is_graph_input()
        )
        for node in in_order(self._scope.graph):
            if self._is_folded(node):
                loaded.folded += 1
                loaded.constants.update(node.outputs)
            elif self._is_dropped(node):
                loaded.dropped += 1
            elif self._is_merged(node):
                loaded.merged += 1
            else:
                loaded.live.append((node, self._scope))

    def _is_folded(self, node: ir.Node) -> bool:
        if is_onnx(node, "Constant"):
            return True
        if is_onnx(node, "Shape") and self._is_static(node):
            return True
        if node.op_type in NOT_FOLDED or node.domain or bodies(node):
            return False
        return all(value is None or value in self._to.constants for value in self._to.inputs(node))

    def _is_static(self, node: ir.Node) -> bool:
        """Whether what a Shape gives is known."""
        value = node.inputs[0] if node.inputs else None
        # A runtime takes lengths that the file declares as they are.
        shape = self._to.tensors.believed_shape(value) if value is not None else None
        if shape is None:
            return False
        start, end = integer_of(node, "start", 0), integer_of(node, "end", len(shape))
        return None not in shape[start:end]

    def _is_dropped(self, node: ir.Node) -> bool:
        """Whether the node gives its first input as it is."""
        if not node.outputs or node.outputs[0] in self._outputs or not node.inputs or node.inputs[0] is None:
            return False
        if not self._changes_nothing(node):
            return False
        self._to._same[node.outputs[0]] = self._to.source(node.inputs[0])
        return True

    def _changes_nothing(self, node: ir.Node) -> bool:
        value = node.inputs[0]
        assert value is not None
        match node.op_type if not node.domain else "":
            case "Identity":
                return True
            case "Dropout":
                return not any(each.uses() for each in node.outputs[1:])
            case "Cast":
                dtype = self._to.tensors.dtype(value)
                return dtype is not None and dtype == integer_of(node, "to", 0)
            case "Add" | "Sub":
                return self._is_neutral(node, 0)
            case "Mul" | "Div":
                return self._is_neutral(node, 1)
        return False

    def _is_neutral(self, node: ir.Node, neutral: int) -> bool:
        """Whether the second input is a constant of one element, the neutral one, which adds no axis."""
        value, other = (*node.inputs, None, None)[:2]
        tensor = constant_tensor_of(other)
        if value is None or tensor is None or tensor.size != 1:
            return False
        shape, values = self._to.tensors.shape(value), constant_of(other)
        if shape is None or values is None or len(tensor.shape) > len(shape):
            return False
        return bool(np.all(values == neutral))

    def _is_merged(self, node: ir.Node) -> bool:
        """Whether another node of this scope computes the same; its outputs stand for this one's then."""
        if node.op_type in NOT_FOLDED or bodies(node) or self._outputs.intersection(node.outputs):
            return False
        attributes = tuple(sorted((name, _written(each)) for name, each in node.attributes.items()))
        named = tuple(bool(value.name) for value in node.outputs)
        key = (node.domain, node.op_type, node.overload, attributes, named, *map(self._key, node.inputs))
        twin = self._seen.setdefault(key, node)
        if twin is node:
            return False
        pairs = zip(node.outputs, twin.outputs, strict=True)
        self._to._same.update((mine, self._to.source(its)) for mine, its in pairs)
        return True

    def _key(self, value: ir.Value | None) -> object:
        """Equal for values that are the same."""
        if value is None:
            return None
        value = self._to.source(value)
        if value in self._to.constants:
            known = self._to.tensors.proofs.of(value)
            if known.values is not None and known.values.size <= SHARED_ELEMENTS:
                return (known.values.dtype.str, known.values.shape, known.values.tobytes())
        return value


def _written(attribute: ir.Attr) -> object:
    if attribute.type in (ir.AttributeType.TENSOR, ir.AttributeType.SPARSE_TENSOR):
        return id(attribute.value)
    return repr(attribute.value)
