"""Integers that are added to and clamped, as one function of what they come from.

Source: the operators' definitions; Clip(x, min, max) = Min(max, Max(x, min)).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from hubpublish.passes.proofs.facts import Proofs

MOST: Final = 2**24  # what is added; so that no sum of integers that were floats exceeds 64 bits

Number = int | float  # a whole one, or infinite
Source = tuple[ir.Value, int]


@dataclass(frozen=True)
class Clamp:
    """The function min(high, max(low, x + offset)), where low <= high."""

    offset: int = 0
    low: Number = -math.inf
    high: Number = math.inf

    def after_adding(self, number: int) -> Clamp:
        """The same function, of x + number."""
        return dataclasses.replace(self, offset=self.offset + number)

    def after_clamping(self, low: Number, high: Number) -> Clamp:
        """The same function, of min(high, max(low, x))."""
        ends = [min(self.high, max(self.low, end + self.offset)) for end in (min(low, high), high)]
        return Clamp(self.offset, *ends)


def before(node: ir.Node, clamp: Clamp, proofs: Proofs) -> tuple[ir.Value, Clamp] | None:
    """What ``node`` computes its output from, and ``clamp`` of the output as a function of that.

    Args:
        node: One of ONNX's own operators, of 64-bit integers.
        clamp: A function of its output.
        proofs: Of the model that it is in.

    Returns:
        None if it is no clamp by scalar constants and no addition of a small one.
    """
    if node.op_type == "Clip":
        return _before_clip(node, clamp, proofs)
    source = _with_constant(node, proofs)
    if source is None:
        return None
    value, number = source
    match node.op_type:
        case "Max":
            return value, clamp.after_clamping(number, math.inf)
        case "Min":
            return value, clamp.after_clamping(-math.inf, number)
        case "Add" if abs(number) < MOST:
            return value, clamp.after_adding(number)
        case "Sub" if abs(number) < MOST and value is node.inputs[0]:
            return value, clamp.after_adding(-number)
    return None


def _before_clip(node: ir.Node, clamp: Clamp, proofs: Proofs) -> tuple[ir.Value, Clamp] | None:
    value, *ends = (*node.inputs, None, None)[:3]
    # ONNX wants scalars; ONNX Runtime takes one element along one axis for such.
    numbers = [_number(end, 1, proofs) if end is not None else math.inf for end in ends]
    low, high = numbers
    if value is None or low is None or high is None:
        return None
    return value, clamp.after_clamping(-low if ends[0] is None else low, high)


def _with_constant(node: ir.Node, proofs: Proofs) -> Source | None:
    """The input of a node of two that is no constant, and the number that the other is."""
    if len(node.inputs) != 2:
        return None
    for value, other in (node.inputs, reversed(node.inputs)):
        shape = proofs.of(value).shape if value is not None else None
        number = _number(other, len(shape or ()), proofs)
        if value is not None and number is not None:
            return value, number
    return None


def _number(value: ir.Value | None, rank: int, proofs: Proofs) -> int | None:
    """The only element of a constant integer that has no more axes than ``rank``."""
    values = proofs.of(value).values if value is not None else None
    if values is None or values.size != 1 or values.ndim > rank or values.dtype.kind not in "iu":
        return None
    return int(values.item())
