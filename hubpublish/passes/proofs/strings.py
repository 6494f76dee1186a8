"""Whether a value certainly holds no strings: some operators move everything but those.

Seen with ONNX Runtime 1.32 on the CPU: Gather copies one string of each row and leaves the rest empty.
"""

from __future__ import annotations

import itertools

import onnx
import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.passes.proofs.facts import Proofs

STRINGS = "tensor(string)"


class StringFree:
    """Answers for one model, from the types that operators take and that the runtime enforces."""

    def __init__(self, model: ir.Model, proofs: Proofs) -> None:
        self._model = model
        self._proofs = proofs

    def certainly(self, value: ir.Value) -> bool:
        """Whether ``value`` holds no strings in any run."""
        pending, seen = [value], {value}
        while pending:
            sources = self._sources(pending.pop())
            if sources is None:
                return False
            pending += [source for source in sources if source not in seen]
            seen.update(sources)
        return True

    def _sources(self, value: ir.Value) -> list[ir.Value] | None:
        """The values of which at least one holds strings if this one does; None if it may."""
        node = value.producer()
        if node is None or node.op_type == "Constant":
            dtype = self._proofs.of(value).dtype
            if dtype is None:
                return self._arguments(value)
            return None if dtype == ir.DataType.STRING else []
        opset = self._proofs.opset_for(node)
        if opset is None:
            return None
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        output = schema.outputs[min(node.outputs.index(value), len(schema.outputs) - 1)]
        if STRINGS not in output.types:
            return []
        if not schema.inputs:
            return None
        # Parameters with the same name for their type have the same type; the last may be repeated.
        parameters = itertools.chain(schema.inputs, itertools.repeat(schema.inputs[-1]))
        for source, parameter in zip(node.inputs, parameters, strict=False):
            if source is not None and parameter.type_str == output.type_str:
                return [source]
        return None

    def _arguments(self, value: ir.Value) -> list[ir.Value] | None:
        """What the callers of the function give for this input of it; None if it is no such input."""
        for key, function in self._model.functions.items():
            if value not in function.inputs:
                continue
            position = function.inputs.index(value)
            nodes = (node for scope in scopes(self._model) for node in scope.graph)
            calls = [node for node in nodes if node.op_identifier() == key]
            given = [call.inputs[position] for call in calls if len(call.inputs) > position]
            arguments = [argument for argument in given if argument is not None]
            return arguments if len(arguments) == len(calls) else None
        return None
