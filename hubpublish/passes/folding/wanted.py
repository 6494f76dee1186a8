"""Which nodes that depend on no input may be stored as constants, by what uses them and by their size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from hubpublish.passes.folding.cones import Cones, bytes_of
from hubpublish.passes.folding.operators import FLOATS
from hubpublish.passes.packing import Packing

AS_A_RULE = ""  # why an Identity stays: it may decide how the runtime packs a weight


@dataclass(frozen=True)
class Wanted:
    """Answers for one model.

    Attributes:
        model: The model.
        cones: What depends on no input in it.
        most_bytes: What one value may take.
        is_kept: Whether a graph gives a value, or an annotation names it.
    """

    model: ir.Model
    cones: Cones
    most_bytes: int
    is_kept: Callable[[ir.Value], bool]

    def why_not(self) -> dict[ir.Node, str]:
        """The nodes that must not be stored, and why."""
        floats, integers = (Packing(self.model, foreign=foreign) for foreign in (True, False))
        reasons = {}
        for node in self.cones.nodes:
            is_float = any(self.cones.facts[value].dtype in FLOATS for value in node.outputs)
            reason = self._why_not(node, floats if is_float else integers)
            if reason is not None:
                reasons[node] = reason
        return reasons

    def _why_not(self, node: ir.Node, packing: Packing) -> str | None:
        if node.op_type == "Identity":
            return AS_A_RULE
        if any(map(self.is_kept, node.outputs)):
            return "is an output of its graph, or named by a quantization annotation"
        for value in node.outputs:
            size, user = bytes_of(self.cones.facts[value]), packing.by(value)
            if user:
                return f"is given to {user}, which may compute differently with a constant"
            if size > self.most_bytes:
                return f"takes {size:,} bytes, more than {self.most_bytes:,}"
            if self.cones.facts[value].dtype == ir.DataType.FLOAT16 and not self.cones.halves.allow(value):
                return "what it is given to may be rounded differently with a constant"
        return None
