"""Where an Add in the place of a float16 Sum may be merged with another Add, and so change what is rounded.

ONNX Runtime's optimizer merges nodes that compute the same, and then those behind them. Two nodes that only
move elements, one of them alone between arithmetic, so become one that is not alone, and rounds.
Seen with version 1.32.
"""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from hubpublish.model.constants import is_onnx
from hubpublish.passes.alike import Alike


def sums_like_others(graph: ir.Graph) -> frozenset[ir.Node]:
    """The Sums of a sorted graph for which another node adds up the same otherwise than by the same Sum."""
    alike = Alike(graph)
    found: dict[object, dict[object, list[ir.Node]]] = defaultdict(lambda: defaultdict(list))
    for node in graph:
        if is_onnx(node, "Add", "Sum"):
            way = (node.op_type, tuple(alike.of(value) for value in node.inputs))
            found[alike.of(node.outputs[0])][way].append(node)
    several = [ways for ways in found.values() if len(ways) > 1]
    return frozenset(
        node for ways in several for nodes in ways.values() for node in nodes if node.op_type == "Sum"
    )
