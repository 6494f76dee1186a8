"""A scatter of no updates as Identity. Exact.

Removes: ScatterND, ScatterElements or Scatter whose updates have no elements, as an exporter writes an
assignment to an empty slice. The WebGPU kernel starts a shader for the updates, and where there are
none the run fails: ``Invalid dispatch group size (0, 1, 1)``.

    ScatterND(data, indices, updates) = Identity(data)        if updates has no elements

Whether it has is known from its shape alone, which is proved, and so are the shapes that the operator
wants: a node that fails for its shapes is left alone, so that it still does. What only the indices and
updates were computed from goes too, unless it can fail itself. So that not a bit changes, one is left alone
that stands between nodes which the runtime may fuse, as it leaves out an Identity.
Source: the operators' definitions; onnxruntime's webgpu/tensor/scatter_nd.cc and program_manager.cc.
"""

from __future__ import annotations

import onnx_ir as ir

from hubpublish.model import FreshNames, Scope
from hubpublish.model.dead import remove_dead
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.fusing import Fusing
from hubpublish.passes.half.precision import HalfPrecision
from hubpublish.passes.proofs.certain import Certain, Dims
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.removes import Problem, Removes
from hubpublish.passes.unfailing import unfailing_nodes_before


class DropEmptyScatter(RewritePass[PassOptions]):
    """ScatterND, ScatterElements or Scatter of updates without elements as Identity of the data."""

    name = "drop_empty_scatter"
    exact = True
    summary = "A scatter of no updates becomes Identity"
    failure = (
        "A scatter whose updates are empty fails on the WebGPU execution provider of ONNX Runtime Web: "
        "`Invalid dispatch group size (0, 1, 1)`."
    )
    op_types = frozenset({"Scatter", "ScatterElements", "ScatterND"})
    removes = (Removes(Problem.EMPTY, op_types),)

    def concerns(self, node: ir.Node) -> bool:
        return len(node.inputs) != 3 or not self._certainly_has_updates(node.inputs[2])

    def prepare(self, model: ir.Model) -> None:
        self._proofs = Proofs(model)
        types = Types(model, self._proofs)
        self._half = HalfPrecision(model, self._proofs, types)
        self._fusing = Fusing(model, self._proofs, types)
        self._dropped: list[ir.Value | None] = []

    def finish(self, model: ir.Model) -> None:
        unfailing = unfailing_nodes_before(self._dropped, self._proofs)
        needed = self._fusing.needed_among(unfailing)
        remove_dead(node for node in unfailing if node not in needed and self._half.allows_removal(node))

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        given = [self._proofs.of(value) if value is not None else None for value in node.inputs]
        data, indices, updates = given
        if data is None or indices is None or updates is None:
            return Skip(f"has an empty input, which {node.op_type} does not allow")
        if updates.shape is None or 0 not in updates.shape:
            return Skip("whether it has any updates is not certain")
        if reason := _why_it_may_fail(node, data, indices, updates):
            return Skip(reason)
        if not self._half.allows_none(node):
            return Skip("its data may be float16 between computations, which may not be rounded without it")
        if not self._fusing.allows_none(node):
            return Skip("keeps others from being fused, which would round otherwise")
        self._dropped += node.inputs[1:]
        make = NodeMaker(node, names)
        return Replacement(make.nodes, make("Identity", [node.inputs[0]]))

    def _certainly_has_updates(self, updates: ir.Value | None) -> bool:
        shape = self._proofs.of(updates).shape if updates is not None else None
        return shape is not None and None not in shape and 0 not in shape


def _why_it_may_fail(node: ir.Node, data: Certain, indices: Certain, updates: Certain) -> str | None:
    """Why the node may fail although it changes nothing, or None if it certainly does not."""
    if data.dtype is not None and updates.dtype is not None and data.dtype != updates.dtype:
        return f"its updates are of type {updates.dtype.name}, and its data of type {data.dtype.name}"
    if data.shape is None or indices.shape is None or updates.shape is None:
        return "the shapes of its data and indices are not certain, so it may fail"
    if node.op_type == "ScatterND":
        fits = _fits_nd(data.shape, indices.shape, updates.shape)
    else:
        fits = _fits_elements(data.shape, indices.shape, updates.shape, node.attributes.get_int("axis", 0))
    return None if fits else "the shapes of its inputs do not certainly fit, so it may fail"


def _fits_nd(data: Dims, indices: Dims, updates: Dims) -> bool:
    """Whether updates are [indices except for its last axis, data except for the axes that are indexed]."""
    depth = indices[-1] if indices else None
    if depth is None or depth > len(data):
        return False
    return None not in updates and updates == (*indices[:-1], *data[depth:])


def _fits_elements(data: Dims, indices: Dims, updates: Dims, axis: int) -> bool:
    """Whether updates are as long as indices, and those not longer than the data, except along the axis."""
    if len(indices) != len(data) or not -len(data) <= axis < len(data):
        return False
    most = [*data]
    most[axis] = indices[axis]
    inside = all(
        length is not None and limit is not None and length <= limit
        for length, limit in zip(indices, most, strict=True)
    )
    return inside and updates == indices
