"""Nodes and initializers that nothing uses are removed. Exact.

Removes: nodes whose outputs nobody takes, which ONNX Runtime runs all the same, and weights that only
make the file larger. In every scope; what uses a value inside of a body counts.

What stays: outputs of the model and of bodies, and what only they need; optional outputs of nodes that
are used; initializers that are inputs, or that a quantization annotation names; nodes of other domains,
calls of functions, and nodes with bodies, which may do what nobody sees; and nodes that take floats
which others take too: float16, since ONNX Runtime rounds it or not by who takes it, and what it may fuse
with the others if these are alone. An unused node that fails on an input no longer does: this is the one
way in which the model may change.

Not built on onnx_ir's ``RemoveUnusedNodesPass``: it also drops optional outputs of used nodes, and
a MaxPool without its indices handles NaN differently in ONNX Runtime; it drops initializers that
annotations name, leaves those of bodies, and fails on a function that is given a graph.
Source: what ONNX Runtime 1.32 and onnx_ir 1.1 do.
"""

from __future__ import annotations

import onnx_ir as ir

from hubpublish.model import Scope, node_label, scopes
from hubpublish.model.rewire import detach, remove
from hubpublish.model.scopes import graph_attributes
from hubpublish.model.statistics import op_name
from hubpublish.passes.base import PassOptions, PassOutcome, Skipped
from hubpublish.passes.fusing import Fusing
from hubpublish.passes.half.precision import HalfPrecision
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.tidy import TidyPass, note_initializer, note_node
from hubpublish.passes.validity import why_not_onnx


class RemoveUnused(TidyPass[PassOptions]):
    """Removes nodes of ONNX's own operators, and initializers, that nothing uses."""

    name = "remove_unused"
    exact = True
    summary = "Nodes and initializers that nothing uses are removed"

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        proofs = Proofs(model)
        types = Types(model, proofs)
        self._half = HalfPrecision(model, proofs, types)
        # What keeps others from being fused is found before anything goes.
        unused = (node for scope in scopes(model) for node in scope.graph if self._may_go(node, model))
        self._needed = Fusing(model, proofs, types).needed_among(unused)
        # What is inside of a body before what is around it, and last nodes before first.
        for scope in reversed([*scopes(model)]):
            gone = [node for node in reversed(scope.graph) if self._remove(node, scope, model, outcome)]
            remove(gone)
            for value in [*scope.graph.initializers.values()]:
                if not (self._is_used(value) or value.is_graph_input() or self.is_done(outcome)):
                    assert value.name is not None
                    del scope.graph.initializers[value.name]
                    note_initializer(outcome, value, scope)

    def _is_used(self, value: ir.Value) -> bool:
        return bool(value.uses()) or self.is_kept(value)

    def _may_go(self, node: ir.Node, model: ir.Model) -> bool:
        """Whether a node may go where nothing uses it."""
        if not node.outputs or any(map(self.is_kept, node.outputs)) or graph_attributes(node):
            return False
        return why_not_onnx(node, model) is None

    def _remove(self, node: ir.Node, scope: Scope, model: ir.Model, outcome: PassOutcome) -> bool:
        """Have an unused node use nothing any more, and return whether it may leave its graph."""
        if not node.outputs or any(map(self._is_used, node.outputs)) or self.is_done(outcome):
            return False
        reason = why_not_onnx(node, model)
        if not self._half.allows_removal(node):
            reason = reason or "takes float16 that is used elsewhere, and may be rounded otherwise without it"
        if node in self._needed:
            reason = reason or "keeps others from being fused, which would round otherwise"
        if graph_attributes(node):
            reason = reason or "has a body, which may do what nobody sees"
        if reason:
            skipped = Skipped(node=node_label(node), op=op_name(node), scope=scope.label, reason=reason)
            outcome.skipped.append(skipped)
            return False
        detach(node)
        note_node(outcome, node, scope)
        return True
