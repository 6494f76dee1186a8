"""Which values to store: those that other nodes are given, where that makes the file no larger.

A node that nothing needs any more is gone, and with it the constants that only such nodes use. Sizes are
bounds, from above of what is stored and from below of what is gone, so that no file grows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from hubpublish.model.constants import is_onnx
from hubpublish.passes.folding.cones import Cones, bytes_of
from hubpublish.passes.storing import Store, constant_size, node_size

MOST_GROWTH = 4096  # bytes by which one value may make the file larger, where others make it smaller

_LARGER = "the file would grow: the stored value is larger than the nodes and constants that it replaces"

Owners = dict[ir.Node, ir.Node | None]


@dataclass
class Plan:
    """What to store, and what becomes of the other nodes that depend on no input.

    Attributes:
        stored: Nodes whose outputs become constants, in the order of the graphs.
        gone: They, and the nodes that nothing needs then.
        stay: Nodes whose outputs are needed and not stored, and why.
    """

    stored: list[ir.Node] = field(default_factory=list)
    gone: dict[ir.Node, None] = field(default_factory=dict)
    stay: dict[ir.Node, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Planner:
    """Makes the plan for what depends on no input.

    Attributes:
        cones: What that is.
        computed: The nodes that certainly do not fail: only these may go.
        store: Where the values will go.
        is_kept: Whether a value is needed even if no node uses it.
    """

    cones: Cones
    computed: Collection[ir.Node]
    store: Store
    is_kept: Callable[[ir.Value], bool]

    def plan(self, refused: Mapping[ir.Node, str]) -> Plan:
        """What to store so that as many nodes as possible go and the file does not grow.

        Args:
            refused: Nodes that must not be stored, and why.
        """
        refused = dict(refused)
        while True:
            plan, owners = self._sweep(refused)
            growth, total = self._growth(plan, owners)
            worst = sorted(plan.stored, key=lambda node: -growth[node])
            larger = [node for node in worst if growth[node] > MOST_GROWTH]
            if not larger:
                for node in worst:
                    if total <= 0:
                        break
                    larger.append(node)
                    total -= growth[node]
            if not larger:
                return plan
            refused.update(dict.fromkeys(larger, _LARGER))

    def _sweep(self, refused: Mapping[ir.Node, str]) -> tuple[Plan, Owners]:
        """The plan that stores all but what is refused, and for whose sake alone each node is gone."""
        plan, owners = Plan(), Owners()
        for node in reversed(self.cones.nodes):
            users = [user for value in node.outputs for user in value.consumers()]
            if any(map(self.is_kept, node.outputs)) or not all(user in plan.gone for user in users):
                if node in refused:
                    plan.stay[node] = refused[node]
                    continue
                plan.stored.append(node)
                owners[node] = node
            elif not users or node not in self.computed:
                continue
            else:
                owners[node] = _common(owners[user] for user in users)
            plan.gone[node] = None
        plan.stored.reverse()
        return plan, owners

    def _growth(self, plan: Plan, owners: Owners) -> tuple[dict[ir.Node, int], int]:
        """Bytes by which each stored node makes the file larger on its own, and all of it together."""
        growth = {node: self._stored_size(node) for node in plan.stored}
        total = sum(growth.values())
        for owner, size in self._removed(plan, owners):
            total -= size
            if owner is not None:
                growth[owner] -= size
        return growth, total

    def _removed(self, plan: Plan, owners: Owners) -> Iterator[tuple[ir.Node | None, int]]:
        leaves: dict[ir.Value, None] = {}
        for node in self.cones.nodes:
            if node in plan.gone:
                yield owners[node], node_size(node)
                leaves.update((value, None) for value in node.inputs if value is not None)
        for value in leaves:
            users = value.consumers()
            if _is_constant(value) and not self.is_kept(value) and all(user in plan.gone for user in users):
                yield _common(owners[user] for user in users), constant_size(value)

    def _stored_size(self, node: ir.Node) -> int:
        """The most that constants in the place of a node take in a file."""
        size, scope = 0, self.cones.scopes[node]
        for value in node.outputs:
            dtype, shape = self.cones.facts[value].dtype, self.cones.facts[value].shape
            assert dtype is not None
            lengths = tuple(length or 0 for length in shape or ())
            nbytes = bytes_of(self.cones.facts[value])
            size += self.store.size(dtype, lengths, nbytes, value.name or "", scope, node.name)
        return size


def _common(owners: Iterable[ir.Node | None]) -> ir.Node | None:
    found = set(owners)
    return found.pop() if len(found) == 1 else None


def _is_constant(value: ir.Value) -> bool:
    node = value.producer()
    return value.is_initializer() if node is None else is_onnx(node, "Constant")
