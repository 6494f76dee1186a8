"""How a large tensor can be computed from smaller ones, bit for bit.

A form is looked for on samples first, as tensors whose numbers are all different, such as weights, must
not take long. What is found is then compared with the whole tensor.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from hubpublish.passes.proofs.certain import Array

MOST_PARTS = 8  # of a Concat
MOST_INDICES = 65_536  # of a Gather

_SAMPLED = 64  # elements of a slice that are compared before all are
#: Types whose sums the runtime folds when it loads a model: float16 is not among them.
_SUMS: Final = frozenset({"float32", "float64", "int32", "int64"})


@dataclass(frozen=True, eq=False)
class Plain:
    """The tensor itself."""

    array: Array


@dataclass(frozen=True, eq=False)
class Expanded:
    """``Expand(of, shape)``."""

    of: Form
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Picked:
    """``Gather<axis>(of, indices)``."""

    of: Form
    indices: Array
    axis: int


@dataclass(frozen=True, eq=False)
class Joined:
    """``Concat<axis>(parts)``."""

    parts: tuple[Form, ...]
    axis: int


@dataclass(frozen=True, eq=False)
class Added:
    """``Add(first, second)``."""

    first: Form
    second: Form


Form: TypeAlias = Plain | Expanded | Picked | Joined | Added


@dataclass(frozen=True)
class Finder:
    """Finds small forms of tensors.

    Attributes:
        least_bytes: A smaller tensor is left as it is.
        least_gain: The part of the bytes that a form must save.
        node_bytes: What a node or a tensor takes in the file beside its elements.
        least_elements: Of what is expanded.
    """

    least_bytes: int
    least_gain: float
    node_bytes: int
    least_elements: int = 1

    def find(self, array: Array) -> Form:
        """The smallest form that is found; the tensor itself if none is small enough."""
        return self._find(array, may_join=True)

    def size(self, form: Form) -> int:
        """Bytes that the form takes in a file."""
        match form:
            case Plain(array):
                return array.nbytes + self.node_bytes
            case Expanded(of, shape):
                return self.size(of) + 8 * len(shape) + 2 * self.node_bytes
            case Picked(of, indices, _):
                return self.size(of) + indices.nbytes + 2 * self.node_bytes
            case Joined(parts, _):
                return sum(map(self.size, parts)) + self.node_bytes
            case Added(first, second):
                return self.size(first) + self.size(second) + self.node_bytes

    def _find(self, array: Array, *, may_join: bool) -> Form:
        if array.nbytes < self.least_bytes:
            return Plain(array)
        found = min(self._forms(array, may_join=may_join), key=self.size, default=Plain(array))
        return found if self.size(found) <= (1 - self.least_gain) * array.nbytes else Plain(array)

    def _forms(self, array: Array, *, may_join: bool) -> Iterator[Form]:
        base = _without_repeated_axes(array, self.least_elements)
        if base.size < array.size:
            yield Expanded(self.find(base), array.shape)
            return
        for axis, length in enumerate(array.shape):
            different = _different_slices(array, axis)
            if different is not None:
                first, indices = different
                yield Picked(self.find(np.take(array, first, axis)), indices, axis)
            if may_join and 2 <= length <= MOST_PARTS:
                yield self._joined(array, axis)
        for split in range(1, array.ndim):
            terms = _terms(array, split)
            if terms is not None:
                yield Added(self.find(terms[0]), self.find(terms[1]))

    def _joined(self, array: Array, axis: int) -> Form:
        """The slices along an axis in forms of their own, if one of them has one."""
        slices = [np.ascontiguousarray(each) for each in np.split(array, array.shape[axis], axis)]
        parts = [self._find(each, may_join=False) for each in slices]
        if all(isinstance(part, Plain) for part in parts):
            return Plain(array)
        return Joined(tuple(map(self.find, slices)), axis)


def value_of(form: Form) -> Array:
    """The tensor that a form computes."""
    match form:
        case Plain(array):
            return array
        case Expanded(of, shape):
            return np.broadcast_to(value_of(of), shape)
        case Picked(of, indices, axis):
            return np.take(value_of(of), indices, axis)
        case Joined(parts, axis):
            return np.concatenate([value_of(part) for part in parts], axis)
        case Added(first, second):
            return _sum(value_of(first), value_of(second))


def same_bits(one: Array, other: Array) -> bool:
    """Whether two tensors are the same, with the signs of zeros and the bits of what is not a number."""
    return one.dtype == other.dtype and one.shape == other.shape and bool(np.all(_bits(one) == _bits(other)))


def _bits(array: Array) -> Array:
    """The elements as unsigned integers."""
    return np.ascontiguousarray(array).reshape(array.shape).view(f"u{array.dtype.itemsize}")


def _sum(first: Array, second: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(first + second)


def _without_repeated_axes(array: Array, least_elements: int) -> Array:
    """The first slice alone along the axes whose slices are all the same, the longest first."""
    for axis in sorted(range(array.ndim), key=lambda axis: -array.shape[axis]):
        length = array.shape[axis]
        if length < 2 or array.size // length < least_elements:
            continue
        first, second = np.take(array, [0], axis), np.take(array, [1], axis)
        if same_bits(first, second) and np.all(_bits(array) == _bits(first)):
            array = first
    return array


def _different_slices(array: Array, axis: int) -> tuple[list[int], Array] | None:
    """The first of each kind of slices along an axis, and for each slice its kind; None if they are many."""
    length = array.shape[axis]
    slices = np.moveaxis(_bits(array), axis, 0)
    if not 2 <= length <= MOST_INDICES or _kinds_at_least(slices) > length // 2:
        return None
    kinds: dict[bytes, int] = {}
    first: list[int] = []
    indices = np.zeros(length, np.int64)
    for number, each in enumerate(slices):
        key = hashlib.sha256(each.tobytes()).digest()
        if key not in kinds:
            kinds[key] = len(first)
            first.append(number)
            if len(first) > length // 2:
                return None
        indices[number] = kinds[key]
    return first, indices


def _kinds_at_least(slices: Array) -> int:
    """A number of kinds that there certainly are among slices along the first axis, from a few elements."""
    if slices.ndim == 1:
        return len(np.unique(slices))
    shape = slices.shape[1:]
    places = np.linspace(0, math.prod(shape) - 1, _SAMPLED).astype(np.int64)
    where: tuple[Any, ...] = (slice(None), *np.unravel_index(places, shape))
    return len(np.unique(slices[where], axis=0))


def _terms(array: Array, split: int) -> tuple[Array, Array] | None:
    """Two tensors of which ``array`` is the sum, over the axes up to ``split`` and over those from it on."""
    ahead, behind = array.shape[:split], array.shape[split:]
    rows, columns = math.prod(ahead), math.prod(behind)
    if array.dtype.name not in _SUMS or min(rows, columns) < 2:
        return None
    table = array.reshape(rows, columns)
    first, second = table[:, :1], _sum(table[:1], -table[:1, :1])
    some = np.ix_(*(np.linspace(0, length - 1, 8).astype(np.int64) for length in table.shape))
    if not same_bits(_sum(first[some[0][:, 0]], second[:, some[1][0]]), table[some]):
        return None
    if not same_bits(_sum(first, second), table):
        return None
    return first.reshape(*ahead, *[1] * len(behind)), second.reshape(*[1] * len(ahead), *behind)
