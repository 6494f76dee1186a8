"""Making the nodes that compute a form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from hubpublish.model import FreshNames, Scope
from hubpublish.passes.compression.forms import Added, Expanded, Form, Joined, Picked, Plain
from hubpublish.passes.proofs.certain import Array
from hubpublish.passes.storing import Store


class FormMaker:
    """Makes the nodes of one form, in front of a node, with names that begin with the constant's.

    Attributes:
        made: How many nodes of each type it made.
    """

    def __init__(self, label: str, names: FreshNames, store: Store, scope: Scope, before: ir.Node) -> None:
        self._label = label
        self._names = names
        self._store = store
        self._scope = scope
        self._before = before
        self.made: Counter[str] = Counter()

    def make(self, form: Form, name: str | None = None) -> ir.Value:
        """Compute a form; its value gets the name, or a fresh one."""
        match form:
            case Plain(array):
                return self._constant(array)
            case Expanded(of, shape):
                return self._node("Expand", [self.make(of), self._constant(np.array(shape, np.int64))], name)
            case Picked(of, indices, axis):
                return self._node("Gather", [self.make(of), self._constant(indices)], name, axis)
            case Joined(parts, axis):
                return self._node("Concat", [self.make(part) for part in parts], name, axis)
            case Added(first, second):
                return self._node("Add", [self.make(first), self.make(second)], name)

    def _constant(self, array: Array) -> ir.Value:
        name = self._names.fresh(f"{self._label}/part")
        return self._store.add(np.ascontiguousarray(array), name, self._scope, self._before, name)

    def _node(
        self, op_type: str, inputs: Sequence[ir.Value], name: str | None, axis: int | None = None
    ) -> ir.Value:
        label = self._names.fresh(f"{self._label}/{op_type}")
        value = ir.Value(name=name or self._names.fresh(f"{label}_output"))
        attributes = [] if axis is None else [ir.AttrInt64("axis", axis)]
        node = ir.Node("", op_type, inputs, attributes, outputs=[value], name=label)
        self._scope.graph.insert_before(self._before, node)
        self.made[op_type] += 1
        return value
