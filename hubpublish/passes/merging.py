"""Which nodes ONNX Runtime would merge, or merge no more, if constants took the place of some values.

By default it computes once what several nodes compute alike, and makes one of small constants with the same
elements. It does so before it folds anything, so that what it folds itself counts as what it is computed
by. Two nodes that become one change bits: what they gave has more uses then, so it is not fused with what
follows, or is rounded to float16 (see `fusing`). So do two that are one no more.
Source: onnxruntime's constant_sharing.cc and common_subexpression_elimination.cc; what version 1.32 does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping

import onnx_ir as ir

from hubpublish.model.constants import behind_identities, is_onnx
from hubpublish.passes.alike import Alike, said
from hubpublish.passes.reaches import Answers, reaches


class Merging:
    """Answers for one model, while it stays as it is.

    Args:
        become: What certain values will be: those with equal ones count as one constant.
        is_constant: Whether a value, not one behind an Identity, depends on no input. Which nodes are merged
            that are given nothing else does not matter, but for others behind them.
        gone: Nodes that will not be there any more.
    """

    def __init__(
        self,
        become: Mapping[ir.Value, object],
        is_constant: Callable[[ir.Value], bool],
        gone: Container[ir.Node] = (),
    ) -> None:
        self._become = become
        self._gone = gone
        self._is_constant = is_constant
        self._changed: dict[ir.Graph, set[ir.Node]] = {}
        self._answers: Answers = {}
        self._folded: dict[ir.Node, bool] = {}

    def changes(self, value: ir.Value) -> bool:
        """Whether of the nodes that are given ``value`` others would be merged than are."""
        return reaches(value, self._answers, self._is_given_to_changed, self._of_changed)

    def _is_given_to_changed(self, value: ir.Value) -> bool:
        return any(self._is_changed(user) and not self._is_folded(user) for user in _users(value))

    def _of_changed(self, value: ir.Value) -> Iterator[ir.Value]:
        for user in _users(value):
            if self._is_changed(user):
                yield from user.outputs

    def _is_folded(self, node: ir.Node) -> bool:
        if node not in self._folded:
            given = [behind_identities(value) for value in node.inputs if value is not None]
            self._folded[node] = all(value is not None and self._is_constant(value) for value in given)
        return self._folded[node]

    def _is_changed(self, user: ir.Node) -> bool:
        graph = user.graph
        assert isinstance(graph, ir.Graph)
        if graph not in self._changed:
            self._changed[graph] = self._found(graph)
        return user in self._changed[graph]

    def _found(self, graph: ir.Graph) -> set[ir.Node]:
        """The nodes that are the same as others now or then, and not both."""
        alike = Alike(graph, certainly=True)
        now: dict[object, dict[object, list[ir.Node]]] = defaultdict(lambda: defaultdict(list))
        then: dict[object, dict[object, list[ir.Node]]] = defaultdict(lambda: defaultdict(list))
        for node in graph:
            if not (node.inputs and node.outputs) or is_onnx(node, "Identity") or node in self._gone:
                continue
            number = alike.of(node.outputs[0])
            given = tuple(self._then(value, alike) for value in node.inputs)
            key = (node.domain, node.op_type, said(node, exactly=True), given)
            now[number][key].append(node)
            then[key][number].append(node)
        several = [ways for found in (now, then) for ways in found.values() if len(ways) > 1]
        return {node for ways in several for nodes in ways.values() for node in nodes}

    def _then(self, value: ir.Value | None, alike: Alike) -> object:
        source = behind_identities(value)
        become = self._become.get(source) if source is not None else None
        return alike.of(value) if become is None else become


def _users(value: ir.Value) -> Iterator[ir.Node]:
    """The nodes that are given a value, Identities left out."""
    pending, seen = [value], {value}
    while pending:
        for user in pending.pop().consumers():
            if is_onnx(user, "Identity"):
                pending += [output for output in user.outputs if output not in seen]
                seen.update(user.outputs)
            else:
                yield user
