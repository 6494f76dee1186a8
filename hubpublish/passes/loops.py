"""Whether a Loop may depend on how much ONNX Runtime infers about shapes.

A Loop that does not run even once makes outputs of the shape that the runtime infers for what its body gives,
with 0 for each length that it does not. So with such a Loop in a model, or in what is computed for it, a
rewrite from which more can be inferred, or less, changes what the model gives. Nothing is inferred where the
model declares all lengths.
Source: what onnxruntime 1.32 does, with optimizations off.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.constants import is_onnx
from hubpublish.passes.proofs.certain import Dims

REASON: Final = "the runtime may infer more of its shape than before, on which a Loop may depend"


class Loops:
    """Answers for one model."""

    def __init__(self, model: ir.Model) -> None:
        found = {
            node.op_type for scope in scopes(model) for node in scope.graph if is_onnx(node, "Loop", "Scan")
        }
        self._any = "Loop" in found
        self.need_inferred = bool(found)
        """Whether the model has a Loop, or a Scan, which fails without the shapes of its body's outputs."""

    def may_see(self, value: ir.Value, shape: Dims | None) -> bool:
        """Whether a Loop may give something else if the runtime infers another shape for ``value``.

        Args:
            value: What a rewrite is about.
            shape: All that can be inferred of it; None if that is not known.
        """
        return self._any and (shape is None or not _declares(value, shape))


def _declares(value: ir.Value, shape: Dims) -> bool:
    """Whether the model says which of its lengths ``value`` has, so that the runtime need not infer them."""
    declared = None if value.shape is None else tuple(value.shape)
    if declared is None or len(declared) != len(shape):
        return False
    return all(length in (None, said) for said, length in zip(declared, shape, strict=True))
