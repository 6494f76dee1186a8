"""Finding the GatherND of a deformable convolution, and proving all that its replacement relies on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from hubpublish.model.constants import behind_identities
from hubpublish.passes.base import Skip
from hubpublish.passes.half.precision import HalfPrecision
from hubpublish.passes.proofs.bounds import Bounds, IndexBounds
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.validity import why_not_valid

BATCH_DIMS = 2
LARGEST_INT32 = 2**31 - 1
NAMES = ("first", "second")
STRINGS = frozenset({"tensor(string)"})


@dataclass(frozen=True)
class Site:
    """A GatherND with batch_dims 2 whose indices are pairs (y, x), each certainly within its axis.

    Attributes:
        data: [B0, B1, H, W, C...].
        lengths: (B0, B1, H, W); none is zero and their product is less than 2**31.
        features: The lengths C..., none of them zero and at most one of them not known.
        columns: y and x, both of the shape ``points``.
        points: (B0, B1, P, 1); the axis P may also be missing, or be several.
    """

    data: ir.Value
    lengths: tuple[int, ...]
    features: Dims
    columns: tuple[ir.Value, ir.Value]
    points: tuple[int, ...]

    @property
    def shape(self) -> Dims:
        """Of what is gathered."""
        return (*self.points[:-1], *self.features)


class NotProved(Exception):  # noqa: N818 - says why a node is left alone, which is no error
    """The reason why a node must be left alone."""


class SiteFinder:
    """Finds the sites of one model; what is proved for one serves for the next."""

    def __init__(self, model: ir.Model, proofs: Proofs) -> None:
        self._proofs = proofs
        self._bounds = IndexBounds(self._proofs)
        self._types = Types(model, self._proofs)
        self._half = HalfPrecision(model, self._proofs, self._types)

    def find(self, node: ir.Node) -> Site | Skip:
        """The GatherND as a site to rewrite, or what of it is not proved."""
        try:
            return self._site(node)
        except NotProved as reason:
            return Skip(str(reason))

    def _site(self, node: ir.Node) -> Site:
        _check_batch_dims(node)
        data, indices = (*node.inputs, None, None)[:2]
        if data is None or indices is None:
            raise NotProved("does not have the two inputs that GatherND takes")
        columns, axis = self._columns(indices)
        points = self._points(columns, axis)
        lengths, features = self._data(data, points)
        for name, column, length in zip(NAMES, columns, lengths[BATCH_DIMS:], strict=True):
            _check_bounds(name, self._bounds.of(column), length)
        if math.prod(lengths) > LARGEST_INT32:
            raise NotProved(f"the {math.prod(lengths)} rows of the data are too many for a 32-bit index")
        if not self._types.never(data, STRINGS):
            # Seen with ONNX Runtime 1.32 on the CPU, which leaves the other strings of the row empty.
            raise NotProved("the data may be strings, of which Gather copies one a row in ONNX Runtime")
        if not self._half.allows_two(node):
            raise NotProved("the data may be float16 between computations, where two nodes may round it")
        return Site(data, lengths, features, columns, points)

    def _columns(self, indices: ir.Value) -> tuple[tuple[ir.Value, ir.Value], int]:
        """The two inputs of the Concat that makes the indices, and its axis."""
        source = behind_identities(indices)
        concat = source.producer() if source is not None else None
        opset = self._proofs.opset_named_for(concat) if concat is not None else None
        if concat is None or concat.op_type != "Concat" or opset is None:
            raise NotProved("its indices do not come from a Concat of two columns")
        if reason := why_not_valid(concat, opset):  # it will be gone, and with it what was wrong
            raise NotProved(f"the Concat of its indices {reason}")
        if len(concat.inputs) != 2:
            raise NotProved(
                f"its indices come from a Concat of {len(concat.inputs)} inputs, not of two columns"
            )
        first, second = concat.inputs
        if first is None or second is None:
            raise NotProved("the Concat of its indices has an empty input, which Concat does not allow")
        axis = concat.attributes.get_int("axis")
        assert axis is not None
        return (first, second), axis

    def _points(self, columns: tuple[ir.Value, ir.Value], axis: int) -> tuple[int, ...]:
        """The shape that both columns certainly have: the batch, any points, and 1."""
        shapes = []
        for name, column in zip(NAMES, columns, strict=True):
            shape = self._proofs.of(column).shape
            if shape is None:
                raise NotProved(f"the shape of the {name} index column is not certain")
            shapes.append(_certain(shape, f"the {name} index column"))
        if shapes[0] != shapes[1]:
            raise NotProved(f"the index columns differ in shape: {_text(shapes[0])} and {_text(shapes[1])}")
        shape = shapes[0]
        if len(shape) <= BATCH_DIMS or shape[-1] != 1 or axis not in (-1, len(shape) - 1):
            raise NotProved(f"its indices, {_text(shape)} twice along axis {axis}, are not two columns")
        return shape

    def _data(self, data: ir.Value, points: tuple[int, ...]) -> tuple[tuple[int, ...], Dims]:
        """The lengths of batch, height and width, and what is known of those after them."""
        shape = self._proofs.of(data).shape
        if shape is None:
            raise NotProved("the shape of the data is not certain")
        if len(shape) < BATCH_DIMS + 2:
            raise NotProved(
                f"the data has {len(shape)} axes; with pairs of indices it needs {BATCH_DIMS + 2}"
            )
        lengths = _certain(shape[: BATCH_DIMS + 2], "the data")
        if lengths[:BATCH_DIMS] != points[:BATCH_DIMS]:
            batches = f"{_text(lengths[:BATCH_DIMS])} and {_text(points[:BATCH_DIMS])}"
            raise NotProved(f"the batches of data and indices differ: {batches}")
        features = shape[BATCH_DIMS + 2 :]
        if features.count(None) > 1:
            _certain(shape, "the data")
        if 0 in shape:
            raise NotProved(f"the data is empty: {_text(shape)}")
        return lengths, features


def _check_batch_dims(node: ir.Node) -> None:
    attribute = node.attributes.get("batch_dims")
    if attribute is not None and attribute.is_ref():
        raise NotProved("its batch_dims is an attribute of the function, different in each call")
    batch_dims = attribute.as_int() if attribute is not None else 0
    if batch_dims != BATCH_DIMS:
        raise NotProved(f"its batch_dims is {batch_dims}; only {BATCH_DIMS} is replaced")


def _check_bounds(name: str, bounds: Bounds, length: int) -> None:
    ends = {"lower": bounds.low, "upper": bounds.high}
    unknown = [end for end, bound in ends.items() if math.isinf(bound)]
    if len(unknown) == 2:
        raise NotProved(f"the {name} index column is not clamped: lower and upper bound unknown")
    if unknown:
        raise NotProved(f"the {name} index column is clamped at one end only: {unknown[0]} bound unknown")
    if bounds.low < 0:
        raise NotProved(
            f"the {name} index column's lower bound {bounds.low} is negative, so it counts from the end"
        )
    if bounds.high >= length:
        raise NotProved(
            f"the {name} index column's upper bound {bounds.high} exceeds {length - 1}, "
            f"the last index of an axis of length {length}"
        )


def _certain(shape: Dims, what: str) -> tuple[int, ...]:
    for axis, length in enumerate(shape):
        if length is None:
            raise NotProved(f"the length of axis {axis} of {what} is not certain")
    return tuple(length for length in shape if length is not None)


def _text(shape: Dims) -> str:
    return f"[{', '.join('?' if length is None else str(length) for length in shape)}]"
