"""Which nodes that depend on no input may be stored as constants, by what uses them and by their size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from hubpublish.model.constants import is_onnx
from hubpublish.passes.folding.cones import Cones, bytes_of
from hubpublish.passes.loops import Loops
from hubpublish.passes.packing import Packing
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.proofs.facts import Proofs

DECIDES = "decides an If, of which the runtime would then take a branch too soon"
AS_A_RULE = ""  # why an Identity stays: it may decide how the runtime packs a weight


@dataclass(frozen=True)
class Wanted:
    """Answers for one model.

    Attributes:
        model: The model.
        cones: What depends on no input in it.
        proofs: Of it.
        most_bytes: What one value may take.
        is_kept: Whether a graph gives a value, or an annotation names it.
    """

    model: ir.Model
    cones: Cones
    proofs: Proofs
    most_bytes: int
    is_kept: Callable[[ir.Value], bool]

    def why_not(self) -> dict[ir.Node, str]:
        """The nodes that must not be stored, and why."""
        packing, loops = Packing(self.model), Loops(self.model)
        reasons = dict.fromkeys(_deciding(self.cones), DECIDES)
        for node in self.cones.nodes:
            if node in reasons:
                continue
            reason = self._why_not(node, packing, loops)
            if reason is not None:
                reasons[node] = reason
        return reasons

    def _why_not(self, node: ir.Node, packing: Packing, loops: Loops) -> str | None:
        if node.op_type == "Identity":
            return AS_A_RULE
        if any(map(self.is_kept, node.outputs)):
            return "is an output of its graph, or named by a quantization annotation"
        for value in node.outputs:
            size, user = bytes_of(self.cones.facts[value]), packing.by(value)
            if user:
                return f"is given to {user}, which may compute differently with a constant"
            if self.cones.facts[value].shape != () and any(is_onnx(u, "Range") for u in value.consumers()):
                return "is given to Range, of which the runtime takes no constants but scalars"
            if size > self.most_bytes:
                return f"takes {size:,} bytes, more than {self.most_bytes:,}"
            if loops.may_see_constant(value, self._shape):
                return "the runtime may infer more of a shape with it, on which a Loop may depend"
            if self.cones.facts[value].dtype == ir.DataType.FLOAT16 and not self.cones.halves.allow(value):
                return "what it is given to may be rounded differently with a constant"
        return None

    def _shape(self, value: ir.Value) -> Dims | None:
        """The shape of a value, if all of it is certain."""
        shape = self.proofs.of(value).shape
        return None if shape is None or None in shape else shape


def _deciding(cones: Cones) -> set[ir.Node]:
    """The nodes by which the condition of an If is computed, and nothing else is read.

    The runtime takes the branch of an If whose condition is a constant. It does so before it has folded what
    is in the branch, or after, by how soon it sees that. Where a type is wrong in one order and not looked at
    in the other, only one of the two models loads.
    """
    found: set[ir.Node] = set()
    for node in reversed(cones.nodes):
        users = (user for value in node.outputs for user in value.consumers())
        if any(user in found or is_onnx(user, "If") for user in users):
            found.add(node)
    return found
