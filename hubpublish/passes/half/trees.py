"""Where a Split or Concat that may be float16 can become several in a row without changing bits on the CPU.

ONNX Runtime runs a node that only moves elements in float32, and then rounds nothing, where it stands
alone between arithmetic: if no output of it is the model's, some node gives it an input, and neither the
one before its first input nor one behind its first output runs in float16. Nodes are asked in their
order, and one that stands alone counts as arithmetic from then on. The Splits or Concats of a tree never
stand alone. So a tree is exact where the one certainly does not, whatever the optimizer does around it,
and where no other node, equal to one of the tree's, stands alone until the optimizer joins the two.
Source: onnxruntime's insert_cast_transformer.cc; the optimizer and the bits of version 1.32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from hubpublish.passes.half.precision import HALF, LASTING_MOVERS, HalfPrecision
from hubpublish.passes.half.search import may_have_halves
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types

#: Movers of one tensor, which the optimizer may remove or shift past others, but never puts arithmetic
#: in their place. A Slice is none: of several with a Concat it makes a node without a float16 kernel.
_PASSED: Final = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})

_DEEPEST: Final = 20  # nodes in a row of which each one stands alone unless the one before does not


class HalfTrees(HalfPrecision):
    """Answers for one model."""

    def __init__(self, model: ir.Model, proofs: Proofs, types: Types) -> None:
        super().__init__(model, proofs, types)
        self._none = not may_have_halves(model)

    def allows_tree(self, node: ir.Node) -> bool:
        """Whether several in a row certainly do what ``node``, a Split or Concat, does."""
        return self._is_other(node.inputs[0]) or (
            self._is_never_alone(node)
            and all(
                self._is_never_alone(twin)
                for value in dict.fromkeys(node.inputs)
                for twin in self._like(node, value)
            )
        )

    def allows_merging(self, node: ir.Node) -> bool:
        """Whether nothing is rounded otherwise if the optimizer merges ``node`` with an equal one."""
        return self._is_other(node.outputs[0])

    def allows_copy(self, node: ir.Node) -> bool:
        """Whether an Identity certainly does what ``node``, which computes, does with its one input."""
        value, (output,) = node.inputs[0], node.outputs
        return self._is_other(value) or (self._is_given(value) and not output.uses())

    def _is_other(self, value: ir.Value | None) -> bool:
        return self._none or self._is_no_half(value)

    def _like(self, node: ir.Node, value: ir.Value | None) -> Iterator[ir.Node]:
        """Other nodes of that type with ``value`` as their first input."""
        pending = [self._before(value)]
        while pending:
            current = pending.pop()
            for user, position in current.uses() if current is not None else ():
                if self._is_own(user, _PASSED):
                    pending += user.outputs
                elif user.op_type == node.op_type and user is not node and position == 0:
                    yield user

    def _before(self, value: ir.Value | None) -> ir.Value | None:
        """The value that ``value`` is made of by nodes that may be removed."""
        producer = value.producer() if value is not None else None
        while producer is not None and self._is_own(producer, _PASSED):
            value = producer.inputs[0]
            producer = value.producer() if value is not None else None
        return value

    def _is_never_alone(self, node: ir.Node, depth: int = 0) -> bool:
        """Whether a Split, a Concat or one of `LASTING_MOVERS` certainly runs in float16."""
        if all(value is None or self._is_given(value) for value in node.inputs):
            return True
        return self._goes_on(node.outputs[0]) or self._is_given_half(node.inputs[0], depth)

    def _is_given_half(self, value: ir.Value | None, depth: int) -> bool:
        """Whether the node before ``value`` certainly runs in float16, or casts to it."""
        value = self._before(value)
        producer = value.producer() if value is not None else None
        if producer is None:
            return False
        if self._is_own(producer, frozenset({"Cast"})):
            return self._types.never(producer.inputs[0], HALF) if producer.inputs[0] is not None else False
        if not self._lasts(producer):
            return False
        # When a node is asked whose first output goes to a mover, that one has not been asked yet.
        return value is producer.outputs[0] or (
            depth < _DEEPEST and self._is_never_alone(producer, depth + 1)
        )

    def _goes_on(self, value: ir.Value) -> bool:
        """Whether the model gives ``value``, or a node takes it that moves elements and is never removed."""
        pending, seen = [value], {value}
        while pending:
            current = pending.pop()
            if current.is_graph_output() and current.graph is self._main:
                return True
            for node in current.consumers():
                if node.graph is value.graph and self._lasts(node):
                    return True
                if node.graph is value.graph and self._is_own(node, _PASSED) and node.outputs[0] not in seen:
                    seen.add(node.outputs[0])
                    pending.append(node.outputs[0])
        return False

    def _lasts(self, node: ir.Node) -> bool:
        parts = {"Split": len(node.outputs), "Concat": len(node.inputs)}
        lasting = node.op_type in LASTING_MOVERS or parts.get(node.op_type, 0) > 1
        return lasting and "reduction" not in node.attributes and self._proofs.opset_for(node) is not None
