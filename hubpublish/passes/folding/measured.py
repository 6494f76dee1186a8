"""What only Shapes are given that become constants: what of it goes, and which Shapes must stay.

ONNX Runtime folds a Shape by default, and then leaves out what nothing else takes, also if it could fail.
Here only what cannot fail goes. What stays is still given what it takes, so that this is not fused with what
follows, as it is without the rewrite: where that may be so the Shape has to stay, too.
Source: onnxruntime's constant_folding.cc; what version 1.32 does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx_ir as ir

from hubpublish.model.dead import remove_dead
from hubpublish.passes.folding.operators import MEASURES
from hubpublish.passes.fusing import Fusing
from hubpublish.passes.half.precision import HALF
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.reaches import Answers, reaches
from hubpublish.passes.unfailing import unfailing_nodes_before

STUCK = "without it the runtime would not fuse what it measures as it does, since a node that may fail stays"


class Measured:
    """What nothing uses without certain nodes, in a model as it is now.

    Args:
        model: The model.
        proofs: Of it.
        gone: Nodes that will go.
    """

    def __init__(self, model: ir.Model, proofs: Proofs, gone: Mapping[ir.Node, None]) -> None:
        self._gone = gone
        self._shapes = [node for node in gone if node.op_type in MEASURES]
        self._going = _going(gone)
        given = [node.inputs[0] for node in self._shapes]
        before = [value for value in given if value is not None and value.producer() in self._going]
        self._fusing = Fusing(model, proofs, types := Types(model, proofs)) if before else None
        # Without a node that is given float16, what gives it that may not be rounded.
        self._removable = {
            node: None
            for node in (unfailing_nodes_before(before, proofs) if before else ())
            if all(value is None or types.never(value, HALF) for value in node.inputs)
        }

    def stuck(self) -> list[ir.Node]:
        """The Shapes that must not go."""
        if self._fusing is None:
            return []
        fusing, stays, known = self._fusing, Answers(), Answers()

        def is_kept_apart(value: ir.Value) -> bool:
            node = value.producer()
            if not self._is_left(node) or node in self._removable:
                return False
            assert node is not None
            given = (each for each in node.inputs if each is not None)
            return any(fusing.is_shared(each, self._going, stays) for each in given)

        def before(value: ir.Value) -> Iterable[ir.Value]:
            node = value.producer()
            return [each for each in node.inputs if each is not None] if node and self._is_left(node) else []

        return [
            node
            for node in self._shapes
            if node.inputs[0] is not None and reaches(node.inputs[0], known, is_kept_apart, before)
        ]

    def _is_left(self, node: ir.Node | None) -> bool:
        """Whether a node will be there without a use."""
        return node in self._going and node not in self._gone

    def remove(self) -> None:
        """Remove what cannot fail, once the other nodes are gone."""
        remove_dead(self._removable)


def _going(gone: Collection[ir.Node]) -> dict[ir.Node, None]:
    """Some nodes, and those that only they use."""
    going = dict.fromkeys(gone)
    uses: dict[ir.Node, int] = {}
    pending = list(gone)
    while pending:
        for value in pending.pop().inputs:
            producer = value.producer() if value is not None else None
            if producer is None or producer in going:
                continue
            if producer not in uses:
                given = any(each.is_graph_output() for each in producer.outputs)
                uses[producer] = given + sum(len(each.uses()) for each in producer.outputs)
            uses[producer] -= 1
            if not uses[producer]:
                going[producer] = None
                pending.append(producer)
    return going
