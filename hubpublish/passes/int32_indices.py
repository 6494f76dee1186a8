"""Indices of a deformable convolution in int32, its GatherND as Gather. Exact.

Removes: index arithmetic in int64, which has no WebGPU kernel: the Cast, Slice, Add, Clip and Concat of
it run on the CPU, with a copy from the GPU and back for every GatherND. Slice has none of int32 either,
so what is sliced must still be float. Per axis of length n, of floats p (y) and q (x):

    GatherND(data [B0, B1, H, W, C...], Concat(Clip(Slice(Cast(p)) + offset, 0, H-1), ...), batch_dims=2)
        = Gather(Reshape(data) [B0*B1*H*W, C...], y * W + x + batch * H*W)
    i = Cast(Clip(Slice(p), -1, n-1), INT32)        y = Clip(i + offset, 0, n-1)          all of it int32

Exact, because a Cast rounds towards zero, so that it can change places with a clamp between whole
numbers that the type holds. The first Clip, for float32 only, keeps what is cast within int32; every
float16 is. It reaches as far beyond the axis as ``offset`` does. The second is for NaN, which the first
lets pass. So n is at most 2**24, with float16 2**11, and float16 must be whole numbers already.

No integer can hold 2**63 and more, +inf, and NaN. ONNX Runtime casts them to the smallest, of which the
original makes index 0; here it may be n-1. So both ends of both axes must be padding of one value.
All of that is proved, and bounds and lengths as for `gather_nd_to_gather`, which takes what is left:
it comes after this pass, and computes in int64.
Source: the operators' definitions; onnxruntime's kernels for WebGPU, and what its Cast makes of floats.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from hubpublish.model import FreshNames, Scope
from hubpublish.model.dead import remove_dead
from hubpublish.passes import loops
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.flat_gather import FlatGather, Shared, first_rows
from hubpublish.passes.int32_indices_site import Coordinate, Int32Site, Int32SiteFinder
from hubpublish.passes.loops import Loops
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.removes import Problem, Removes, removed_by
from hubpublish.passes.unfailing import unfailing_nodes_before

INDEX_OPS: Final = frozenset(
    {"Add", "Cast", "Clip", "Concat", "Mul", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze"}
)
_TO_INT32: Final = (ir.AttrInt64("to", ir.DataType.INT32),)


class Int32Indices(RewritePass[PassOptions]):
    """GatherND by clamped int64 indices that come from floats, as Gather by int32 ones."""

    name = "int32_indices"
    exact = True
    summary = "GatherND by int64 indices that are cast from floats becomes Gather by int32 indices"
    failure = (
        "The `GatherND` nodes take int64 indices, and arithmetic in int64 has no WebGPU kernel in ONNX "
        "Runtime: it runs on the CPU, with copies from the GPU and back. Before ONNX Runtime 1.24 `GatherND` "
        "with `batch_dims=2` on data of five axes fails with a shader error, or runs on the CPU, too."
    )
    op_types = frozenset({"GatherND"})
    removes = (
        *removed_by((), op_types, narrows=False),
        Removes(Problem.NO_KERNEL, INDEX_OPS, frozenset({"int64"}), on_the_way_to=op_types),
    )

    def concerns(self, node: ir.Node) -> bool:
        return True

    def prepare(self, model: ir.Model) -> None:
        self._proofs = Proofs(model)
        self._finder = Int32SiteFinder(model, self._proofs)
        self._loops = Loops(model)
        self._shared: Shared = {}
        self._repeated: dict[ir.Node, None] = {}
        self._indices: list[ir.Value | None] = []

    def finish(self, model: ir.Model) -> None:
        remove_dead([*self._repeated, *unfailing_nodes_before(self._indices, self._proofs)])

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        found = self._finder.find(node)
        if isinstance(found, Skip):
            return found
        if self._loops.may_see_more(node.outputs[0], found.site.shape):
            return Skip(loops.REASON)
        make = _Int32Maker(NodeMaker(node, names), self._shared, scope)
        inputs = [make.rows(found.site), make.row_numbers(found)]
        gathered = make.make("Gather", inputs, [ir.AttrInt64("axis", 0)])
        self._indices.append(node.inputs[1])
        # These may fail: the new nodes do so on the same inputs.
        self._repeated.update((each, None) for coordinate in found.coordinates for each in coordinate.nodes)
        return Replacement(make.make.nodes, gathered)


class _Int32Maker(FlatGather):
    """Makes the numbers of the rows in int32."""

    def row_numbers(self, found: Int32Site) -> ir.Value:
        """The row for each point: [B0, B1, P]."""
        shape = found.site.points[:-1]
        y, x = (self._clamped(each, shape) for each in found.coordinates)
        return self.once(("row numbers", y, x, found.site.lengths), lambda: self._row_numbers(found, y, x))

    def _row_numbers(self, found: Int32Site, y: ir.Value, x: ir.Value) -> ir.Value:
        width = self.constant(found.site.lengths[-1], np.int32)
        start = self.once(("row starts", y, width), lambda: self.make("Mul", [y, width])[0])
        (number,) = self.make("Add", [start, x])
        first = first_rows(found.site, len(found.site.points) - 1)
        return number if first is None else self.make("Add", [number, self.constant(first, np.int32)])[0]

    def _clamped(self, coordinate: Coordinate, shape: tuple[int, ...]) -> ir.Value:
        offset, last = coordinate.clamp.offset, int(coordinate.clamp.high)
        # Offsets 0 and 1, the two sides of a point, share their integers.
        bounds = (-max(offset, 1), last - min(offset, 0))
        whole = self.once(
            ("integers", *coordinate.key, shape, bounds), lambda: self._integers(coordinate, shape, bounds)
        )
        return self.once(
            ("clamped", whole, offset, last), lambda: self._offset_and_clamped(whole, offset, last)
        )

    def _integers(self, coordinate: Coordinate, shape: tuple[int, ...], bounds: tuple[int, int]) -> ir.Value:
        value = coordinate.floats
        for move in coordinate.moves:
            (value,) = self.make(move.op_type, [value, *move.inputs[1:]], list(move.attributes.values()))
        if coordinate.dtype == ir.DataType.FLOAT:
            value = self._clip(value, bounds, np.float32)
        (value,) = self.make("Cast", [value], _TO_INT32)
        # On the integers: one more node among floats may change what a run of them in float16 computes.
        return self.make("Reshape", [value, self.constant(shape)])[0]

    def _offset_and_clamped(self, value: ir.Value, offset: int, last: int) -> ir.Value:
        if offset:
            (value,) = self.make("Add", [value, self.constant(offset, np.int32)])
        return self._clip(value, (0, last), np.int32)

    def _clip(self, value: ir.Value, bounds: tuple[int, int], dtype: type[np.generic]) -> ir.Value:
        return self.make("Clip", [value, *(self.constant(bound, dtype) for bound in bounds)])[0]
