"""Initializers of the same contents become one. Exact.

Removes: weights that a file holds twice, as exporters and optimizers write those that two nodes share.

Same are those of one graph with the same type, shape and bytes, so that 0.0 and -0.0, or two NaN, may
be different. The first stays, and takes the place of the others. Every graph is looked at, bodies and
functions included, but none together with another. What stays: initializers that are inputs, which a
caller may override, or outputs, or that a quantization annotation names.

Exact, because a kernel packs each constant that it is given, whoever else is given it too. Other than
an Identity between a weight and a MatMul, which keeps it from being packed, and is not touched here.
Seen with ONNX Runtime 1.32, at both optimization levels.

Not built on onnx_ir's ``DeduplicateHashedInitializersPass``: that drops initializers which annotations
name, does not look into functions, and compares strings by where they are in memory.
Source: the definition of initializers.
"""

from __future__ import annotations

import hashlib

import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.external import let_go
from hubpublish.model.rewire import replace_uses
from hubpublish.passes.base import PassOptions, PassOutcome
from hubpublish.passes.tidy import TidyPass, note_initializer

_Kind = tuple[ir.DataType, tuple[object, ...]]


class DedupeInitializers(TidyPass[PassOptions]):
    """Replaces initializers by an earlier one of the same graph with the same type, shape and bytes."""

    name = "dedupe_initializers"
    exact = True
    summary = "Initializers of the same contents become one"

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        for scope in scopes(model):
            same: dict[ir.Value, ir.Value] = {}
            for kind, values in _by_kind(scope.graph).items():
                first: dict[object, ir.Value] = {}
                for value in values if len(values) > 1 else ():
                    kept = first.setdefault(_contents(kind, value), value)
                    if kept is value or self.is_kept(value) or self.is_done(outcome):
                        continue
                    assert value.name is not None
                    same[value] = kept
                    del scope.graph.initializers[value.name]
                    note_initializer(outcome, value, scope)
            replace_uses(same)


def _by_kind(graph: ir.Graph) -> dict[_Kind, list[ir.Value]]:
    """Initializers that no caller can override, by type and shape: so most need not be read."""
    found: dict[_Kind, list[ir.Value]] = {}
    for value in graph.initializers.values():
        if value.const_value is not None and not value.is_graph_input():
            kind = (value.const_value.dtype, tuple(value.const_value.shape))
            found.setdefault(kind, []).append(value)
    return found


def _contents(kind: _Kind, value: ir.Value) -> object:
    """Equal for two values of that kind with the same elements."""
    tensor = value.const_value
    assert tensor is not None
    if kind[0] == ir.DataType.STRING:
        return tuple(tensor.numpy().flat)
    digest = hashlib.sha256(tensor.tobytes()).digest()
    let_go(tensor)
    return digest
