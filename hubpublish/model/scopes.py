"""Walking a model: every graph that holds nodes, what to call it, and names that are free in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from hubpublish.errors import UnsupportedModelError

ONNX_DOMAIN = ""
ONNX_SPELLINGS: Final = ("", "ai.onnx")  # of the domain of ONNX's own operators
RESERVED_NAMES: Final = (
    "hubpublish.reserved_names"  # in a graph's meta: names that no value has, and none may get
)

GRAPH_TYPES: Final = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True, eq=False)
class Scope:
    """One graph that holds nodes: the main graph, the body of an If, Loop or Scan, or a function.

    Attributes:
        graph: Where the nodes are; for a function its graph.
        label: Such as ``main``, ``main/If_3.then_branch`` or ``local::Block/Loop_0.body``.
        opset: Version of ONNX's own operator set that holds here; None when it is not imported.
        function: The function that the graph is or lies in; None in the main graph and its bodies.
    """

    graph: ir.Graph
    label: str
    opset: int | None
    function: ir.Function | None = None


def node_label(node: ir.Node) -> str:
    """What to call a node: its name, or else its first named output, or else its op type."""
    return node.name or next((value.name for value in node.outputs if value.name), None) or node.op_type


def opset_version(imports: dict[str, int]) -> int | None:
    """The imported version of ONNX's own operator set, under either of its two spellings."""
    return imports.get(ONNX_DOMAIN, imports.get("ai.onnx"))


def scopes(model: ir.Model) -> Iterator[Scope]:
    """Every scope of the model, outer ones before those inside them.

    The main graph comes first with the bodies in it, then each function with the bodies in it.
    """
    yield from _with_bodies(Scope(model.graph, "main", opset_version(model.graph.opset_imports)))
    yield from _of_functions(model)


def _of_functions(model: ir.Model) -> Iterator[Scope]:
    for function in model.functions.values():
        label = f"{function.domain}::{function.name}" + (f":{function.overload}" if function.overload else "")
        yield from _with_bodies(Scope(function.graph, label, opset_version(function.opset_imports), function))


def _with_bodies(scope: Scope) -> Iterator[Scope]:
    yield scope
    for node in scope.graph:
        for attribute in graph_attributes(node):
            for number, body in enumerate(bodies_of(attribute)):
                place = f"{scope.label}/{node_label(node)}.{attribute.name}"
                if attribute.type == ir.AttributeType.GRAPHS:
                    place += f"[{number}]"
                yield from _with_bodies(replace(scope, graph=body, label=place))


def graph_attributes(node: ir.Node) -> list[ir.Attr]:
    """The attributes of a node that hold or stand for graphs."""
    # Of the dict itself: every pass asks every node several times, and a UserDict takes three times as long.
    return [each for each in node.attributes.data.values() if each.type in GRAPH_TYPES]


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs inside a node, such as an If, Loop or Scan."""
    return [body for attribute in graph_attributes(node) for body in bodies_of(attribute)]


def bodies_of(attribute: ir.Attr) -> Sequence[ir.Graph]:
    """The graphs that an attribute holds; none if it only stands for one that a function's caller gives."""
    if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
        return [attribute.as_graph()]
    if attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
        return attribute.as_graphs()
    return []


def ambiguous_name(model: ir.Model) -> str | None:
    """A name that a body gives to a value of its own although it is taken around the body, if there is one.

    ONNX does not allow it, and it is not certain which of the two a runtime takes: ONNX Runtime gives
    a branch of an If the outer value instead of its own initializer if the other branch uses it, so
    that even a change elsewhere may matter. The inputs of a body are safe.
    """
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    return next((name for graph in graphs if (name := _ambiguous_in(graph, set()))), None)


def _ambiguous_in(graph: ir.Graph, outside: set[str]) -> str | None:
    inner = [body for node in graph for body in bodies(node)]
    if not inner and not outside:
        return None
    made = {value.name for node in graph for value in node.outputs if value.name} | set(graph.initializers)
    if clashes := made & outside:
        return min(clashes)
    new = made.union(value.name for value in graph.inputs if value.name) - outside
    outside |= new  # the same set for all bodies: a copy for each would take as long as the graph is large
    found = next((name for body in inner if (name := _ambiguous_in(body, outside))), None)
    outside -= new
    return found


def always_given(attribute: str, function: ir.Function, model: ir.Model) -> bool:
    """Whether an attribute of a function has a default, or is given with a value in every call of it."""
    declared = function.attributes.get(attribute)
    if declared is not None and declared.value is not None:
        return True
    calls = [node for scope in scopes(model) for node in scope.graph if _calls(node, function)]
    return all(attribute in call.attributes and not call.attributes[attribute].is_ref() for call in calls)


def _calls(node: ir.Node, function: ir.Function) -> bool:
    return node.op_identifier() == function.identifier()


def sort_topologically(model: ir.Model) -> bool:
    """Sort the nodes of every scope, in place; returns whether that changed their order.

    With float16 that may change bits, see `passes.sort_topologically`; not if only Casts stand too late.

    Raises:
        UnsupportedModelError: A graph has a cycle.
    """
    if _is_sorted(model.graph, set()) and all(_is_sorted(f.graph, set()) for f in model.functions.values()):
        return False  # to find that out takes a tenth of the time that sorting does
    try:
        with _without_graph_references(model):
            TopologicalSortPass()(model)
    except ValueError as error:
        raise cycle_error() from error
    return True


def cycle_error() -> UnsupportedModelError:
    """What to raise for a graph with a cycle."""
    return UnsupportedModelError(
        "the graph has a cycle, so its nodes have no order in which they can run",
        hint="check the file with onnx.checker.check_model; no runtime can load it",
    )


def _is_sorted(graph: ir.Graph, done: set[ir.Node]) -> bool:
    for node in graph:
        producers = [value.producer() for value in node.inputs if value is not None]
        if any(producer is not None and producer not in done for producer in producers):
            return False
        if not all(_is_sorted(body, done) for body in bodies(node)):
            return False
        done.add(node)
    return True


@contextmanager
def _without_graph_references(model: ir.Model) -> Iterator[None]:
    """Hide attributes that stand for a graph that a function's caller gives: ``onnx_ir`` walks into them."""
    hidden: dict[ir.Node, list[ir.Attr]] = {}
    for scope in _of_functions(model):
        for node in scope.graph:
            attributes = list(node.attributes.values())
            if any(attribute.is_ref() for attribute in graph_attributes(node)):
                hidden[node] = attributes
    for node, attributes in hidden.items():
        for attribute in attributes:
            if attribute.is_ref() and attribute.type in GRAPH_TYPES:
                del node.attributes[attribute.name]
    try:
        yield
    finally:
        for node, attributes in hidden.items():
            node.attributes.clear()
            for attribute in attributes:
                node.attributes.add(attribute)


class FreshNames:
    """Hands out names that no value and no node has in any scope of the model.

    A subgraph sees the values of the graphs around it, so a name that is free in one scope only
    may still capture another's value.
    """

    def __init__(self, model: ir.Model) -> None:
        self._taken: set[str | None] = set()
        for scope in scopes(model):
            self._taken.update(value.name for value in (*scope.graph.inputs, *scope.graph.outputs))
            self._taken.update(scope.graph.initializers)
            self._taken.update(scope.graph.meta.get(RESERVED_NAMES, ()))
            for node in scope.graph:
                self._taken.add(node.name)
                self._taken.update(value.name for value in node.inputs if value is not None)
                self._taken.update(value.name for value in node.outputs)
        self._next: dict[str, int] = {}

    def fresh(self, base: str) -> str:
        """``base_0``, ``base_1``, ...: the first that is free, now taken."""
        number = self._next.get(base, 0)
        while (name := f"{base}_{number}") in self._taken:
            number += 1
        self._next[base] = number + 1
        self._taken.add(name)
        return name
