"""What of a model depends on no input: the nodes, in every scope, that always compute the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from hubpublish.model import Scope, scopes
from hubpublish.model.constants import behind_identities, constant_tensor_of
from hubpublish.passes.folding.halves import Halves
from hubpublish.passes.folding.operators import MEASURES, why_not_exact
from hubpublish.passes.proofs.certain import Array, Certain
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.validity import why_not_certain, why_not_onnx

MOST_BYTES = 64 * 2**20  # of a tensor that is read or computed on the way to a smaller one


@dataclass
class Cones:
    """The nodes that depend on no input.

    Attributes:
        nodes: They, each after those that it depends on.
        facts: What is certain of each value that one of them computes.
        refused: Nodes that depend on no input either, and why they are not among them.
        scopes: The scopes of all of these nodes.
        halves: What may be rounded differently without some of them.
    """

    halves: Halves = field(init=False)

    nodes: dict[ir.Node, None] = field(default_factory=dict)
    facts: dict[ir.Value, Certain] = field(default_factory=dict)
    refused: dict[ir.Node, str] = field(default_factory=dict)
    scopes: dict[ir.Node, Scope] = field(default_factory=dict)

    def measured(self, value: ir.Value) -> Array | None:
        """What a Shape certainly gives; None for the values of other nodes."""
        node = value.producer()
        return self.facts[value].values if node is not None and node.op_type in MEASURES else None

    def behind(self, nodes: Iterable[ir.Node]) -> set[ir.Node]:
        """Some of the nodes, and those that they depend on."""
        found: set[ir.Node] = set()
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if node in self.nodes and node not in found:
                found.add(node)
                producers = (value.producer() for value in sources(node))
                pending += [producer for producer in producers if producer is not None]
        return found

    def is_constant(self, value: ir.Value) -> bool:
        """Whether a value, not one behind an Identity, depends on no input."""
        return value in self.facts or constant_tensor_of(value) is not None


def sources(node: ir.Node) -> Iterator[ir.Value]:
    """What a node computes with, Identities left out; nothing where it only measures what it is given."""
    for value in node.inputs if node.op_type not in MEASURES else ():
        source = behind_identities(value)
        if source is not None:
            yield source


def find_cones(model: ir.Model, proofs: Proofs, refused: Mapping[ir.Node, str]) -> Cones:
    """Find them, without computing anything but shapes.

    A Shape is not among them if the runtime may round to float16 differently without it.

    Args:
        model: Its nodes must be in order.
        proofs: Of the model as it is.
        refused: Nodes that are to be left out, and why.
    """
    cones = Cones()
    cones.halves = Halves(model, proofs, cones.is_constant)
    for scope in scopes(model):
        for node in scope.graph:
            if node.op_type == "Constant" or not _depends_on_no_input(node, cones):
                continue
            cones.scopes[node] = scope
            facts = [_facts(value, node, proofs) for value in node.outputs]
            reason = refused.get(node) or why_not_onnx(node, model) or why_not_certain(node, scope, model)
            reason = reason or _why_not(node, facts, proofs, cones.halves)
            if reason is not None:
                cones.refused[node] = reason
                continue
            cones.nodes[node] = None
            cones.facts.update(zip(node.outputs, facts, strict=True))
    return cones


def _facts(value: ir.Value, node: ir.Node, proofs: Proofs) -> Certain:
    known = proofs.of(value)
    if node.op_type in MEASURES and known.values is not None:
        return Certain(ir.DataType.INT64, known.values.shape, known.values)  # whatever is measured
    return known


def bytes_of(certain: Certain) -> int:
    """Bytes of a tensor of which type and shape are certain."""
    assert certain.dtype is not None
    assert certain.shape is not None
    return math.prod(length or 0 for length in certain.shape) * certain.dtype.numpy().itemsize


def _depends_on_no_input(node: ir.Node, cones: Cones) -> bool:
    if node.op_type in MEASURES:
        return True
    given = [behind_identities(value) for value in node.inputs if value is not None]
    return bool(given) and all(value is not None and cones.is_constant(value) for value in given)


def _why_not(node: ir.Node, facts: list[Certain], proofs: Proofs, halves: Halves) -> str | None:
    if proofs.opset_for(node) is None:
        return "is configured by the caller of its function, or of a version that is not known"
    if node.op_type == "Identity":
        return None
    if node.op_type in MEASURES:
        if facts[0].values is None:
            return "the shape that it measures is not certain"
        return (
            None if halves.allow_without(node) else "what it measures may be rounded differently without it"
        )
    given = [proofs.of(value) for value in sources(node)]
    for each in (*given, *facts):
        if each.dtype is None or each.shape is None or None in each.shape:
            return "the type or shape of what it computes is not certain"
    dtypes = frozenset(each.dtype for each in (*given, *facts) if each.dtype is not None)
    if reason := why_not_exact(node, dtypes):
        return reason
    if max(map(bytes_of, (*given, *facts)), default=0) > MOST_BYTES:
        return f"reads or computes more than {MOST_BYTES:,} bytes"
    return None
