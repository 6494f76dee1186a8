"""The Reshape, Transpose and Reshape that put the pieces of a tensor in another order.

Where the first Reshape would take no axis apart, or the last one put none together, an axis that stays
together is taken apart and put together as well. For between such Reshapes ONNX Runtime leaves a Transpose
where it is. Alone it would be moved past a sum or into a MatMul, which then add up in another order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hubpublish.passes.grids.boxes import NotRegular
from hubpublish.passes.grids.order import Digit, strides
from hubpublish.passes.proofs.certain import Dims

Step = tuple[Literal["Reshape", "Transpose"], tuple[int, ...]]
Length = tuple[int, int | None]  # a number, or that many times the length of an axis which is not certain

ONE: Length = (1, None)


@dataclass(frozen=True)
class Grid:
    """How the pieces lie in a tensor, and in what is put together of them.

    Attributes:
        shape: Of the tensor; not empty.
        counts: How many pieces the tensor has on each axis; 1 where its length is not certain.
        places: How many pieces the result has on each axis.
        axes: For each axis of the result the tensor's axis that runs along it in a piece; None for length 1.
        digits: Those of the pieces' numbers; see `order`.
    """

    shape: Dims
    counts: tuple[int, ...]
    places: tuple[int, ...]
    axes: tuple[int | None, ...]
    digits: Sequence[Digit]


@dataclass(frozen=True)
class _Axis:
    """An axis of the tensor taken apart: a digit, or what a piece has of an axis; or a factor of either."""

    of: Digit | int
    length: Length
    factor: int = 0


_Axes: TypeAlias = list[_Axis]


def steps_of(grid: Grid) -> list[Step]:
    """The steps; one Reshape if that is enough, and none if nothing changes.

    Raises:
        NotRegular: Too many lengths are not certain, or no axis can be taken apart to keep the Transpose.
    """
    pieces = [_piece(axis, grid) for axis in range(len(grid.shape))]
    before = [_times(piece.length, count) for piece, count in zip(pieces, grid.counts, strict=True)]
    along = [_Axis(-1, ONE) if axis is None else pieces[axis] for axis in grid.axes]
    after = [_times(piece.length, count) for piece, count in zip(along, grid.places, strict=True)]
    apart = _apart(pieces, grid.counts, {digit.stride: digit for digit in grid.digits})
    moved = _apart(along, grid.places, {digit.place: digit for digit in grid.digits})
    ways: list[list[Step] | None]
    if apart == moved:
        ways = [_reshape(before, after)]
    elif _solid(before) != _lengths(apart) and _solid(after) != _lengths(moved):
        ways = [_steps(before, apart, moved, after)]
    else:
        products = [axis for axis in reversed(apart) if _factor(axis)]
        if not products:
            raise NotRegular("it is but a Transpose, which the runtime may fuse with other nodes")
        ways = [_steps(before, _halved(apart, axis), _halved(moved, axis), after) for axis in products]
    for steps in ways:
        if steps is not None:
            return steps
    raise NotRegular("more lengths are not certain than a Reshape can leave open")


def _piece(axis: int, grid: Grid) -> _Axis:
    length = grid.shape[axis]
    return _Axis(axis, (1, axis) if length is None else (length // grid.counts[axis], None))


def _times(length: Length, count: int) -> Length:
    return length[0] * count, length[1]


def _apart(pieces: _Axes, counts: tuple[int, ...], digits: dict[int, Digit]) -> _Axes:
    """The digits of each axis, the slowest first, and after them what a piece has of it."""
    found: _Axes = []
    for piece, count, stride in zip(pieces, counts, strides(counts), strict=True):
        slowest_first = sorted((at for at in digits if stride <= at < stride * count), reverse=True)
        found += [_Axis(digits[at], (digits[at].count, None)) for at in slowest_first]
        found += [piece] if piece.length != ONE else []
    return found


def _solid(lengths: Sequence[Length]) -> list[Length]:
    return [length for length in lengths if length != ONE]


def _lengths(axes: _Axes) -> list[Length]:
    return [axis.length for axis in axes]


def _factor(axis: _Axis) -> int | None:
    """The least factor of a length that is a product."""
    number, unknown = axis.length
    factors = (each for each in range(2, math.isqrt(number) + 1) if number % each == 0)
    return next(factors, None) if unknown is None else None


def _halved(axes: _Axes, axis: _Axis) -> _Axes:
    """The axes with one of them, whose length is a product, as two."""
    factor = _factor(axis)
    assert factor is not None
    two = [_Axis(axis.of, (factor, None), 1), _Axis(axis.of, (axis.length[0] // factor, None), 2)]
    return list(itertools.chain.from_iterable(two if each == axis else [each] for each in axes))


def _steps(
    before: Sequence[Length], apart: _Axes, moved: _Axes, after: Sequence[Length]
) -> list[Step] | None:
    first, last = _reshape(before, _lengths(apart)), _reshape(_lengths(moved), after)
    if first is None or last is None:
        return None
    return [*first, ("Transpose", tuple(apart.index(each) for each in moved)), *last]


def _reshape(before: Sequence[Length], after: Sequence[Length]) -> list[Step] | None:
    """A Reshape, or none if nothing changes; None if its target cannot be stated."""
    if before == after:
        return []
    target = []
    for number, length in enumerate(after):
        same = number < len(before) and before[number] == length
        target.append(length[0] if length[1] is None else 0 if same else -1)
    # With a -1, an axis that is copied must not be empty, and that is not certain.
    return None if -1 in target and (0 in target or target.count(-1) > 1) else [("Reshape", tuple(target))]
