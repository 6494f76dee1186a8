"""Sum as a chain of Add. Exact.

Removes: Sum, which has no WebGPU kernel in any ONNX Runtime release so far. It runs on the CPU,
with a copy from the GPU for every input and one back.

    Sum(a, b, c, d) = Add(Add(Add(a, b), c), d)        Sum(a) = Identity(a)

A chain from the left and not a balanced tree, since floating-point addition is not associative and
the CPU kernel adds from the left. Same bits with optimizations disabled. At the default level the
runtime may fuse an Add where it does not fuse a Sum (Conv + Add, MatMul + Add), which changes rounding: the
gate ``exact_unoptimized`` measures and states that. Left alone are
- a constant 0 to add, as the runtime removes such an Add and so the sign of -0;
- one input that may be float16: Sum computes in float32 on the CPU where Identity does not, and what is
  moved before and behind is rounded or not by that;
- what may be float16 where another Add or Sum adds up the same, as the runtime makes one of two equal Adds,
  and then of what moves them, and rounds or not by that.
Source: onnxruntime's CPU kernel of Sum, and the operator's broadcasting since opset 8.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from hubpublish.model import FreshNames, Scope, constant_of
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.half.sums import sums_like_others
from hubpublish.passes.half.trees import HalfTrees
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types

SUM_BROADCASTS = 8  # opset; the shapes had to be equal before, and the runtime fails if they are not


class SumToAdd(RewritePass[PassOptions]):
    """Sum as a left-to-right chain of Add; Sum of one input as Identity."""

    name = "sum_to_add"
    exact = True
    summary = "Sum becomes a chain of Add from the left, or Identity"
    failure = (
        "`Sum` has no WebGPU kernel in ONNX Runtime: it runs on the CPU, and each of its inputs is copied "
        "from the GPU and its output back."
    )
    op_types = frozenset({"Sum"})

    def prepare(self, model: ir.Model) -> None:
        self._proofs = Proofs(model)
        self._types = Types(model, self._proofs)
        self._half = HalfTrees(model, self._proofs, self._types)
        self._like_others: dict[ir.Graph, frozenset[ir.Node]] = {}

    def concerns(self, node: ir.Node) -> bool:
        return True

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        if not node.inputs or any(value is None for value in node.inputs):
            return Skip("has an empty input, which Sum does not allow")
        if scope.opset is not None and scope.opset < SUM_BROADCASTS and not self._of_one_shape(node):
            return Skip("takes only equal shapes before opset 8, which are not certain; Add would broadcast")
        if (wrong := self._of_other_type(node, scope)) is not None:
            return Skip(f"input {wrong!r} is of a type that Sum of opset {scope.opset} does not take")
        if any(_is_zero(value) for value in node.inputs):
            return Skip(
                "adds a constant 0, which ONNX Runtime leaves out of an Add, and so keeps -0 as it is"
            )
        make = NodeMaker(node, names)
        total, *others = node.inputs
        if not others:
            if not self._half.allows_copy(node):
                return Skip("may copy float16, at which what is moved around it is rounded otherwise")
            return Replacement(make.nodes, make("Identity", [total]))
        if not self._half.allows_merging(node) and self._is_like_another(node):
            return Skip("may add up float16 as another node does, with which the runtime may merge it")
        for value in others:
            (total,) = make("Add", [total, value])
        assert total is not None
        return Replacement(make.nodes, [total])

    def _is_like_another(self, node: ir.Node) -> bool:
        assert isinstance(node.graph, ir.Graph)
        if node.graph not in self._like_others:  # asked before anything of it is replaced, or is float16
            self._like_others[node.graph] = sums_like_others(node.graph)
        return node in self._like_others[node.graph]

    def _of_one_shape(self, node: ir.Node) -> bool:
        if len(set(node.inputs)) == 1:
            return True
        shapes = {self._proofs.of(value).shape for value in node.inputs if value is not None}
        (first, *others) = shapes
        return not others and first is not None and None not in first

    def _of_other_type(self, node: ir.Node, scope: Scope) -> str | None:
        """An input that Sum cannot take, if there is one: Add takes integers, and Identity anything."""
        assert scope.opset is not None
        taken = frozenset(onnx.defs.get_schema("Sum", scope.opset, "").inputs[0].types)
        given = [value for value in dict.fromkeys(node.inputs) if value is not None]
        return next((value.name for value in given if self._types.other_than(value, taken)), None)


def _is_zero(value: ir.Value | None) -> bool:
    constant = constant_of(value)
    return constant is not None and constant.size == 1 and not constant.any()
