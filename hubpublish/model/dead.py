"""Removing what a rewrite has left without a use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import onnx_ir as ir

from hubpublish.model import leftovers, rewire
from hubpublish.model.constants import is_onnx
from hubpublish.model.scopes import graph_attributes

_Owner: TypeAlias = ir.Node | ir.Value  # a node, or an initializer


def remove_dead(nodes: Iterable[ir.Node]) -> int:
    """Remove those of ``nodes`` that nothing uses, and the constants that nothing but them used.

    A use is one by a node, in whatever graph it is, or as an output of a graph. Constants are initializers
    that are no inputs, and Constants, also behind Identities. Other nodes stay where they are not among
    ``nodes``: they may fail on some input, and would fail no more. So does a node with a body.

    Args:
        nodes: Must not fail where the graph, as it is now, does not.

    Returns:
        How many nodes it removed; the time that takes grows with their inputs and outputs.
    """
    given = list(nodes)
    may_go = set(given)
    uses: dict[_Owner, int] = {}
    dead: dict[_Owner, None] = {}
    pending: list[_Owner] = list(given)
    while pending:
        owner = pending.pop()
        if owner in dead or uses.setdefault(owner, _uses(owner)) or not _is_free(owner):
            continue
        if isinstance(owner, ir.Node) and owner not in may_go and not is_onnx(owner, "Constant", "Identity"):
            continue
        dead[owner] = None
        for value in owner.inputs if isinstance(owner, ir.Node) else ():
            if value is not None:
                source = value.producer() or value
                uses[source] = (uses[source] if source in uses else _uses(source)) - 1
                if not uses[source]:
                    pending.append(source)
    return _remove(dead)


def _outputs(owner: _Owner) -> Sequence[ir.Value]:
    return owner.outputs if isinstance(owner, ir.Node) else [owner]


def _uses(owner: _Owner) -> int:
    return sum(len(value.uses()) for value in _outputs(owner))


def _is_free(owner: _Owner) -> bool:
    """Whether nothing but a use can keep it."""
    if any(value.is_graph_output() for value in _outputs(owner)):
        return False
    if isinstance(owner, ir.Value):
        return owner.is_initializer() and not owner.is_graph_input()
    return owner.graph is not None and not graph_attributes(owner)


def _remove(dead: Iterable[_Owner]) -> int:
    nodes: list[ir.Node] = []
    initializers: dict[ir.Graph, list[str]] = {}
    for owner in dead:
        assert isinstance(owner.graph, ir.Graph)
        if isinstance(owner, ir.Node):
            rewire.detach(owner)
            nodes.append(owner)
        else:
            initializers.setdefault(owner.graph, []).append(owner.name or "")
    rewire.remove(nodes)
    for graph, names in initializers.items():
        annotating = set(annotation_names(graph))
        for name in names:
            if name not in annotating:
                del graph.initializers[name]
    return len(nodes)


def annotation_names(graph: ir.Graph) -> Iterator[str]:
    """Names that quantization annotations give as scales and zero points."""
    made = (value for node in graph for value in node.outputs)
    for value in (*graph.inputs, *graph.initializers.values(), *made):
        yield from value.meta.get("quant_parameter_tensor_names", {}).values()
    found = graph.meta.get(leftovers.KEY)
    for annotation in found.annotations if found is not None else ():
        yield from (entry.value for entry in annotation.quant_parameter_tensor_names)
