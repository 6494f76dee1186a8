"""What is given to operators that may compute differently with a constant than with what a node computes.

ONNX Runtime packs the constants of a MatMul or Conv when it creates a session, and then adds in another
order. What operators of other domains, and functions, do with a constant is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from hubpublish.passes.validity import why_not_onnx

PACKS: Final = frozenset(
    """
    Attention BatchNormalization Conv ConvInteger ConvTranspose DeformConv Einsum Gemm GRU GroupNormalization
    InstanceNormalization LayerNormalization LSTM MatMul MatMulInteger QLinearConv QLinearMatMul
    RMSNormalization RNN
    """.split()  # noqa: SIM905
)

#: Operators that give the elements of an input on, and the numbers of those inputs.
_GIVEN_ON: Final = {
    **dict.fromkeys(("Cast", "DequantizeLinear", "Expand", "Flatten", "Gather", "GatherElements"), (0,)),
    **dict.fromkeys(("GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile"), (0,)),
    **dict.fromkeys(("Transpose", "Trilu", "Unsqueeze"), (0,)),
    **dict.fromkeys(("Pad", "ScatterElements", "ScatterND"), (0, 2)),
    "Where": (1, 2),
}


class Packing:
    """Answers for one model, while what uses its values stays as it is.

    Args:
        model: Its nodes of other domains, and calls of functions, count as packing what they are given.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known: dict[ir.Value, str | None] = {}

    def by(self, value: ir.Value) -> str | None:
        """The type of a node that is given ``value``, moved or cast at most, and may pack it.

        None if there is no such node.
        """
        pending = [value]
        while pending:  # a stack, as chains may be longer than Python's is deep
            current = pending[-1]
            moved = [output for user, number in current.uses() for output in _given_on(user, number)]
            missing = [each for each in moved if each not in self._known]
            if missing and current not in self._known:
                pending += missing
                continue
            pending.pop()
            found = next((user.op_type for user in current.consumers() if self._packs(user)), None)
            self._known[current] = found or next(filter(None, map(self._known.get, moved)), None)
        return self._known[value]

    def _packs(self, node: ir.Node) -> bool:
        return node.op_type in PACKS or why_not_onnx(node, self._model) is not None


def _given_on(node: ir.Node, number: int) -> Iterator[ir.Value]:
    if node.op_type == "Concat" or number in _GIVEN_ON.get(node.op_type, ()):
        yield from node.outputs
