"""Whether pieces that are put together in another order are a Transpose of them, and which.

Number the pieces of a tensor in row-major order: with G1 along its first axis, G2 along the next one and
so on, a number has the digits (g1, g2, ...) in the mixed radix (G1, G2, ...). The same goes for the places
in the result. The result is a Transpose if the number at each place has the digits of that place in
another order, where an axis may stand for several digits: 32 pieces as 4 rows of 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Digit:
    """One of ``count`` values; ``stride`` numbers and ``place`` places apart."""

    count: int
    stride: int
    place: int


def digits_of(cells: Numbers, grid: tuple[int, ...]) -> list[Digit] | None:
    """The digits of which none lies on two axes, neither before nor after; None if there are none.

    Args:
        cells: Of the result: the number of the piece in each place.
        grid: How many pieces the tensor has on each axis.
    """
    digits = _progressions(cells.ravel())
    for before in (True, False):
        for cut in strides(grid if before else cells.shape):
            digits = _divided(digits, cut, before)
    if math.prod(digit.count for digit in digits) != cells.size:
        return None
    digits.sort(key=lambda digit: -digit.stride)
    numbers = np.arange(cells.size).reshape([digit.count for digit in digits])
    places = sorted(range(len(digits)), key=lambda number: -digits[number].place)
    return digits if np.array_equal(numbers.transpose(places).ravel(), cells.ravel()) else None


def _progressions(numbers: Numbers) -> list[Digit]:
    """The digits if there are any: with the fastest one alone, numbers are in arithmetic progression."""
    digits, place = [], 1
    while numbers.size > 1:
        differences = np.diff(numbers)
        other = np.flatnonzero(differences != differences[0])
        count = int(other[0]) + 1 if other.size else numbers.size
        digits.append(Digit(count, int(differences[0]), place))
        if numbers.size % count:
            return []
        numbers, place = numbers[::count], place * count
    return digits


def strides(counts: tuple[int, ...]) -> list[int]:
    """How far apart neighbours on each axis are, numbered in row-major order."""
    return [math.prod(counts[axis + 1 :]) for axis in range(len(counts))]


def _divided(digits: Sequence[Digit], cut: int, before: bool) -> list[Digit]:
    """The digits with one in two that has values on both sides of the cut; none if that cannot be."""
    divided = []
    for digit in digits:
        low = digit.stride if before else digit.place
        high = low * digit.count
        if not low < cut < high:
            divided.append(digit)
        elif cut % low or high % cut:
            return []
        else:
            count = cut // low
            slow = Digit(digit.count // count, digit.stride * count, digit.place * count)
            divided += [Digit(count, digit.stride, digit.place), slow]
    return divided
