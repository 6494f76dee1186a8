"""Which values a Transpose may be moved behind by ONNX Runtime's optimizer.

It moves one past most operators that follow, as far as that makes others superfluous; sums are then added up
in another order.
Source: onnxruntime's onnx_transpose_optimization.cc.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx_ir as ir

#: Some operators past which the runtime's optimizer moves no Transpose; it moves them past most others.
KEEP_TRANSPOSES: Final = frozenset(
    {"Conv", "ConvTranspose", "Gather", "GatherND", "Gemm", "LayerNormalization", "MatMul"}
)


class Transposed:
    """Values such that a Transpose before them could be moved behind the nodes after it.

    Args:
        graphs: Sorted, those around others first. They are looked at once, when the first value is asked for.
    """

    def __init__(self, graphs: Iterable[ir.Graph]) -> None:
        self._graphs = graphs
        self._found: set[ir.Value] | None = None

    def __contains__(self, value: ir.Value) -> bool:
        if self._found is None:
            self._found = set()
            for graph in self._graphs:
                for node in graph:
                    moves = node.op_type not in KEEP_TRANSPOSES and any(
                        each in self._found for each in node.inputs
                    )
                    if moves or node.op_type == "Transpose":
                        self._found.update(node.outputs)
        return value in self._found
