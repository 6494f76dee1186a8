"""Constant nodes become initializers of their graph. Exact.

Removes: tensors in Constant nodes, which cannot be stored as external data, which tools that look for
weights do not find, and which count as nodes.

    y = Constant<value = T>()    ->    an initializer y with the contents T

The name stays, and a Constant in a body becomes an initializer of the body. What stays: Constants in
functions, which have no initializers; Constants that are outputs; those that give a number or a list
and no tensor (``value_int``, ``value_floats``, ...); and tensors of fewer elements than ``min_elements``.
A model of an IR version below 4 is left alone: its initializers would have to be inputs.

Exact, because ONNX Runtime does the same when it loads a model. Seen at both optimization levels.
Source: onnx_ir's ``LiftConstantsToInitializersPass``; onnxruntime's graph/graph.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass
from pydantic import Field

from hubpublish.model import Scope, leftovers, scopes
from hubpublish.passes.base import PassOptions, PassOutcome, Skipped
from hubpublish.passes.tidy import TidyPass, note_node
from hubpublish.passes.validity import why_not_certain, why_not_onnx

INITIALIZERS_ALONE = 4  # IR version; before, an initializer is the default of an input


class LiftConstantsOptions(PassOptions):
    """Which Constants become initializers."""

    min_elements: int = Field(default=16, ge=0, description="Leave tensors of fewer elements as they are.")


class LiftConstants(TidyPass[LiftConstantsOptions]):
    """Makes initializers of the Constant nodes that hold a tensor."""

    name = "lift_constants"
    exact = True
    summary = "Constants of {min_elements} elements or more become initializers"
    Options = LiftConstantsOptions

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        if model.ir_version < INITIALIZERS_ALONE:
            reason = f"in IR version {model.ir_version} an initializer must be an input"
            outcome.skipped.append(Skipped(node="main", op="graph", scope="main", reason=reason))
            return
        found = [
            (node, scope)
            for scope in scopes(model)
            for node in scope.graph
            if node.op_type == "Constant" and scope.function is None
        ]
        wanted = [(node, scope) for node, scope in found if self._is_wanted(node, scope, model)][: self.limit]
        lifted = {node for node, _ in wanted}
        with _held([value for node, _ in found if node not in lifted for value in node.outputs]):
            LiftConstantsToInitializersPass(size_limit=self.options.min_elements)(model)
        for node, scope in wanted:
            note_node(outcome, node, scope)
            if node.outputs[0].type is not None:
                _declare(scope.graph, node.outputs[0].name)

    def _is_wanted(self, node: ir.Node, scope: Scope, model: ir.Model) -> bool:
        if why_not_onnx(node, model) or why_not_certain(node, scope, model):
            return False
        (output,), attribute = node.outputs, node.attributes.get("value")
        if attribute is None or len(node.attributes) > 1 or not output.name or output.is_graph_output():
            return False
        size: int = attribute.value.size
        return size >= self.options.min_elements


@contextmanager
def _held(values: Sequence[ir.Value]) -> Iterator[None]:
    """Have ``onnx_ir`` take these for outputs of their graphs, which it leaves alone."""
    outputs = [value.graph.outputs for value in values if value.graph is not None]
    for value, listed in zip(values, outputs, strict=True):
        listed.append(value)
    try:
        yield
    finally:
        for listed in outputs:
            listed.pop()


def _declare(graph: ir.Graph, name: str | None) -> None:
    """Keep the ``value_info`` that the file has for a name."""
    found = graph.meta.get(leftovers.KEY)
    if found is not None and name is not None:
        found.declared |= {name}
