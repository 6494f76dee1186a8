"""Concats of Concats as a tree: its leaves, and what it makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hubpublish.passes.grids.boxes import UNIT_CHANGES, Box, Kept, NotRegular, kept_axes
from hubpublish.passes.grids.order import Numbers
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.proofs.facts import Proofs

MOST_LOOKS = 4  # at a Concat inside others; where those are not regular it is looked at again


class KnownNodes:
    """The nodes of one graph, as far as they are understood and may go.

    Attributes:
        looks: How often a Concat was looked at as one inside another.
    """

    def __init__(self, graph: ir.Graph, proofs: Proofs) -> None:
        self.graph = graph
        self.proofs = proofs
        self._opsets: dict[ir.Node, int | None] = {}
        self.looks: Counter[ir.Node] = Counter()

    def opset(self, node: ir.Node) -> int | None:
        """By which the node is understood; None if it is not, or has to stay.

        Nodes of graphs around this one are not: what they take may have a name that means another value here.
        """
        if node not in self._opsets:
            fixed = node.graph is not self.graph or node.device_configurations
            not_valid = node.op_type == "Concat" and any(value is None for value in node.inputs)
            self._opsets[node] = None if fixed or not_valid else self.proofs.opset_for(node)
        return self._opsets[node]


@dataclass(frozen=True)
class Tree:
    """A Concat and those inside it, which have no use but that, with changes of axes of length 1 between.

    Attributes:
        concats: The root first, each one before those inside it.
        leaves: The pieces.
        inside: Inputs that come from a Concat of the tree: that one, and the nodes after it.
    """

    concats: Sequence[ir.Node]
    leaves: Sequence[ir.Value]
    inside: Mapping[ir.Value, tuple[ir.Node, Sequence[ir.Node]]]

    @classmethod
    def of(cls, root: ir.Node, nodes: KnownNodes) -> Tree:
        """The tree with that root."""
        concats, leaves, inside = [root], [], {}
        for concat in concats:
            for value in concat.inputs:
                assert value is not None
                inner = _inner(value, nodes)
                if inner is None:
                    leaves.append(value)
                else:
                    inside[value] = inner
                    concats.append(inner[0])
        return cls(concats, leaves, inside)

    def nodes(self) -> list[ir.Node]:
        """All but the root."""
        return [*self.concats[1:], *(node for _, nodes in self.inside.values() for node in nodes)]

    def joined(self, numbers: Mapping[ir.Value, int], piece: Box, nodes: KnownNodes) -> tuple[Numbers, Kept]:
        """What the Concats make of a number for each piece, and along which axes of the source its axes run.

        Raises:
            NotRegular: Pieces do not fit together, or more than axes of length 1 changes between Concats.
        """
        made: dict[ir.Node, tuple[Numbers, Kept]] = {}
        for concat in reversed(self.concats):
            inputs = []
            for value in concat.inputs:
                assert value is not None
                if value in self.inside:
                    inner, changes = self.inside[value]
                    inputs.append(_changed(*made[inner], changes, piece, nodes))
                else:
                    inputs.append((np.full((1,) * len(piece.axes), numbers[value]), piece.axes))
            axes = inputs[0][1]
            if any(each != axes for _, each in inputs):
                raise NotRegular("its pieces differ in their axes")
            try:
                cells = np.concatenate([each for each, _ in inputs], concat.attributes.get_int("axis", 0))
            except ValueError:
                raise NotRegular("its pieces do not fit together; the model is not valid") from None
            made[concat] = (cells, axes)
        return made[self.concats[0]]


def shape_of(cells: Numbers, axes: Kept, piece: Box) -> Dims:
    """The shape that pieces in these places have together."""
    lengths = (1 if axis is None else piece.lengths[axis] for axis in axes)
    pairs = zip(lengths, cells.shape, strict=True)
    return tuple(None if length is None else length * count for length, count in pairs)


def _inner(value: ir.Value, nodes: KnownNodes) -> tuple[ir.Node, Sequence[ir.Node]] | None:
    """The Concat that makes ``value`` for one use, and what changes its axes of length 1 after that."""
    after: list[ir.Node] = []
    current: ir.Value | None = value
    while current is not None and len(current.uses()) == 1 and not current.is_graph_output():
        node = current.producer()
        if node is None or nodes.opset(node) is None:
            return None
        if node.op_type == "Concat":
            nodes.looks[node] += 1
            return (node, after[::-1]) if nodes.looks[node] <= MOST_LOOKS else None
        if node.op_type not in UNIT_CHANGES:
            return None
        after.append(node)
        current = node.inputs[0]
    return None


def _changed(
    cells: Numbers, axes: Kept, changes: Sequence[ir.Node], piece: Box, nodes: KnownNodes
) -> tuple[Numbers, Kept]:
    for node in changes:
        opset = nodes.opset(node)
        assert opset is not None
        kept = kept_axes(node, shape_of(cells, axes, piece), opset, nodes.proofs)
        cells = cells.reshape([1 if number is None else cells.shape[number] for number in kept])
        axes = tuple(None if number is None else axes[number] for number in kept)
    return cells, axes
