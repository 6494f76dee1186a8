"""Splits that ONNX Runtime's optimizer takes for one although they have different numbers of parts.

Before opset 18 a Split without sizes makes as many equal parts as it has outputs. The optimizer merges nodes
that compute the same of the same inputs, and does not compare how many outputs they have: one of the two
then gives wrong parts. A rewrite would give the right ones, and so other bits: such Splits are left alone.
Seen with ONNX Runtime 1.32 at the default level.
"""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.constants import is_onnx
from hubpublish.passes.alike import Alike
from hubpublish.passes.split_sizes import LAST_PART_MAY_BE_SMALLER

REASON = (
    "ONNX Runtime takes it for another Split of the same input into another number of parts, and is wrong"
)


class MergedSplits:
    """Finds them all in one model, as it is now; some that are not merged may be among them."""

    def __init__(self, model: ir.Model) -> None:
        self._found: set[ir.Node] = set()
        for scope in scopes(model):
            if scope.opset is None or scope.opset >= LAST_PART_MAY_BE_SMALLER:
                continue
            splits = [node for node in scope.graph if is_onnx(node, "Split") and _has_no_sizes(node)]
            if len({len(node.outputs) for node in splits}) > 1:
                self._find(splits, scope.graph)

    def __contains__(self, node: ir.Node) -> bool:
        return node in self._found

    def _find(self, splits: list[ir.Node], graph: ir.Graph) -> None:
        numbers = Alike(graph)
        alike: dict[object, list[ir.Node]] = defaultdict(list)
        for node in splits:
            alike[numbers.of(node.inputs[0]), _axis(node)].append(node)
        for nodes in alike.values():
            if len({len(node.outputs) for node in nodes}) > 1:
                self._found.update(nodes)


def _has_no_sizes(node: ir.Node) -> bool:
    return len(node.inputs) == 1 and "split" not in node.attributes


def _axis(node: ir.Node) -> object:
    axis = node.attributes.get("axis")
    return 0 if axis is None else axis.ref_attr_name or axis.value
