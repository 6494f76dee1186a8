"""How large the parts of a Split are: read from the graph, or computed in it.

A Split says so in one of five ways: a second input (since opset 13), an attribute (before), equal
parts of a number that the outputs or ``num_outputs`` (since opset 18) give. Where the numbers are
known, the Splits of the tree get them as constants. Where only the length of the axis is missing,
either equal Splits nest (n = a * b), or the sizes are computed at run time from the input's shape,
so that a length that does not divide fails as it did before.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from hubpublish.model import constant_of
from hubpublish.model.constants import behind_identities
from hubpublish.passes.base import NodeMaker, Skip
from hubpublish.passes.proofs.certain import Certain
from hubpublish.passes.trees import Tree, grouped

SIZES_ARE_AN_INPUT = 13  # opset; an attribute before
LARGEST = 2**63 - 1
LAST_PART_MAY_BE_SMALLER = 18  # opset; the parts had to be equal before


class Sizes(abc.ABC):
    """The sizes of a Split's parts, and the tree in which they are to be split.

    Attributes:
        tree: The root's children; leaves are numbers of outputs.
    """

    tree: tuple[Tree, ...]

    @abc.abstractmethod
    def of_groups(self, groups: list[list[int]], make: NodeMaker) -> tuple[list[ir.Value], list[ir.Attr]]:
        """Further inputs and attributes of a Split whose outputs are these groups of parts."""


@dataclass
class KnownSizes(Sizes):
    """Numbers: constants in the graph, ``hidden`` behind an Identity where they were before.

    The runtime infers no shapes from those, so that wrong ones fail only when they are used, and a
    Loop that does not run even once makes outputs of other shapes.
    """

    tree: tuple[Tree, ...]
    sizes: list[int]
    opset: int
    hidden: bool = False

    def of_groups(self, groups: list[list[int]], make: NodeMaker) -> tuple[list[ir.Value], list[ir.Attr]]:
        totals = [sum(self.sizes[part] for part in group) for group in groups]
        if self.opset < SIZES_ARE_AN_INPUT:
            return [], [ir.AttrInt64s("split", totals)]
        constant = make.constant(totals)
        return list(make("Identity", [constant])) if self.hidden else [constant], []


@dataclass
class EqualSizes(Sizes):
    """Equal parts of an unknown length: equal Splits, nested; every level has equal groups."""

    tree: tuple[Tree, ...]

    def of_groups(self, groups: list[list[int]], make: NodeMaker) -> tuple[list[ir.Value], list[ir.Attr]]:
        return [], []


@dataclass
class ComputedSizes(Sizes):
    """Sizes that the graph computes: ``sizes`` is an int64 vector with one for each of ``count`` parts."""

    tree: tuple[Tree, ...]
    sizes: ir.Value
    count: int

    def of_groups(self, groups: list[list[int]], make: NodeMaker) -> tuple[list[ir.Value], list[ir.Attr]]:
        if all(len(group) == 1 for group in groups):
            return list(make("Gather", [self.sizes, make.constant([part for (part,) in groups])])), []
        member = np.zeros((len(groups), self.count), dtype=np.int64)
        for row, group in enumerate(groups):
            member[row, group] = 1
        (chosen,) = make("Mul", [self.sizes, make.constant(member)])
        keep = ir.AttrInt64("keepdims", 0)
        return list(make("ReduceSum", [chosen, make.constant([1])], [keep])), []


def find_sizes(
    node: ir.Node, opset: int, make: NodeMaker, width: int, *, known: Certain, axis_given: bool
) -> Sizes | Skip:
    """The sizes of the parts of ``node`` and a tree of at most ``width`` outputs a node, or why not.

    Args:
        node: The Split.
        opset: Version of ONNX's operator set in the node's scope.
        make: Makes the nodes that compute sizes.
        width: Most outputs that a Split may have.
        known: What is certain of the input to split.
        axis_given: Whether each call gives the attribute that ``axis`` refers to, if it does.
    """
    count = len(node.outputs)
    given = _given_sizes(node, opset)
    if isinstance(given, Skip):
        return given
    if given is not None:
        if len(given) != count:
            return Skip(f"its {len(given)} sizes do not go with its {count} outputs; the model is not valid")
        if min(given) < 0 or sum(given) > LARGEST:
            return Skip("its sizes are negative or too large; the model is not valid")
        return KnownSizes(grouped(count, width), given, opset, hidden=_hidden(node))
    length = _length(node, known)
    sizes = _equal(length, count, opset)
    if sizes is not None:
        return KnownSizes(grouped(count, width), sizes, opset)
    if length is not None and opset < LAST_PART_MAY_BE_SMALLER:  # later ones load, and fail when they run
        return Skip(f"an axis of length {length} has no {count} equal parts; the model is not valid")
    if opset < LAST_PART_MAY_BE_SMALLER and (nested := _nested_equally(list(range(count)), width)):
        return EqualSizes(nested)
    if opset < SIZES_ARE_AN_INPUT:
        return Skip(f"{count} equal parts of an unknown length cannot be split in equal groups")
    if not axis_given:
        return Skip("its axis is an attribute that calls of the function may leave out")
    return ComputedSizes(grouped(count, width), _computed_sizes(node, opset, make), count)


def known_sizes(node: ir.Node, opset: int, length: int) -> list[int] | Skip:
    """The sizes of the parts of a Split along an axis of that length, where they are numbers; or why not."""
    sizes = _given_sizes(node, opset)
    if sizes is None:
        sizes = _equal(length, len(node.outputs), opset)
    if isinstance(sizes, Skip):
        return sizes
    if sizes is None or len(sizes) != len(node.outputs) or min(sizes) < 0 or sum(sizes) != length:
        return Skip(f"an axis of length {length} cannot be split so; the model is not valid")
    return sizes


def _given_sizes(node: ir.Node, opset: int) -> list[int] | Skip | None:
    """The sizes that the node states; None if it states that the parts are equal."""
    if opset < SIZES_ARE_AN_INPUT:
        attribute = node.attributes.get("split")
        if attribute is None:
            return None
        if attribute.is_ref():
            return Skip("its sizes are an attribute of the function, different in each call")
        return list(attribute.as_ints())
    number = node.attributes.get("num_outputs")
    if len(node.inputs) < 2 or node.inputs[1] is None:
        if opset < LAST_PART_MAY_BE_SMALLER or _says(number, len(node.outputs)):
            return None
        return Skip("its num_outputs does not say how many outputs it has")
    if number is not None:
        return Skip("has both sizes and num_outputs, which is not valid")
    sizes = constant_of(node.inputs[1])
    if sizes is not None and (sizes.ndim != 1 or sizes.dtype != np.int64):
        return Skip("its sizes are not a vector of int64, which is not valid")
    if sizes is not None:
        return [int(size) for size in sizes]
    return Skip(_why_not_constant(node.inputs[1]))


def _hidden(node: ir.Node) -> bool:
    return len(node.inputs) > 1 and behind_identities(node.inputs[1]) is not node.inputs[1]


def _says(attribute: ir.Attr | None, number: int) -> bool:
    return attribute is not None and not attribute.is_ref() and attribute.as_int() == number


def _why_not_constant(sizes: ir.Value) -> str:
    source = behind_identities(sizes)
    if source is not None and source.is_initializer():
        return "its sizes are an initializer that a caller may override, so they are not certain"
    producer = source.producer() if source is not None else None
    if producer is not None and any(attribute.is_ref() for attribute in producer.attributes.values()):
        return "its sizes are an attribute of the function, different in each call"
    return "its sizes are computed at run time"


def _equal(length: int | None, count: int, opset: int) -> list[int] | None:
    """The sizes of equal parts; None if the length is unknown, or divides so that the runtime fails."""
    if length is None:
        return None
    part = -(-length // count)
    last = length - part * (count - 1)
    if last < 0 or (opset < LAST_PART_MAY_BE_SMALLER and last != part):
        return None
    return [part] * (count - 1) + [last]


def _length(node: ir.Node, known: Certain) -> int | None:
    """The length of the axis to split, if it is certain."""
    axis = node.attributes.get("axis")
    if known.shape is None or (axis is not None and axis.is_ref()):
        return None
    number = axis.as_int() if axis is not None else 0
    return known.shape[number] if -len(known.shape) <= number < len(known.shape) else None


def _nested_equally(parts: list[int], width: int) -> tuple[Tree, ...] | None:
    """A tree in which the children of every node hold equally many leaves; None if there is none."""
    if len(parts) <= width:
        return tuple(parts)
    for groups in range(min(width, len(parts) - 1), 1, -1):
        size, rest = divmod(len(parts), groups)
        if rest:
            continue
        chunks = [parts[start : start + size] for start in range(0, len(parts), size)]
        children = [_nested_equally(chunk, width) for chunk in chunks]
        if all(child is not None for child in children):
            return tuple(child for child in children if child is not None)
    return None


def _computed_sizes(node: ir.Node, opset: int, make: NodeMaker) -> ir.Value:
    """Nodes that compute the sizes of equal parts from the input's shape; an int64 vector.

    Part = ceil(length / count) where the last may be smaller, and floor before: then the sizes do
    not add up to a length that does not divide, and the first Split fails as the original does.
    """
    count = len(node.outputs)
    axis = node.attributes.get("axis")
    (shape,) = make("Shape", [node.inputs[0]])
    if axis is not None and axis.ref_attr_name is not None:
        (number,) = make("Constant", [], [ir.RefAttr("value_int", axis.ref_attr_name, ir.AttributeType.INT)])
        (number,) = make("Reshape", [number, make.constant([1])])
    else:
        number = make.constant([axis.as_int() if axis is not None else 0])
    (length,) = make("Gather", [shape, number])
    rounded = length
    if opset >= LAST_PART_MAY_BE_SMALLER:
        (rounded,) = make("Add", [length, make.constant([count - 1])])
    (part,) = make("Div", [rounded, make.constant([count])])
    (equal,) = make("Expand", [part, make.constant([count - 1])])
    if opset < LAST_PART_MAY_BE_SMALLER:
        return make("Concat", [equal, part], [ir.AttrInt64("axis", 0)])[0]
    (others,) = make("Mul", [part, make.constant([count - 1])])
    (last,) = make("Sub", [length, others])
    return make("Concat", [equal, last], [ir.AttrInt64("axis", 0)])[0]
