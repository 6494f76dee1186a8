"""Giving nodes other inputs, and removing nodes, in time that grows with what changes.

``onnx_ir`` makes a new tuple of all inputs of a node for each that it replaces, and looks through all outputs
of a graph for each value that it replaces and each call that removes nodes. A Concat of 10,000 inputs then
takes as long as 100 million nodes that have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

NARROW = 64  # inputs; of nodes with more, all that change are replaced at once


def replace_uses(new: Mapping[ir.Value, ir.Value]) -> None:
    """Give each node that uses a key of ``new`` its value instead; outputs of graphs stay as they are."""
    wide: dict[ir.Node, dict[int, ir.Value | None]] = {}
    for old, value in new.items():
        for node, index in old.uses():
            if len(node.inputs) > NARROW:
                wide.setdefault(node, {})[index] = value
            else:
                node.replace_input_with(index, value)
    for node, inputs in wide.items():
        _replace_inputs(node, inputs)


def detach(node: ir.Node) -> None:
    """Leave a node without inputs, so that it uses nothing."""
    if len(node.inputs) > NARROW:
        _replace_inputs(node, dict.fromkeys(range(len(node.inputs))))
    else:
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)


def _replace_inputs(node: ir.Node, new: Mapping[int, ir.Value | None]) -> None:
    if node.device_configurations:  # which name inputs, and onnx_ir keeps them as they have to be
        for index, value in new.items():
            node.replace_input_with(index, value)
        return
    inputs = list(node.inputs)
    for index, value in new.items():
        _exchange(node, inputs, index, value)
    node._inputs = tuple(inputs)


def _exchange(node: ir.Node, inputs: list[ir.Value | None], index: int, value: ir.Value | None) -> None:
    """What Node.replace_input_with does, in a list: no public method takes several inputs."""
    old, inputs[index] = inputs[index], value
    if old is not None:
        old._remove_usage(node, index)
    if value is not None:
        value._add_usage(node, index)


class Rewiring:
    """Replaces and removes nodes of a model while nothing else changes what its graphs give.

    At any time between two calls, what uses a value, what produces it and what a node is given are as they
    are after all replacements so far: nothing has to wait for `finish`. Only what costs time in a wide node
    is put off: its ``inputs`` are a list from its first replacement on, so that each further one changes
    one element, and a tuple again with `finish`. So keep no reference to ``inputs`` across a replacement.
    Removed nodes use nothing any more at once, and leave their graphs with `finish`.
    """

    def __init__(self) -> None:
        self._places: dict[ir.Graph, dict[ir.Value, list[int]]] = {}
        self._gone: dict[ir.Graph, list[ir.Node]] = {}
        self._wide: dict[ir.Node, None] = {}

    def replace(self, new: Mapping[ir.Value, ir.Value]) -> None:
        """Put values in the place of others, also as outputs of graphs."""
        for old, value in new.items():
            if old.is_graph_output():
                self._replace_output(old, value)
            for node, index in old.uses():
                if len(node.inputs) > NARROW and not node.device_configurations:
                    self._replace_input(node, index, value)
                else:
                    node.replace_input_with(index, value)

    def remove(self, node: ir.Node) -> None:
        """Remove a node that nothing uses."""
        assert isinstance(node.graph, ir.Graph)
        assert not any(value.uses() or value.is_graph_output() for value in node.outputs), node
        detach(node)
        self._gone.setdefault(node.graph, []).append(node)

    def finish(self) -> None:
        """Take the removed nodes out of their graphs."""
        for node in self._wide:
            node._inputs = tuple(node.inputs)
        self._wide.clear()
        remove(node for nodes in self._gone.values() for node in nodes)
        self._gone.clear()

    def _replace_input(self, node: ir.Node, index: int, value: ir.Value) -> None:
        inputs = node.inputs
        if not isinstance(inputs, list):
            self._wide[node] = None
            node._inputs = inputs = list(inputs)  # type: ignore[assignment]
        _exchange(node, inputs, index, value)

    def _replace_output(self, old: ir.Value, value: ir.Value) -> None:
        graph = old.graph
        assert isinstance(graph, ir.Graph)
        if graph not in self._places:
            self._places[graph] = {}
            for place, output in enumerate(graph.outputs):
                self._places[graph].setdefault(output, []).append(place)
        places = self._places[graph].pop(old)
        for place in places:
            graph.outputs[place] = value
        self._places[graph].setdefault(value, []).extend(places)


def remove(nodes: Iterable[ir.Node]) -> None:
    """Take nodes that use nothing and are not used out of their graphs."""
    by_graph: dict[ir.Graph, list[ir.Node]] = {}
    for node in nodes:
        assert isinstance(node.graph, ir.Graph)
        by_graph.setdefault(node.graph, []).append(node)
    for graph, gone in by_graph.items():
        graph.remove(gone)
