"""Which nodes may go once nothing uses them: those that cannot fail on an input.

ONNX Runtime runs a node also where nothing uses it, and fails with it. What fails before a rewrite
fails after, so a node is removed only if it succeeds in every run, or in none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx_ir as ir

from hubpublish.passes.proofs.facts import Proofs

#: Operators that no values make fail, only shapes.
_OF_ANY_VALUES: Final = frozenset(
    """
    Abs Add And Cast Ceil Clip Concat ConstantOfShape Equal Expand Flatten Floor Greater GreaterOrEqual
    Identity Less LessOrEqual Max Min Mul Neg Not Or Reshape Round Shape Size Slice Squeeze Sub Transpose
    Unsqueeze Where
    """.split()  # noqa: SIM905
)


def unfailing_nodes_before(values: Iterable[ir.Value | None], proofs: Proofs) -> list[ir.Node]:
    """The nodes that ``values`` are computed from, back to the last that cannot fail on some input.

    Args:
        values: Of the model of ``proofs``.
        proofs: Serve as proof that shapes, or what is computed, are the same in every run.
    """
    found: dict[ir.Node, None] = {}
    pending = list(values)
    while pending:
        value = pending.pop()
        node = value.producer() if value is not None else None
        if node is not None and node not in found and _never_fails(node, proofs):
            found[node] = None
            pending += node.inputs
    return list(found)


def _never_fails(node: ir.Node, proofs: Proofs) -> bool:
    if proofs.opset_for(node) is None:
        return False
    if node.op_type == "Constant" or all(proofs.of(value).values is not None for value in node.outputs):
        return True
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    shapes = [proofs.of(value).shape for value in values]
    return node.op_type in _OF_ANY_VALUES and all(shape is not None and None not in shape for shape in shapes)
