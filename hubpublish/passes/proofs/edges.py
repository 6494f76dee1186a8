"""Whether the outermost slices of a tensor along an axis are certainly padding, all of one value.

Followed are operators that move whole axes: Identity, Transpose, and Reshape, Squeeze, Unsqueeze and
Flatten where the axis stays one, with the same elements before and behind it.
Source: the operators' definitions; Pad in constant mode fills with one value.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.proofs.facts import Proofs

PADS_ARE_AN_INPUT = 11  # opset; an attribute before

_REGROUPS = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def has_padded_ends(value: ir.Value, axis: int, proofs: Proofs) -> bool:
    """Whether the first and the last slice of ``value`` along ``axis`` hold one value and nothing else.

    Args:
        value: Any tensor.
        axis: Not negative.
        proofs: Of the model that ``value`` is in.
    """
    while (node := value.producer()) is not None:
        opset, shape = proofs.opset_for(node), proofs.of(value).shape
        source = node.inputs[0] if node.inputs else None
        if opset is None or shape is None or source is None:
            return False
        if node.op_type == "Pad":
            return opset >= PADS_ARE_AN_INPUT and _pads_both_ends(node, axis, len(shape), proofs)
        if node.op_type == "Transpose":
            axis = node.attributes.get_ints("perm", range(len(shape))[::-1])[axis]
        elif node.op_type in _REGROUPS:
            before = _before_regrouping(shape, axis, proofs.of(source).shape)
            if before is None:
                return False
            axis = before
        elif node.op_type != "Identity":
            return False
        value = source
    return False


def _before_regrouping(shape: Dims, axis: int, before: Dims | None) -> int | None:
    """The axis that ``axis`` of ``shape`` was, as a whole, when the elements had the shape ``before``."""
    if before is None or None in before or None in shape:
        return None
    ahead = math.prod(length or 0 for length in shape[:axis])
    product = 1
    for number, length in enumerate(before):
        if product == ahead and length == shape[axis]:
            return number
        product *= length or 0
    return None


def _pads_both_ends(pad: ir.Node, axis: int, rank: int, proofs: Proofs) -> bool:
    """Whether a Pad adds at least one constant element before and behind an axis."""
    _, pads, _, axes = (*pad.inputs, None, None, None)[:4]
    lengths = proofs.of(pads).values if pads is not None else None
    if lengths is None or pad.attributes.get_string("mode", "constant") != "constant":
        return False
    padded = list(range(rank))
    if axes is not None:
        named = proofs.of(axes).values
        if named is None:
            return False
        padded = [int(each) % rank for each in named]
    if axis not in padded or lengths.size != 2 * len(padded):
        return False
    begin, end = lengths.reshape(2, -1)[:, padded.index(axis)]
    return bool(begin >= 1 and end >= 1)
