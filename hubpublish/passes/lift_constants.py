"""Constant nodes become initializers of their graph. Exact.

Removes: tensors in Constant nodes, which cannot be stored as external data, which tools that look for
weights do not find, and which count as nodes.

    y = Constant<value = T>()    ->    an initializer y with the contents T

The name stays, and a Constant in a body becomes an initializer of the body. What stays: Constants in
functions, which have no initializers; Constants that are outputs; those that give a number or a list
and no tensor (``value_int``, ``value_floats``, ...); and tensors of fewer elements than ``min_elements``.
A model of an IR version below 4 is left alone: its initializers would have to be inputs.

Exact, because ONNX Runtime does the same when it loads a model. Seen at both optimization levels.

Not built on onnx_ir's ``LiftConstantsToInitializersPass``: of a model with many Constants that stay, or many
outputs, it looks at all of them for each that it lifts.
Source: onnxruntime's graph/graph.cc.
"""

from __future__ import annotations

import onnx_ir as ir
from pydantic import Field

from hubpublish.model import Scope, leftovers, scopes
from hubpublish.model.rewire import remove, replace_uses
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
        replace_uses({node.outputs[0]: _lifted(node, scope) for node, scope in wanted})
        remove(node for node, _ in wanted)
        declared: dict[ir.Graph, set[str]] = {}
        for node, scope in wanted:
            note_node(outcome, node, scope)
            if node.outputs[0].type is not None:
                declared.setdefault(scope.graph, set()).add(node.outputs[0].name or "")
        for graph, names in declared.items():
            _declare(graph, names)

    def _is_wanted(self, node: ir.Node, scope: Scope, model: ir.Model) -> bool:
        if why_not_onnx(node, model) or why_not_certain(node, scope, model):
            return False
        (output,), attribute = node.outputs, node.attributes.get("value")
        if attribute is None or len(node.attributes) > 1 or not output.name or output.is_graph_output():
            return False
        size: int = attribute.value.size
        return size >= self.options.min_elements


def _lifted(node: ir.Node, scope: Scope) -> ir.Value:
    """An initializer that is all that the output of a Constant is."""
    output, tensor = node.outputs[0], node.attributes["value"].value
    value = ir.Value(
        name=output.name,
        shape=tensor.shape,
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
        metadata_props=dict(output.metadata_props),
    )
    value.meta.update(output.meta)  # onnx_ir keeps quantization annotations here
    scope.graph.register_initializer(value)
    return value


def _declare(graph: ir.Graph, names: set[str]) -> None:
    """Keep the ``value_info`` that the file has for names."""
    found = graph.meta.get(leftovers.KEY)
    if found is not None:
        found.declared |= names
