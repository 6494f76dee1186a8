"""Which part of a tensor an output of Split, Slice or Gather is, and what changes axes of length 1 only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from hubpublish.model import node_label
from hubpublish.passes.base import Skip
from hubpublish.passes.proofs.certain import Array, Dims
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.split_sizes import known_sizes

UNIT_CHANGES: Final = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze"})
CUTS: Final = frozenset({"Gather", "Slice", "Split"})

SLICES_BY_INPUTS = 10  # opset; attributes before
AXES_MAY_BE_NEGATIVE = 11  # opset
AXES_ARE_AN_INPUT = 13  # opset; an attribute before

Kept = tuple[int | None, ...]  # for each axis after a change the one that it was; None for a new one


class NotRegular(Exception):  # noqa: N818 - says why a node is left alone, which is no error
    """The reason why pieces are no grid."""


@dataclass(frozen=True)
class Box:
    """A part of a tensor, in which axes of length 1 may have been put in or left out.

    Attributes:
        offsets: Where it begins, on each axis of the tensor.
        lengths: How long it is there; None where the tensor's length is not certain: it has all of that.
        axes: For each axis of the part the tensor's axis that it runs along; None if it has length 1.
    """

    offsets: tuple[int, ...]
    lengths: Dims
    axes: Kept

    @classmethod
    def whole(cls, shape: Dims) -> Box:
        """All of a tensor."""
        axes = tuple(None if length == 1 else axis for axis, length in enumerate(shape))
        return cls((0,) * len(shape), shape, axes)

    @property
    def shape(self) -> Dims:
        """Of the part."""
        return tuple(1 if axis is None else self.lengths[axis] for axis in self.axes)

    def cut(self, number: int, offset: int, length: int) -> Box:
        """The part of the part that lies there on its axis of that number."""
        axis = self.axes[number]
        if length < 1:
            raise NotRegular("one of its pieces is empty")
        if axis is None or length == self.lengths[axis]:
            return self
        offsets, lengths = list(self.offsets), list(self.lengths)
        offsets[axis] += offset
        lengths[axis] = length
        axes = tuple(None if each == axis and length == 1 else each for each in self.axes)
        return Box(tuple(offsets), tuple(lengths), axes)

    def changed(self, kept: Kept) -> Box:
        """The same part with other axes of length 1."""
        return replace(self, axes=tuple(None if number is None else self.axes[number] for number in kept))


def parts(node: ir.Node, box: Box, opset: int, proofs: Proofs) -> list[Box]:
    """What each output of ``node`` is, if its first input is ``box``.

    Raises:
        NotRegular: That is not certain, or no box.
    """
    match node.op_type:
        case "Split":
            return _split(node, box, opset)
        case "Slice":
            return [_slice(node, box, opset, proofs)]
        case "Gather":
            return [_gather(node, box, proofs)]
    return [box.changed(kept_axes(node, box.shape, opset, proofs))]


def kept_axes(node: ir.Node, shape: Dims, opset: int, proofs: Proofs) -> Kept:
    """What a node of ``UNIT_CHANGES`` does to the axes of an input of that shape.

    Raises:
        NotRegular: It is not certain, or more than putting in and leaving out axes of length 1.
    """
    everything = tuple(range(len(shape)))
    if node.op_type == "Identity":
        return everything
    if node.op_type == "Reshape":
        return _reshape(node, shape, proofs)
    axes = _axes(node, opset, proofs)
    if node.op_type == "Squeeze":
        if axes is None and None not in shape:
            axes = [number for number, length in enumerate(shape) if length == 1]
        left_out = _numbers(axes, len(shape), opset)
        if any(shape[number] != 1 for number in left_out):
            raise _not_understood(node)
        return tuple(number for number in everything if number not in left_out)
    rank = len(shape) + len(axes or ())
    put_in = _numbers(axes, rank, opset)
    rest = iter(everything)
    return tuple(None if number in put_in else next(rest) for number in range(rank))


def _reshape(node: ir.Node, before: Dims, proofs: Proofs) -> Kept:
    after = proofs.of(node.outputs[0]).shape
    if after is None:
        raise _not_understood(node)
    old = [number for number, length in enumerate(before) if length != 1]
    new = [number for number, length in enumerate(after) if length != 1]
    lengths = [before[number] for number in old]
    if None in lengths:
        _values(node, 1, proofs)  # or it may fail in some runs
    # One length that is not certain is what the others leave over, before as after.
    if lengths != [after[number] for number in new] or lengths.count(None) > 1:
        raise NotRegular(f"Reshape {node_label(node)} changes more of its pieces than axes of length 1")
    was = dict(zip(new, old, strict=True))
    return tuple(was.get(number) for number in range(len(after)))


def _axes(node: ir.Node, opset: int, proofs: Proofs) -> Sequence[int] | None:
    """The axes that a Squeeze or Unsqueeze names; None if it names none."""
    if opset < AXES_ARE_AN_INPUT:
        return node.attributes.get_ints("axes", None)
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    return [int(axis) for axis in _values(node, 1, proofs)]


def _numbers(axes: Sequence[int] | None, rank: int, opset: int) -> list[int]:
    """The axes counted from the first."""
    if axes is None:
        raise NotRegular("axes of length 1 that are left out are not certain")
    lowest = -rank if opset >= AXES_MAY_BE_NEGATIVE else 0
    numbers = [axis % rank for axis in axes if lowest <= axis < rank]
    if not numbers or len(set(numbers)) < len(axes):
        raise NotRegular("axes of length 1 are put in or left out in a way that is not valid")
    return numbers


def _split(node: ir.Node, box: Box, opset: int) -> list[Box]:
    number, length = _axis(node, box)
    sizes = known_sizes(node, opset, length)
    if isinstance(sizes, Skip):
        raise NotRegular(f"of Split {node_label(node)}: {sizes.reason}")
    offsets = itertools.accumulate(sizes, initial=0)
    return [box.cut(number, offset, size) for offset, size in zip(offsets, sizes, strict=False)]


def _slice(node: ir.Node, box: Box, opset: int, proofs: Proofs) -> Box:
    if opset < SLICES_BY_INPUTS:
        starts = list(node.attributes.get_ints("starts", ()))
        ends = list(node.attributes.get_ints("ends", ()))
        axes = list(node.attributes.get_ints("axes", range(len(starts))))
        steps = [1] * len(starts)
    else:
        starts, ends = (_values(node, index, proofs).tolist() for index in (1, 2))
        given = [index < len(node.inputs) and node.inputs[index] is not None for index in (3, 4)]
        axes = _values(node, 3, proofs).tolist() if given[0] else list(range(len(starts)))
        steps = _values(node, 4, proofs).tolist() if given[1] else [1] * len(starts)
    numbers = _numbers(axes, len(box.axes), AXES_MAY_BE_NEGATIVE)
    if not len(starts) == len(ends) == len(numbers) == len(steps) or set(steps) != {1}:
        raise _not_understood(node)
    for number, start, end in zip(numbers, starts, ends, strict=True):
        length = box.shape[number]
        if length is None:
            raise _not_understood(node)
        first, last, _ = slice(start, end).indices(length)
        box = box.cut(number, first, last - first)
    return box


def _gather(node: ir.Node, box: Box, proofs: Proofs) -> Box:
    number, length = _axis(node, box)
    indices = _values(node, 1, proofs, ranks=(0, 1))
    if indices.size == 0 or indices.min() < -length or indices.max() >= length:
        raise _not_understood(node)
    positions = indices.reshape(-1) % length
    first = int(positions[0])
    if not np.array_equal(positions, np.arange(first, first + positions.size)):
        raise NotRegular(f"Gather {node_label(node)} does not take neighbours in their order")
    part = box.cut(number, first, positions.size)
    if indices.ndim == 1:
        return part
    return part.changed(tuple(each for each in range(len(box.axes)) if each != number))


def _axis(node: ir.Node, box: Box) -> tuple[int, int]:
    """The axis that a node cuts, counted from the first, and its length."""
    axis, rank = node.attributes.get_int("axis", 0), len(box.axes)
    length = box.shape[axis] if -rank <= axis < rank else None
    if length is None:
        raise NotRegular(f"the length that {node.op_type} {node_label(node)} cuts is not certain")
    return axis % rank, length


def _values(node: ir.Node, index: int, proofs: Proofs, ranks: tuple[int, ...] = (1,)) -> Array:
    """The integers of an input that says how to cut."""
    value = node.inputs[index]
    values = proofs.of(value).values if value is not None else None
    if values is None or values.ndim not in ranks or values.dtype.kind != "i":
        raise _not_understood(node)
    return values


def _not_understood(node: ir.Node) -> NotRegular:
    return NotRegular(f"it is not certain which pieces {node.op_type} {node_label(node)} makes")
