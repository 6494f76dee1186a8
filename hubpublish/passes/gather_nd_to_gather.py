"""GatherND of a deformable convolution as Gather on flattened data. Exact.

Removes: a GatherND of data with five axes, on which onnxruntime-web 1.22 fails to compile a shader;
1.23 runs it on the CPU, with copies of the largest tensors of the model. Later releases run it.

    GatherND(data [B0, B1, H, W, C...], Concat(y, x) [B0, B1, P, 2], batch_dims=2)
        = Gather(Reshape(data) [B0*B1*H*W, C...], Cast(Squeeze(y * W + x + batch * H*W)))

Equal only where 0 <= y < H and 0 <= x < W. A negative index is legal in GatherND and counts from the
end of its own axis; one too large fails, but here it would silently read another row. So both are
proved, against lengths that the data certainly has. The
arithmetic is in int64 up to one last Cast to int32, since int64 runs on the CPU and an earlier Cast
would double the copies between host and GPU. Both operators only move data: not a bit changes.
Source: the operators' definitions.
"""

from __future__ import annotations

import onnx_ir as ir

from hubpublish.model import FreshNames, Scope
from hubpublish.passes import loops
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.flat_gather import FlatGather, Shared, first_rows
from hubpublish.passes.gather_nd_site import Site, SiteFinder
from hubpublish.passes.loops import Loops
from hubpublish.passes.proofs.facts import Proofs

AXES_ARE_AN_INPUT = 13  # opset; of Squeeze; an attribute before


class GatherNdToGather(RewritePass[PassOptions]):
    """GatherND by clamped pairs of indices, as deformable convolutions use it, as Gather on flat data."""

    name = "gather_nd_to_gather"
    exact = True
    summary = "GatherND by clamped pairs of indices becomes Gather on flattened data"
    failure = (
        "`GatherND` with `batch_dims=2` on data of five axes has no WebGPU kernel that works before ONNX "
        "Runtime 1.24: it fails with a shader error, or runs on the CPU, and the largest tensors are copied."
    )
    op_types = frozenset({"GatherND"})

    def concerns(self, node: ir.Node) -> bool:
        return True

    def prepare(self, model: ir.Model) -> None:
        self._finder = SiteFinder(model, Proofs(model))
        self._shared: Shared = {}
        self._loops = Loops(model)
        self._indices: list[ir.Value] = []

    def finish(self, model: ir.Model) -> None:
        for value in self._indices:
            _remove_unused(value)

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        site = self._finder.find(node)
        if isinstance(site, Skip):
            return site
        if self._loops.may_see_more(node.outputs[0], site.shape):
            return Skip(loops.REASON)
        make = _RowMaker(NodeMaker(node, names), self._shared, scope)
        rows = make.rows(site)
        number = make.row_numbers(site)
        assert node.inputs[1] is not None
        self._indices.append(node.inputs[1])
        gathered = make.make("Gather", [rows, number], [ir.AttrInt64("axis", 0)])
        return Replacement(make.make.nodes, gathered)


class _RowMaker(FlatGather):
    """Makes the numbers of the rows in int64."""

    def row_numbers(self, site: Site) -> ir.Value:
        """The row for each point: [B0, B1, P], int32."""
        return self.once(("row numbers", *site.columns, site.lengths), lambda: self._row_numbers(site))

    def _row_numbers(self, site: Site) -> ir.Value:
        y, x = site.columns
        (number,) = self.make("Mul", [y, self.constant(site.lengths[-1])])
        (number,) = self.make("Add", [number, x])
        if (first := first_rows(site, len(site.points))) is not None:
            (number,) = self.make("Add", [number, self.constant(first)])
        (number,) = self._squeeze(number, len(site.points) - 1)
        return self.make("Cast", [number], [ir.AttrInt64("to", ir.DataType.INT32)])[0]

    def _squeeze(self, value: ir.Value, axis: int) -> tuple[ir.Value, ...]:
        # Not a Reshape: where there are no points, a 0 in its target would mean "copy".
        assert self._scope.opset is not None
        if self._scope.opset >= AXES_ARE_AN_INPUT:
            return self.make("Squeeze", [value, self.constant([axis])])
        return self.make("Squeeze", [value], [ir.AttrInt64s("axes", [axis])])


def _remove_unused(value: ir.Value) -> None:
    """Remove the Concat that made these indices, and Identities after it, unless something uses them."""
    node = value.producer()
    if node is None or node.graph is None or node.op_type not in ("Concat", "Identity"):
        return
    if value.uses() or value.is_graph_output():
        return
    source = node.inputs[0]
    node.graph.remove(node, safe=True)
    if node.op_type == "Identity" and source is not None:
        _remove_unused(source)
