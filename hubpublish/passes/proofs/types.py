"""Which types a value may have, as far as the operators on the way to it say.

Values are followed back through every scope, to where a type is certain or an operator gives one of a
few. What a model declares on the way is a claim, and proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import onnx
import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.constants import is_onnx
from hubpublish.model.scopes import bodies
from hubpublish.passes.proofs.facts import Proofs

Names = frozenset[str]  # ONNX's names of types, such as ``tensor(float)``

ITERATION = "tensor(int64)"  # the first input of a Loop's body
CONDITION = "tensor(bool)"  # its second

_DTYPES = frozenset(ir.DataType) - {ir.DataType.UNDEFINED}


class Types:
    """Answers for one model, from the types that operators take and that the runtime enforces."""

    def __init__(self, model: ir.Model, proofs: Proofs) -> None:
        self._model = model
        self._proofs = proofs
        self._owners: dict[ir.Graph, ir.Node] = {}
        self._may: dict[Names, dict[ir.Value, bool]] = {}
        self._other: dict[Names, dict[ir.Value, bool]] = {}

    def never(self, value: ir.Value, names: Names) -> bool:
        """Whether ``value`` is certainly of none of these types, in any run."""
        known = self._may.setdefault(names, {})
        return not self._comes_from(
            value, lambda given: not given & names, lambda given: given is None or bool(given & names), known
        )

    def other_than(self, value: ir.Value, names: Names) -> bool:
        """Whether ``value`` is certainly of another type than these, at least in one call of a function."""
        known = self._other.setdefault(names, {})
        return self._comes_from(
            value, lambda given: given <= names, lambda given: given is not None and not given & names, known
        )

    def _comes_from(
        self,
        value: ir.Value,
        settled: Callable[[Names], bool],
        wanted: Callable[[Names | None], bool],
        known: dict[ir.Value, bool],
    ) -> bool:
        """Whether the types given where ``value`` may come from, None where not known, are the wanted ones.

        What is computed by an operator is not followed further once its types settle the question. All
        answers on the way are kept in ``known``, so that a long way is gone once.
        """
        pending, seen = [value], {value: value}
        while pending:
            current = pending.pop()
            found = known.get(current)
            if found is None:
                given = self._given(current)
                sources = None if given is not None and settled(given) else self._sources(current)
                found = wanted(given) if sources is None else False
                for source in sources or ():
                    if source not in seen:
                        seen[source] = current
                        pending.append(source)
            if found:
                while current is not value:
                    known[current] = True
                    current = seen[current]
                known[value] = True
                return True
        known.update(dict.fromkeys(seen, False))
        return False

    def _given(self, value: ir.Value) -> Names | None:
        """The types that are possible by the value's own producer."""
        node = value.producer()
        if node is None or is_onnx(node, "Constant"):
            dtype = self._proofs.of(value).dtype
            return _of_body_input(value, self._owner(value)) if dtype is None else _names(dtype)
        opset = self._proofs.opset_for(node)
        if opset is None:
            return None
        possible = frozenset(_output_parameter(node, value, opset).types)
        to = node.attributes.get_int("to", 0) if node.op_type == "Cast" else 0
        return possible & _names(ir.DataType(to)) if to in _DTYPES else possible

    def _sources(self, value: ir.Value) -> Sequence[ir.Value] | None:
        """Values of which one gives this one its type; None if there are none."""
        node = value.producer()
        if node is None:
            return self._around(value)
        opset = self._proofs.opset_for(node)
        if opset is None:
            return None
        if node.op_type in ("If", "Loop", "Scan"):
            return _inside(node, value)
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        if not schema.inputs:
            return None
        wanted = _output_parameter(node, value, opset).type_str
        # Parameters with the same name for their type have the same type; the last may be repeated.
        parameters = itertools.chain(schema.inputs, itertools.repeat(schema.inputs[-1]))
        for source, parameter in zip(node.inputs, parameters, strict=False):
            if source is not None and parameter.type_str == wanted:
                return [source]
        return None

    def _around(self, value: ir.Value) -> Sequence[ir.Value] | None:
        """What is given for an input of a function or of a body from outside; None if it is no such input."""
        owner = self._owner(value)
        if owner is not None and value.graph is not None:
            position = value.graph.inputs.index(value) + len(owner.inputs) - len(value.graph.inputs)
            given = owner.inputs[position] if 0 <= position < len(owner.inputs) else None
            return [given] if given is not None and _of_body_input(value, owner) is None else None
        for key, function in self._model.functions.items():
            if value in function.inputs:
                position = function.inputs.index(value)
                nodes = (node for scope in scopes(self._model) for node in scope.graph)
                calls = [node for node in nodes if node.op_identifier() == key]
                arguments = [call.inputs[position] if len(call.inputs) > position else None for call in calls]
                certain = [argument for argument in arguments if argument is not None]
                return certain if len(certain) == len(calls) else None
        return None

    def _owner(self, value: ir.Value) -> ir.Node | None:
        """The Loop or Scan that the graph of an input is the body of."""
        if not value.is_graph_input() or value.graph is self._model.graph:
            return None
        if not self._owners:
            for scope in scopes(self._model):
                for node in scope.graph:
                    body = node.attributes.get("body")
                    if is_onnx(node, "Loop", "Scan") and body is not None and not body.is_ref():
                        self._owners[body.as_graph()] = node
        return self._owners.get(value.graph) if value.graph is not None else None


def _names(dtype: ir.DataType) -> Names:
    return frozenset({f"tensor({dtype.name.lower()})"})


def _output_parameter(node: ir.Node, value: ir.Value, opset: int) -> onnx.defs.OpSchema.FormalParameter:
    outputs = onnx.defs.get_schema(node.op_type, opset, "").outputs
    return outputs[min(node.outputs.index(value), len(outputs) - 1)]


def _inside(node: ir.Node, value: ir.Value) -> Sequence[ir.Value] | None:
    """The outputs of the bodies of an If, Loop or Scan that become this output of it."""
    position = node.outputs.index(value) + (node.op_type == "Loop")  # whose body gives a condition first
    inner = bodies(node)
    given = [body.outputs[position] for body in inner if position < len(body.outputs)]
    return given if given and len(given) == len(inner) else None


def _of_body_input(value: ir.Value, owner: ir.Node | None) -> Names | None:
    """The type of an input that a Loop gives its body by itself."""
    if owner is None or owner.op_type != "Loop" or value.graph is None:
        return None
    position = value.graph.inputs.index(value)
    return frozenset({(ITERATION, CONDITION)[position]}) if position < 2 else None
