"""Finding the Concats that put all pieces of one tensor together again, in whatever order.

A Concat, and those that only it uses, is the root of a tree; its leaves are pieces. They lead back, through
Splits, Slices, Gathers and changes of axes of length 1, to the nearest tensor that they all come from.
Which part of it each piece is, is in `boxes`; whether their order is regular, in
`order`; and what becomes of it, in `steps`.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from hubpublish.passes.alike import Alike, contents
from hubpublish.passes.base import Skip
from hubpublish.passes.grids.boxes import CUTS, UNIT_CHANGES, Box, NotRegular, parts
from hubpublish.passes.grids.order import digits_of
from hubpublish.passes.grids.steps import Grid, Step, steps_of
from hubpublish.passes.grids.tree import KnownNodes, Tree, shape_of
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.transposes import Transposed

#: Most CPU kernels of the runtime take float32 instead. A node that has a kernel for these, and no
#: neighbour that has one, runs in float32 as well: then nothing is rounded there.
ROUNDED: Final = frozenset({"tensor(float16)", "tensor(bfloat16)"})
FLOATS: Final = ROUNDED | {"tensor(float)", "tensor(double)"}
STRINGS: Final = frozenset({"tensor(string)"})


@dataclass(frozen=True)
class Site:
    """A tensor in pieces that are put together again.

    Attributes:
        source: The tensor.
        steps: What makes the result of it.
        shape: Of the result; None where it is not certain.
        inner: The Concats inside the root.
        between: All nodes between the source and the root, these included.
    """

    source: ir.Value
    steps: Sequence[Step]
    shape: Dims
    inner: frozenset[ir.Node]
    between: Sequence[ir.Node]


class SiteFinder:
    """Finds the sites of one graph after the other.

    Args:
        model: Must not change between calls but as a pass changes it that replaces sites.
        min_pieces: With fewer pieces a Concat is none that this is for.
    """

    def __init__(self, model: ir.Model, min_pieces: int) -> None:
        self._proofs = Proofs(model)
        self._types = Types(model, self._proofs)
        self._min_pieces = min_pieces

    def plan(self, graph: ir.Graph) -> dict[ir.Node, Site | Skip]:
        """The Concats of a sorted graph that join pieces of one tensor, as sites or why not."""
        self._nodes = KnownNodes(graph, self._proofs)
        self._depths: dict[ir.Value, int] = {}
        self._transposed = Transposed([graph])
        found: dict[ir.Node, Site | Skip] = {}
        taken: set[ir.Node] = set()
        for node in reversed(graph):  # those that hold others first
            if node.op_type == "Concat" and node not in taken and self._nodes.opset(node) is not None:
                tree = Tree.of(node, self._nodes)
                answer = self._answer(tree) if len(tree.leaves) >= self._min_pieces else None
                if answer is not None:
                    found[node] = answer
                if isinstance(answer, Site):
                    taken |= answer.inner
        return {**found, **_merged(found, graph)} if found else found

    def _answer(self, tree: Tree) -> Site | Skip | None:
        source, between = self._source(tree.leaves)
        if source is None or source in tree.leaves:
            return None
        try:
            return self._site(tree, source, between)
        except NotRegular as reason:
            return Skip(str(reason))

    def _site(self, tree: Tree, source: ir.Value, between: Sequence[ir.Value]) -> Site:
        shape = self._proofs.of(source).shape
        if shape is None:
            raise NotRegular(f"the shape of {source.name!r}, which it puts together again, is not certain")
        if 0 in shape:
            raise NotRegular(f"{source.name!r}, which it puts together again, is empty")
        self._check_types([source, *between, *tree.concats[0].outputs], tree)
        boxes = self._boxes(source, shape, between)
        piece = boxes[tree.leaves[0]]
        counts, numbers = _numbered([boxes[leaf] for leaf in tree.leaves], shape)
        cells, axes = tree.joined(dict(zip(tree.leaves, numbers, strict=True)), piece, self._nodes)
        digits = digits_of(cells, counts)
        if digits is None:
            raise NotRegular("its pieces are in no regular order")
        steps = steps_of(Grid(shape, counts, cells.shape, axes, digits))
        cuts = dict.fromkeys(value.producer() for value in between)
        nodes = [node for node in (*tree.nodes(), *cuts) if node is not None]
        self._check_steps(steps, source, nodes, tree)
        return Site(source, steps, shape_of(cells, axes, piece), frozenset(tree.concats[1:]), nodes)

    def _source(self, leaves: Sequence[ir.Value]) -> tuple[ir.Value | None, list[ir.Value]]:
        """The nearest tensor of which all are parts, and the values between, those nearest to it first."""
        order = itertools.count(0, -1)  # so that of equally deep ones the first is nearest
        deepest = [(-self._depth(leaf), next(order), leaf) for leaf in dict.fromkeys(leaves)]
        heapq.heapify(deepest)
        seen, between = set(leaves), []
        while len(deepest) > 1:
            depth, _, value = heapq.heappop(deepest)
            source = self._taken_from(value)
            if source is None:
                return None, []
            between.append(value)
            if source not in seen:
                seen.add(source)
                heapq.heappush(deepest, (depth + 1, next(order), source))
        return deepest[0][2], between[::-1]

    def _depth(self, value: ir.Value) -> int:
        """How many nodes that take parts, or change axes of length 1, lead to ``value`` in a row."""
        chain: list[ir.Value] = []
        current: ir.Value | None = value
        while current is not None and current not in self._depths:
            chain.append(current)
            current = self._taken_from(current)
        depth = self._depths[current] if current is not None else -1
        for number, each in enumerate(reversed(chain), start=depth + 1):
            self._depths[each] = number
        return self._depths[value]

    def _taken_from(self, value: ir.Value) -> ir.Value | None:
        """The tensor of which ``value`` is a part."""
        node = value.producer()
        if node is None or node.op_type not in CUTS | UNIT_CHANGES or self._nodes.opset(node) is None:
            return None
        return node.inputs[0]

    def _boxes(self, source: ir.Value, shape: Dims, between: Sequence[ir.Value]) -> dict[ir.Value, Box]:
        boxes = {source: Box.whole(shape)}
        for value in between:
            node = value.producer()
            assert node is not None
            if value not in boxes:
                taken, opset = node.inputs[0], self._nodes.opset(node)
                assert taken is not None
                assert opset is not None
                boxes.update(zip(node.outputs, parts(node, boxes[taken], opset, self._proofs), strict=True))
        return boxes

    def _check_types(self, values: Sequence[ir.Value], tree: Tree) -> None:
        opset = self._nodes.opset(tree.concats[0])
        assert opset is not None
        taken = frozenset(onnx.defs.get_schema("Concat", opset, "").inputs[0].types)
        dtype = self._proofs.of(values[0]).dtype
        if self._types.other_than(values[0], taken) if dtype is None else _name(dtype) not in taken:
            raise NotRegular(f"its pieces are of a type that Concat of opset {opset} does not take")
        if len({value.dtype for value in values if value.dtype is not None}) > 1:
            raise NotRegular("its pieces are declared to be of different types; the model is not valid")

    def _check_steps(
        self, steps: Sequence[Step], source: ir.Value, between: Sequence[ir.Node], tree: Tree
    ) -> None:
        """Whether the runtime certainly computes the same with these steps, optimized or not."""
        if not steps:
            raise NotRegular("its pieces are put together as they were")
        if any(node.op_type == "Gather" for node in between) and self._may_be(source, STRINGS):
            # Seen with ONNX Runtime 1.32 on the CPU, which leaves the other strings of the row empty.
            raise NotRegular("its pieces may be strings, of which Gather copies one a row in ONNX Runtime")
        if not self._may_be(source, FLOATS):
            return
        if source in self._transposed:
            raise NotRegular("its pieces come from a Transpose, which the runtime may move behind them")
        if not self._may_be(source, ROUNDED):
            return
        if len(steps) == 1:
            raise NotRegular("it is but a Reshape, at which the runtime may not round what may be float16")
        gone = {tree.concats[0], *between}
        for value in (value for node in between for value in node.outputs):
            if value.is_graph_output() or any(user not in gone for user, _ in value.uses()):
                raise NotRegular("one of its pieces, which may be float16, has another use")

    def _may_be(self, value: ir.Value, types: frozenset[str]) -> bool:
        dtype = self._proofs.of(value).dtype
        return not self._types.never(value, types) if dtype is None else _name(dtype) in types


def _merged(found: Mapping[ir.Node, Site | Skip], graph: ir.Graph) -> dict[ir.Node, Skip]:
    """Sites of which the runtime would make one, or take a step for another node, and did not before."""
    sites = {node: site for node, site in found.items() if isinstance(site, Site)}
    perhaps, certainly = Alike(graph), Alike(graph, certainly=True)
    ways: dict[object, dict[object, list[ir.Node]]] = defaultdict(lambda: defaultdict(list))
    for node, site in sites.items():
        key = (perhaps.of(site.source), tuple(site.steps))
        ways[key][certainly.of(node.outputs[0])].append(node)
    several = {node for each in ways.values() if len(each) > 1 for nodes in each.values() for node in nodes}
    reason = Skip("the runtime would take what replaces it for what others compute, and merge the two")
    return {
        node: reason
        for node, site in sites.items()
        if node in several or perhaps.has("Reshape", _reshaped(site, perhaps))
    }


def _reshaped(site: Site, alike: Alike) -> tuple[object, object]:
    """What the first step is given, as numbers."""
    shape = np.array(site.steps[0][1], np.int64)
    return alike.of(site.source), contents(ir.DataType.INT64, shape.shape, shape.tobytes())


def _name(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"


def _numbered(pieces: Sequence[Box], shape: Dims) -> tuple[tuple[int, ...], list[int]]:
    """How many pieces the tensor has on each axis, and the number of each piece in row-major order."""
    first = pieces[0]
    if any(piece.lengths != first.lengths for piece in pieces):
        raise NotRegular("its pieces differ in size")
    if any(piece.axes != first.axes for piece in pieces):
        raise NotRegular("its pieces differ in their axes")
    lengths = [length or 1 for length in first.lengths]
    counts = tuple((whole or 1) // length for whole, length in zip(shape, lengths, strict=True))
    numbers = []
    for piece in pieces:
        number = 0
        for offset, length, count in zip(piece.offsets, lengths, counts, strict=True):
            if offset % length:
                raise NotRegular("its pieces do not lie in a grid")
            number = number * count + offset // length
        numbers.append(number)
    whole = all((all_of or 1) % length == 0 for all_of, length in zip(shape, lengths, strict=True))
    if not whole or sorted(numbers) != list(range(math.prod(counts))):
        raise NotRegular("its pieces are not all pieces of one tensor, each one once")
    return counts, numbers
