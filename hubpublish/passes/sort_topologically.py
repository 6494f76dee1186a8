"""Nodes in an order in which they can run. Exact.

Removes: nodes that stand before what they need, as some converters append them. Runtimes sort by
themselves; ``onnx.checker`` and many tools refuse such a file: ``Nodes in a graph must be topologically
sorted``. Every other pass of hubpublish sorts too; this one is for a recipe that does nothing else.

The order of nodes that do not need each other stays as it is. Bodies and functions are sorted as well.
Exact but for float16: which of its nodes ONNX Runtime computes in float32 on the CPU it decides in the order
in which they stand in the file. Casts have no part in that, so a file in which only they stand too late, as
converters to float16 append them, keeps its bits. Where one of two nodes in a row that move elements stands
before the one that it needs, there may be no sorted order that keeps them: verify such a rewrite.
Source: onnx_ir's ``TopologicalSortPass``.
"""

from __future__ import annotations

import onnx_ir as ir

from hubpublish.model import FreshNames, Scope
from hubpublish.passes.base import PassOptions, Replacement, RewritePass, Skip


class SortTopologically(RewritePass[PassOptions]):
    """Sorts the nodes of every graph and function, so that none stands before what it needs."""

    name = "sort_topologically"
    exact = True
    by_default = False
    summary = "Nodes are sorted, so that none stands before what it needs"
    op_types = frozenset()  # the base class sorts, and nothing else is to be done

    def concerns(self, node: ir.Node) -> bool:
        return False

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        return Skip("is only moved")
