"""Split into many outputs as a tree of narrow Splits. Exact.

Removes: a Split that binds more storage buffers than the device grants (one for its input and one
for each output; the sizes stay on the host). The runtime then fails with
``Too many storage buffers in shader. Current: 11, Max is 10``; onnxruntime-web before 1.24 fails
to compile a Split with 8 or more outputs at all.

    Split(x, [s1, ..., sn]) -> Split(Split(x, [s1 + ... + sk, sk+1 + ... + s2k, ...])[0], [s1, ..., sk]), ...

The tree has depth ceil(log_k n). Split only moves data, so not a bit changes; where several may round to
float16 what one may not, it is left alone. An omitted output gets a name and stays unused. Left alone are
also those whose sizes are not certain, and those that the runtime takes for another one.
Source: the operator's definition; the limit is maxStorageBuffersPerShaderStage of WebGPU.
"""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir
from pydantic import Field

from hubpublish.model import FreshNames, Scope
from hubpublish.model.scopes import always_given
from hubpublish.passes.base import NodeMaker, PassOptions, Replacement, RewritePass, Skip
from hubpublish.passes.half.trees import HalfTrees
from hubpublish.passes.loops import Loops
from hubpublish.passes.merged_splits import REASON, MergedSplits
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.split_sizes import ComputedSizes, Sizes, find_sizes
from hubpublish.passes.trees import Tree, leaves


class SplitTreeOptions(PassOptions):
    """Options of ``split_tree``."""

    max_outputs: int = Field(default=5, ge=2, le=1_000_000, description="Most outputs a Split may have.")


class SplitTree(RewritePass[SplitTreeOptions]):
    """Split into many outputs as a tree of Splits with at most max_outputs outputs each."""

    name = "split_tree"
    exact = True
    summary = "a Split into many outputs becomes a tree of Splits with at most {max_outputs} outputs"
    failure = (
        "A Split binds {slots} storage buffers, and ONNX Runtime stops with "
        "`Too many storage buffers in shader. Current: {slots}, Max is {limit}`."
    )
    narrows = True
    op_types = frozenset({"Split"})
    Options: ClassVar[type[PassOptions]] = SplitTreeOptions

    def prepare(self, model: ir.Model) -> None:
        self._model = model
        self._proofs = Proofs(model)
        self._merged = MergedSplits(model)
        self._half = HalfTrees(model, self._proofs, Types(model, self._proofs))
        self._loops = Loops(model)

    def concerns(self, node: ir.Node) -> bool:
        return len(node.outputs) > self.options.max_outputs

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        if not node.inputs or node.inputs[0] is None:
            return Skip("has no input to split")
        if node in self._merged:
            return Skip(REASON)
        if not self._half.allows_tree(node):
            return Skip("may split float16 between computations, which several Splits in a row may round")
        assert scope.opset is not None
        make = NodeMaker(node, names)
        sizes = find_sizes(
            node,
            scope.opset,
            make,
            self.options.max_outputs,
            known=self._proofs.of(node.inputs[0]),
            axis_given=self._axis_given(node, scope),
        )
        if isinstance(sizes, Skip):
            return sizes
        if isinstance(sizes, ComputedSizes) and self._loops.need_inferred:
            return Skip("the runtime infers no shapes from computed sizes; a Loop or Scan may need them")
        parts: dict[int, ir.Value] = {}

        def split(value: ir.Value, children: tuple[Tree, ...]) -> None:
            pieces = self._split(value, [leaves(child) for child in children], sizes, node, make)
            for child, piece in zip(children, pieces, strict=True):
                if isinstance(child, int):
                    parts[child] = piece
                else:
                    split(piece, child)

        split(node.inputs[0], sizes.tree)
        return Replacement(make.nodes, [parts[index] for index in range(len(node.outputs))])

    def _axis_given(self, node: ir.Node, scope: Scope) -> bool:
        axis = node.attributes.get("axis")
        if axis is None or axis.ref_attr_name is None or scope.function is None:
            return True
        return always_given(axis.ref_attr_name, scope.function, self._model)

    @staticmethod
    def _split(
        value: ir.Value, groups: list[list[int]], sizes: Sizes, node: ir.Node, make: NodeMaker
    ) -> tuple[ir.Value, ...]:
        inputs, attributes = sizes.of_groups(groups, make)
        axis = [attribute for name, attribute in node.attributes.items() if name == "axis"]
        return make("Split", [value, *inputs], [*axis, *attributes], outputs=len(groups))
