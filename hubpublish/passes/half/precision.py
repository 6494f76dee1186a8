"""Where ONNX Runtime certainly rounds to float16 on the CPU, so that nodes can change without changing bits.

Its CPU has no kernels for arithmetic in float16, but computes it in float32 and rounds the result. It
has some for operators that only move elements. But it runs one of these in float32 too where it stands
alone between arithmetic, and then does not round what it moves. Two of them in a row always round, and
a node counts for that which nothing uses. So to replace one by two, or by none, or to remove one, is
exact only where no other stands alone, or ceases to.
Source: onnxruntime's insert_cast_transformer.cc; the kernels and the bits of version 1.32.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from hubpublish.model.constants import behind_identities
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types

HALF: Final = frozenset({"tensor(float16)"})

#: Operators that move elements and have a kernel for float16 on the CPU. None is optimized away alone, as a
#: Slice of everything is; of several in a row it may be, except for these.
LASTING_MOVERS: Final = frozenset({"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"})
MOVERS: Final = LASTING_MOVERS | {
    *("Concat", "Flatten", "Reshape", "Split", "Squeeze", "Transpose", "Unsqueeze"),
}


class HalfPrecision:
    """Answers for one model."""

    def __init__(self, model: ir.Model, proofs: Proofs, types: Types) -> None:
        self._main = model.graph
        self._proofs = proofs
        self._types = types

    def allows_two(self, mover: ir.Node) -> bool:
        """Whether two nodes that move elements certainly do in the place of ``mover`` what it does."""
        (data, *_), (output, *_) = mover.inputs, mover.outputs
        if self._is_no_half(data) or self._is_given(data):
            return True
        return self._comes_from(data, MOVERS) or self._goes_to(output, MOVERS)

    def allows_none(self, mover: ir.Node) -> bool:
        """Whether an Identity, which may be optimized away, certainly does what ``mover`` does."""
        (data, *_), (output, *_) = mover.inputs, mover.outputs
        if self._is_no_half(data) or self._is_given(data):
            return True
        return self._comes_from(data, LASTING_MOVERS) and self._goes_to(output, LASTING_MOVERS)

    def allows_removal(self, unused: ir.Node) -> bool:
        """Whether what a node without a use is given is certainly rounded alike without it."""
        return all(
            value is None or self._is_no_half(value) or self._is_given(value) or _is_only_for(unused, value)
            for value in unused.inputs
        )

    def _is_no_half(self, value: ir.Value | None) -> bool:
        if value is None or self._types.never(value, HALF):
            return True
        return self._proofs.of(value).dtype not in (None, ir.DataType.FLOAT16)

    def _is_given(self, value: ir.Value | None) -> bool:
        """Whether no node computes it, in a run."""
        value = behind_identities(value)
        producer = value.producer() if value is not None else None
        if value is None or producer is not None:
            return producer is not None and self._is_own(producer, frozenset({"Constant"}))
        return value.is_initializer() or value.graph is self._main

    def _comes_from(self, value: ir.Value | None, op_types: frozenset[str]) -> bool:
        source = behind_identities(value)
        producer = source.producer() if source is not None else None
        # Of several outputs the runtime looks behind the first, so a Split may stand alone before others.
        return producer is not None and source is producer.outputs[0] and self._is_own(producer, op_types)

    def _goes_to(self, value: ir.Value, op_types: frozenset[str]) -> bool:
        """Whether such a node takes it, or the model gives it."""
        pending = [value]
        while pending:
            current = pending.pop()
            if current.is_graph_output() and current.graph is self._main:
                return True
            for node in current.consumers():
                if node.graph is value.graph and self._is_own(node, op_types):
                    return True
                if self._is_own(node, frozenset({"Identity"})):
                    pending.append(node.outputs[0])
        return False

    def _is_own(self, node: ir.Node, op_types: frozenset[str]) -> bool:
        return node.op_type in op_types and self._proofs.opset_for(node) is not None


def _is_only_for(node: ir.Node, value: ir.Value) -> bool:
    return not value.is_graph_output() and all(each is node for each in value.consumers())
