"""Where a constant, or the lack of a node that measures a shape, changes what is rounded to float16.

ONNX Runtime runs a node that has a kernel for float16 on the CPU in float32 all the same, and then does
not round what it is given, where it has an edge from another node, and all nodes before and behind it
have no such kernel. A Shape has one, a constant is no node, and does not count.
Source: onnxruntime's insert_cast_transformer.cc; the kernels of version 1.32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx_ir as ir

from hubpublish.model.constants import behind_identities, is_onnx
from hubpublish.model.scopes import graph_attributes
from hubpublish.passes.half.precision import HALF, HalfPrecision
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types

#: Operators that have a kernel for float16 on the CPU in some version, except for those with bodies.
NATIVE: Final = frozenset(
    """
    Attention BitCast Cast Celu Clip Compress Concat ConstantOfShape DequantizeLinear Dropout Expand Flatten
    Gather GatherElements GatherND Identity IsInf IsNaN LayerNormalization Max Min Mod Optional
    OptionalGetElement OptionalHasElement QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike
    Reshape ReverseSequence RotaryEmbedding Round Scatter ScatterElements ScatterND SequenceAt
    SequenceConstruct Shape Shrink Sign Slice Split SplitToSequence Squeeze TensorScatter Transpose Unsqueeze
    """.split()  # noqa: SIM905
)

#: Of them those that only move elements, each whole.
_MOVERS: Final = frozenset(
    """
    Concat Expand Flatten Gather GatherElements GatherND Identity Reshape ScatterElements ScatterND Slice
    Split Squeeze Transpose Unsqueeze
    """.split()  # noqa: SIM905
)


class Halves:
    """Answers for one model.

    Args:
        model: The model.
        proofs: Of it.
        is_constant: Whether a value, not one behind an Identity, depends on no input.
    """

    def __init__(self, model: ir.Model, proofs: Proofs, is_constant: Callable[[ir.Value], bool]) -> None:
        self._proofs = proofs
        self._is_constant = is_constant
        self._types = Types(model, proofs)
        self._half = HalfPrecision(model, proofs, self._types)

    def allow_without(self, measuring: ir.Node) -> bool:
        """Whether everything is certainly rounded alike without a Shape."""
        value = measuring.inputs[0]
        if value is None:
            return True
        while not (self._depends_on_no_input(value) or self._types.never(value, HALF)):
            node = value.producer()
            if node is None or graph_attributes(node):
                return True
            if self._proofs.opset_for(node) is None:
                return False
            if node.op_type not in NATIVE or node.op_type == "Cast":  # whose kernel is not taken for alone
                return True
            if node.op_type not in _MOVERS or not self._rounds_alike(node):
                return False
            if node.op_type != "Identity" or node.inputs[0] is None:
                return True
            value = node.inputs[0]  # which the runtime may leave out
        return True

    def allow(self, value: ir.Value) -> bool:
        """Whether all is certainly rounded alike, whether a node computes ``value`` or it is a constant."""
        if self._types.never(value, HALF):
            return True
        return all(user.op_type not in NATIVE or self._rounds_alike(user) for user in value.consumers())

    def _rounds_alike(self, node: ir.Node) -> bool:
        """Whether a node with a kernel for float16 rounds what it is given, or need not, in any case."""
        live = [value for value in node.inputs if value is not None and not self._depends_on_no_input(value)]
        halves = [value for value in live if not self._types.never(value, HALF)]
        if not halves:
            return True
        # Of several inputs the runtime looks at the first.
        alone = len(halves) == 1 or _is_computed(node.inputs[0])
        return halves[0] is node.inputs[0] and alone and self._half.allows_two(node)

    def _depends_on_no_input(self, value: ir.Value) -> bool:
        source = behind_identities(value)
        return source is not None and self._is_constant(source)


def _is_computed(value: ir.Value | None) -> bool:
    source = behind_identities(value)
    producer = source.producer() if source is not None else None
    return producer is not None and not is_onnx(producer, "Constant")
