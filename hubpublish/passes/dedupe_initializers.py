"""Initializers of the same contents become one. Exact.

Removes: weights that a file holds twice, as exporters and optimizers write those that two nodes share.

Same are those of one graph with the same type, shape and bytes, so that 0.0 and -0.0, or two NaN, may
be different. The first stays, and takes the place of the others. Every graph is looked at, bodies and
functions included, but none together with another. What stays: initializers that are inputs, which a
caller may override, or outputs, or that a quantization annotation names. So does a copy with which nodes
would be the same that are not: the runtime would compute them once, and fuse or round otherwise what takes
their results.

Else exact, because a kernel packs each constant that it is given, whoever else is given it too. Other than
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
from hubpublish.model.constants import constant_tensor_of
from hubpublish.model.external import let_go
from hubpublish.model.rewire import replace_uses
from hubpublish.passes.base import PassOptions, PassOutcome, Skipped
from hubpublish.passes.merging import Merging
from hubpublish.passes.tidy import INITIALIZER, TidyPass, note_initializer

MERGED = "nodes that are given it would be the same as others, with which the runtime would merge them"

_Kind = tuple[ir.DataType, tuple[object, ...]]


class DedupeInitializers(TidyPass[PassOptions]):
    """Replaces initializers by an earlier one of the same graph with the same type, shape and bytes."""

    name = "dedupe_initializers"
    exact = True
    summary = "Initializers of the same contents become one"

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        found = [(scope, self._copies(scope.graph)) for scope in scopes(model)]
        copies = {value: kept for _, each in found for value, kept in each.items()}
        merging = Merging({**copies, **{kept: kept for kept in copies.values()}}, _is_constant)
        merged = {value for value in copies if merging.changes(value)}
        for scope, each in found:
            same: dict[ir.Value, ir.Value] = {}
            for value, kept in each.items():
                if self.is_done(outcome):
                    break
                assert value.name is not None
                if value in merged:
                    skipped = Skipped(node=value.name, op=INITIALIZER, scope=scope.label, reason=MERGED)
                    outcome.skipped.append(skipped)
                    continue
                same[value] = kept
                del scope.graph.initializers[value.name]
                note_initializer(outcome, value, scope)
            replace_uses(same)

    def _copies(self, graph: ir.Graph) -> dict[ir.Value, ir.Value]:
        """Initializers that another one could take the place of, and which."""
        copies: dict[ir.Value, ir.Value] = {}
        for kind, values in _by_kind(graph).items():
            first: dict[object, ir.Value] = {}
            for value in values if len(values) > 1 else ():
                kept = first.setdefault(_contents(kind, value), value)
                if kept is not value and not self.is_kept(value):
                    copies[value] = kept
        return copies


def _is_constant(value: ir.Value) -> bool:
    return constant_tensor_of(value) is not None


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
