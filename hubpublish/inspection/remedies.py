"""Which passes may remove what is wrong with a node: asked of the passes, which declare it; none is tried."""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from hubpublish.devices.placement import Placement, Side
from hubpublish.model.statistics import op_name
from hubpublish.passes import PASSES
from hubpublish.passes.removes import Problem, Removes, removed_by


class Remedies:
    """Answers for one model that is placed."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._by_problem: dict[tuple[Problem, str], list[tuple[str, Removes]]] = defaultdict(list)
        for name, each in PASSES.items():
            for removes in removed_by(each.removes, each.op_types, narrows=each.narrows):
                for op in removes.ops:
                    self._by_problem[removes.problem, op].append((name, removes))
        self._leading: dict[frozenset[str], set[ir.Node]] = {}

    def of(self, problem: Problem, node: ir.Node) -> tuple[str, ...]:
        """The passes for a problem of a node, in the order in which they are listed."""
        declared = self._by_problem.get((problem, op_name(node)), ())
        return tuple(dict.fromkeys(name for name, removes in declared if self._applies(removes, node)))

    def _applies(self, removes: Removes, node: ir.Node) -> bool:
        if removes.dtypes and not removes.dtypes & self._dtypes(node):
            return False
        return not removes.on_the_way_to or node in self._leading_to(removes.on_the_way_to)

    def _dtypes(self, node: ir.Node) -> set[str]:
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        dtypes = (self._placement.loaded.tensors.dtype(value) for value in values)
        return {dtype.name.lower() for dtype in dtypes if dtype is not None}

    def _leading_to(self, ops: frozenset[str]) -> set[ir.Node]:
        """Nodes whose results go into one of these operators, through nodes on the CPU alone."""
        if ops not in self._leading:
            loaded, places = self._placement.loaded, self._placement.places
            pending = [node for node, _ in loaded.live if op_name(node) in ops]
            found = set(pending)
            while pending:
                for value in loaded.inputs(pending.pop()):
                    maker = value.producer() if value is not None else None
                    if maker in found or maker not in places or places[maker].side == Side.GPU:
                        continue
                    found.add(maker)
                    pending.append(maker)
            self._leading[ops] = found
        return self._leading[ops]
