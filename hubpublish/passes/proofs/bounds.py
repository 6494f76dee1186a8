"""What range the integers of a tensor certainly lie in: read from clamps, not assumed.

Followed are clamps (Clip, Max, Min), constants, Casts between integers, and operators that only move
values. A clamp of floats proves nothing about the integers cast from them: NaN passes through every
clamp, and what a Cast makes of it is not defined. All operators here but Cast compute what they are
given in its own type, so bounds that come from integer constants hold for integers.
Source: the operators' definitions; Clip(x, min, max) = Min(max, Max(x, min)), so that where min
exceeds max the result is max.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from hubpublish.passes.proofs.facts import Proofs

#: Every element of their outputs is an element of their first input.
MOVES: Final = frozenset(
    """
    DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Reshape Slice SpaceToDepth Split
    Squeeze Tile Transpose Unsqueeze
    """.split()  # noqa: SIM905
)
DEEPEST = 100  # nodes from the value to the clamp; no model needs more


@dataclass(frozen=True)
class Bounds:
    """No integer of the tensor is less than ``low`` or greater than ``high``; infinite where not known."""

    low: int | float = -math.inf
    high: int | float = math.inf


UNKNOWN: Final = Bounds()


class IndexBounds:
    """Answers for one model; each value is worked out once."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs
        self._known: dict[ir.Value, Bounds] = {}

    def of(self, value: ir.Value) -> Bounds:
        """The range of the integers in ``value``; open if they are not integers."""
        return self._of(value, DEEPEST)

    def _of(self, value: ir.Value | None, depth: int) -> Bounds:
        if value is None or depth == 0:
            return UNKNOWN
        if value not in self._known:
            node = value.producer()
            if node is None or node.op_type == "Constant":
                self._known[value] = self._of_values(value)
            else:
                self._known[value] = self._of_node(node, depth - 1)
        return self._known[value]

    def _of_node(self, node: ir.Node, depth: int) -> Bounds:
        if not node.inputs or self._proofs.opset_for(node) is None:
            return UNKNOWN
        match node.op_type:
            case op_type if op_type in MOVES:
                return self._of(node.inputs[0], depth)
            case "Cast":
                return _cast(self._of(node.inputs[0], depth), node)
            case "Concat":
                return _either([self._of(value, depth) for value in node.inputs])
            case "Where":
                return _either([self._of(value, depth) for value in node.inputs[1:]])
            case "Max":
                return _greatest([self._limit(value, depth) for value in node.inputs])
            case "Min":
                return _least([self._limit(value, depth) for value in node.inputs])
            case "Clip":
                return self._clip(node, depth)
        return UNKNOWN

    def _clip(self, node: ir.Node, depth: int) -> Bounds:
        value, low, high = (*node.inputs, None, None)[:3]
        bounds = self._of(value, depth)
        if low is not None:
            bounds = _greatest([bounds, self._limit(low, depth)])
        return bounds if high is None else _least([bounds, self._limit(high, depth)])

    def _limit(self, value: ir.Value | None, depth: int) -> Bounds:
        """As `_of`, and also of what the graph computes from shapes, which is more work to find out."""
        bounds = self._of(value, depth)
        return self._of_values(value) if bounds == UNKNOWN and value is not None else bounds

    def _of_values(self, value: ir.Value) -> Bounds:
        values = self._proofs.of(value).values
        if values is None or values.size == 0 or values.dtype.kind not in "iu":
            return UNKNOWN
        return Bounds(int(values.min()), int(values.max()))


def _greatest(given: Sequence[Bounds]) -> Bounds:
    return Bounds(max(each.low for each in given), max(each.high for each in given))


def _least(given: Sequence[Bounds]) -> Bounds:
    return Bounds(min(each.low for each in given), min(each.high for each in given))


def _either(given: Sequence[Bounds]) -> Bounds:
    return Bounds(min(each.low for each in given), max(each.high for each in given))


def _cast(source: Bounds, node: ir.Node) -> Bounds:
    """A Cast to integers keeps those that the new type can hold; any other proves nothing."""
    limits = _LIMITS.get(node.attributes.get_int("to", 0))
    if limits is None:
        return UNKNOWN
    return source if limits.min <= source.low and source.high <= limits.max else UNKNOWN


#: By ONNX's number of the type.
_LIMITS: Final = {
    ir.DataType.from_numpy(np.dtype(code)).value: np.iinfo(code) for code in np.typecodes["AllInteger"]
}
