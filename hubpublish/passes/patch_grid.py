"""A grid of pieces of a tensor as Reshape, Transpose, Reshape. Exact.

Removes: the Splits and Concats of a patch grid, which bind a storage buffer for each piece. ONNX Runtime
stops with ``Too many storage buffers in shader. Current: 33, Max is 10``, or, for a Concat in releases of
ONNX Runtime Web up to 1.22, fails to compile it. Trees of narrow ones run, and copy the image at each level.

    x [C, G*h, G*w] -> Split into G columns, each one into G pieces [C, h, w] -> Concat of all along axis 0
        = Reshape(Transpose(Reshape(x, [C, G, h, G, w]), [3, 1, 0, 2, 4]), [G*G*C, h, w])

In general: pieces of equal size, of any tensor, on any axes, by Splits of Splits, Slices or Gathers, with or
without axes of length 1 that come and go, and any Concats of them in which the numbers of the pieces are
those of the places with their digits in another order: also an image out of the pieces, a stack of
them, and one Split whose parts are only joined again. Where a piece has another use as
well its Split stays, and only the Concat goes. The lengths along which pieces are cut are proved; one
other length may be unknown, such as the batch.

All of it only moves data. Yet bits could change elsewhere: where the runtime's optimizer moves a Transpose,
sums are added up in another order, and a float16 that a lone node moves may not be rounded. Nodes that keep
it from that are added; where none would, the grid is left alone, and so are Splits that the runtime takes
for others, and grids of the same pieces in other words, of which it would make one now.
Source: the operators' definitions; the limit is maxStorageBuffersPerShaderStage of WebGPU; onnxruntime's
onnx_transpose_optimization.cc and insert_cast_transformer.cc.
"""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir
from pydantic import Field

from hubpublish.model import FreshNames, Scope
from hubpublish.model.dead import remove_dead
from hubpublish.passes import loops
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.grids.site import Site, SiteFinder
from hubpublish.passes.loops import Loops
from hubpublish.passes.merged_splits import REASON, MergedSplits


class PatchGridOptions(PassOptions):
    """Options of ``patch_grid``.

    With the default every grid is replaced of which a node binds more than the 8 storage buffers that
    each WebGPU device grants: a Concat of 8 pieces binds 9. Smaller ones run as they are.
    """

    min_pieces: int = Field(
        default=8, ge=2, le=1_000_000, description="Fewest pieces that a grid must have to be replaced."
    )


class PatchGrid(RewritePass[PatchGridOptions]):
    """Pieces of a tensor that are put together in a regular order, as Reshape, Transpose, Reshape."""

    name = "patch_grid"
    exact = True
    summary = (
        "Splits into {min_pieces} or more equal pieces, which Concats put together in a regular order, "
        "become Reshape, Transpose, Reshape"
    )
    failure = (
        "Cutting a tensor into a grid of pieces and putting them together takes Splits and Concats that bind "
        "{slots} storage buffers, of which the device grants {limit}."
    )
    narrows = True
    op_types = frozenset({"Concat", "Split"})
    Options: ClassVar[type[PassOptions]] = PatchGridOptions

    def prepare(self, model: ir.Model) -> None:
        self._finder = SiteFinder(model, self.options.min_pieces)
        self._merged = MergedSplits(model)
        self._plans: dict[object, dict[ir.Node, Site | Skip]] = {}
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._unused: list[ir.Node] = []
        self._loops = Loops(model)

    def finish(self, model: ir.Model) -> None:
        remove_dead(self._unused)

    def concerns(self, node: ir.Node) -> bool:
        # All of a graph at once, since the Concats of a grid go together, the last one first.
        if node.graph not in self._plans:
            assert isinstance(node.graph, ir.Graph)
            self._plans[node.graph] = self._finder.plan(node.graph)
        return node in self._plans[node.graph]

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        site = self._plans[node.graph][node]
        if isinstance(site, Skip):
            return site
        if any(node in self._merged for node in site.between):
            return Skip(REASON)
        if self._loops.may_see(node.outputs[0], site.shape):
            return Skip(loops.REASON)
        make = NodeMaker(node, names)
        value = self._replaced.get(site.source, site.source)
        for op_type, numbers in site.steps:
            if op_type == "Reshape":
                (value,) = make("Reshape", [value, make.constant(numbers)])
            else:
                (value,) = make("Transpose", [value], [ir.AttrInt64s("perm", numbers)])
        self._replaced[node.outputs[0]] = value
        self._unused += site.between
        return Replacement(make.nodes, [value])
