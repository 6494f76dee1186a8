"""Following the index columns of a GatherND back to the floats that they are cast from, with all proofs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from hubpublish.passes.base import Skip
from hubpublish.passes.gather_nd_site import BATCH_DIMS, NAMES, NotProved, Site, SiteFinder
from hubpublish.passes.proofs.clamps import Clamp, before
from hubpublish.passes.proofs.edges import has_padded_ends
from hubpublish.passes.proofs.facts import Proofs

#: Up to which a type holds every whole number; of larger ones it rounds some.
WHOLE: Final = {ir.DataType.FLOAT: 2**24, ir.DataType.FLOAT16: 2**11}

_ROUNDS: Final = frozenset({"Ceil", "Floor", "Round"})
#: Their outputs are the elements of their first input, in the same order.
_REGROUPS: Final = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
#: Their outputs are elements of their first input.
_PICKS: Final = frozenset({"Gather", "Slice", "Transpose"})
_MOVES: Final = _REGROUPS | _PICKS


@dataclass(frozen=True)
class Coordinate:
    """One of the two index columns: clamp(Cast(moves(floats))), in whatever order the graph has it.

    Attributes:
        floats: What is cast: float32, or whole numbers in float16.
        dtype: Its element type.
        moves: Nodes that pick elements, and those before the last of them that change the shape.
        clamp: Into 0 to the last index of the axis.
        nodes: All nodes from the column back to the Cast.
        key: Equal for two columns of the same floats and moves.
    """

    floats: ir.Value
    dtype: ir.DataType
    moves: tuple[ir.Node, ...]
    clamp: Clamp
    nodes: tuple[ir.Node, ...]
    key: tuple[object, ...]


@dataclass(frozen=True)
class Int32Site:
    """A GatherND of which both index columns, y and x, can be computed in int32."""

    site: Site
    coordinates: tuple[Coordinate, Coordinate]


class Int32SiteFinder:
    """Finds the sites of one model."""

    def __init__(self, model: ir.Model, proofs: Proofs) -> None:
        self._proofs = proofs
        self._sites = SiteFinder(model, proofs)
        self._moved_alike: dict[tuple[object, ...], bool] = {}

    def find(self, node: ir.Node) -> Int32Site | Skip:
        """The GatherND as a site to rewrite, or what of it is not proved."""
        site = self._sites.find(node)
        if isinstance(site, Skip):
            return site
        try:
            if 0 in site.points:
                raise NotProved("gathers at no points")
            y, x = (self._coordinate(site, number) for number in range(len(NAMES)))
        except NotProved as reason:
            return Skip(str(reason))
        return Int32Site(site, (y, x))

    def _coordinate(self, site: Site, number: int) -> Coordinate:
        axis, name = BATCH_DIMS + number, f"the {NAMES[number]} index column"
        found = self._followed(name, site.columns[number])
        last, most = site.lengths[axis] - 1, WHOLE[found.dtype]
        if (found.clamp.low, found.clamp.high) != (0, last):
            between = f"between {found.clamp.low} and {found.clamp.high}"
            raise NotProved(
                f"{name} is clamped {between}, and not between 0 and {last}, the ends of its axis"
            )
        if last + abs(found.clamp.offset) >= most:
            raise NotProved(f"{name} takes numbers above {most}, of which {found.dtype.name} rounds some")
        # What a Cast makes of a number that no integer can hold is not defined; so it must not matter.
        if not has_padded_ends(site.data, axis, self._proofs):
            raise NotProved(f"the ends of axis {axis} of the data are not certainly padding")
        return found

    def _followed(self, name: str, column: ir.Value) -> Coordinate:
        """From the column back to the Cast of floats that it comes from."""
        clamp, value, nodes = Clamp(), column, list[ir.Node]()
        while True:
            node = value.producer()
            if node is None or self._proofs.opset_for(node) is None:
                raise NotProved(f"{name} does not come from a Cast of floats")
            nodes.append(node)
            if node.op_type == "Cast" and not self._keeps_int64(node):
                break
            step = self._step(node, clamp)
            if step is None:
                raise NotProved(
                    f"{name} comes from {node.op_type}, which is not followed to a Cast of floats"
                )
            value, clamp = step
        floats, dtype = self._floats(name, node)
        moves = [each for each in reversed(nodes) if each.op_type in _MOVES]
        while moves and moves[-1].op_type in _REGROUPS:
            moves.pop()
        if dtype == ir.DataType.FLOAT16 and moves and self._are_moved_alike(floats, moves[0]):
            raise NotProved(f"{name} picks from float16 what is picked already, which would be rounded then")
        key = (floats, *(part for each in moves for part in self._key(each)))
        return Coordinate(floats, dtype, tuple(moves), clamp, tuple(nodes), key)

    def _step(self, node: ir.Node, clamp: Clamp) -> tuple[ir.Value, Clamp] | None:
        """What a node of integers is computed from, and ``clamp`` of its output as a function of that."""
        if node.op_type in _MOVES or node.op_type == "Cast":
            source = node.inputs[0]  # all that is done to elements one by one can as well be done before
            return (source, clamp) if source is not None else None
        return before(node, clamp, self._proofs)

    def _keeps_int64(self, cast: ir.Node) -> bool:
        (source,) = cast.inputs
        to = cast.attributes.get_int("to")
        return source is not None and to == ir.DataType.INT64 == self._proofs.of(source).dtype

    def _floats(self, name: str, cast: ir.Node) -> tuple[ir.Value, ir.DataType]:
        """What is cast, and its type."""
        (floats,) = cast.inputs
        dtype = self._proofs.of(floats).dtype if floats is not None else None
        if floats is None or dtype not in WHOLE or cast.attributes.get_int("to") != ir.DataType.INT64:
            raise NotProved(f"{name} is not certainly cast from float32 or float16 to int64")
        if dtype == ir.DataType.FLOAT16 and not self._are_whole(floats):
            # Between nodes the runtime rounds float16, or computes on in float32, as it sees fit.
            raise NotProved(f"{name} is cast from float16 that are not certainly whole numbers")
        return floats, dtype

    def _are_whole(self, floats: ir.Value) -> bool:
        """Whether they come from rounding."""
        value: ir.Value | None = floats
        while value is not None:
            node = value.producer()
            if node is None or self._proofs.opset_for(node) is None:
                return False
            if node.op_type in _ROUNDS:
                return True
            value = node.inputs[0] if node.op_type in _MOVES else None
        return False

    def _are_moved_alike(self, floats: ir.Value, move: ir.Node) -> bool:
        """Whether the graph has that move of the floats themselves, which the runtime would do but once."""
        key = (floats, *self._key(move))
        if key not in self._moved_alike:  # known from the first site: the next ones find what that one got
            self._moved_alike[key] = any(
                self._key(each) == self._key(move)
                for each in floats.consumers()
                if each.op_type == move.op_type and each.inputs[0] is floats
            )
        return self._moved_alike[key]

    def _key(self, move: ir.Node) -> tuple[object, ...]:
        """Equal for two nodes that move the same elements of one tensor to the same places."""
        attributes = sorted((each.name, str(each.value)) for each in move.attributes.values())
        inputs: list[object] = []
        for value in move.inputs[1:]:
            known = self._proofs.of(value).values if value is not None else None
            inputs.append(value if known is None else (known.shape, known.tobytes()))
        return (move.op_type, *attributes, *inputs)
