"""Concat of many inputs as a tree of narrow Concats. Exact.

Removes: a Concat that binds more storage buffers than the device grants. ONNX Runtime Web up to 1.22
then fails with ``Too many storage buffers in shader. Current: 11, Max is 10``, or fails to compile
it; newer releases split it up themselves.

    Concat(x1, ..., xn) = Concat(Concat(x1, ..., xk), Concat(xk+1, ..., x2k), ...)

The tree has depth ceil(log_k n). A chain would copy the first inputs n / k times; in the tree each
value is copied at most once a level. Concat only moves data, so not a bit changes; where several may round
to float16 what one may not, it is left alone.
Source: the operator's definition; the limit is maxStorageBuffersPerShaderStage of WebGPU.
"""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir
from pydantic import Field

from hubpublish.model import FreshNames, Scope
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.half.trees import HalfTrees
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.trees import Tree, grouped


class ConcatTreeOptions(PassOptions):
    """Options of ``concat_tree``."""

    max_inputs: int = Field(default=6, ge=2, le=1_000_000, description="Most inputs a Concat may have.")


class ConcatTree(RewritePass[ConcatTreeOptions]):
    """Concat of many inputs as a tree of Concats with at most max_inputs inputs each."""

    name = "concat_tree"
    exact = True
    summary = "a Concat of many inputs becomes a tree of Concats with at most {max_inputs} inputs"
    failure = (
        "A Concat binds {slots} storage buffers. ONNX Runtime Web up to 1.22 cannot run "
        "a Concat that binds more than the device grants; newer releases split it up themselves."
    )
    narrows = True
    op_types = frozenset({"Concat"})
    Options: ClassVar[type[PassOptions]] = ConcatTreeOptions

    def prepare(self, model: ir.Model) -> None:
        proofs = Proofs(model)
        self._half = HalfTrees(model, proofs, Types(model, proofs))

    def concerns(self, node: ir.Node) -> bool:
        return len(node.inputs) > self.options.max_inputs

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        if any(value is None for value in node.inputs):
            return Skip("has an empty input, which Concat does not allow")
        if not self._half.allows_tree(node):
            return Skip("may join float16 between computations, which several Concats in a row may round")
        make = NodeMaker(node, names)

        def concat(tree: Tree) -> ir.Value | None:
            if isinstance(tree, int):
                return node.inputs[tree]
            # The axis is taken over as it is, also where it refers to a function's attribute.
            return make("Concat", [concat(child) for child in tree], list(node.attributes.values()))[0]

        root = concat(grouped(len(node.inputs), self.options.max_inputs))
        assert root is not None
        return Replacement(make.nodes, [root])
