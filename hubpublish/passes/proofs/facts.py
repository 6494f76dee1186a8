"""What is certain of a value: proved from the graph and from what the runtime enforces, on demand.

The runtime enforces the types of the main graph's inputs, and their lengths where those are numbers.
Everything else that a model declares (``value_info``, outputs, inputs of bodies and of functions, names
of dimensions) is a claim that nobody checks, and proves nothing here. Neither does an initializer that
a caller may override, a node of another domain, or one that a function's caller configures.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.constants import constant_tensor_of
from hubpublish.passes.proofs.certain import NOTHING, Certain, of_tensor
from hubpublish.passes.proofs.shapes import infer
from hubpublish.passes.validity import why_not_onnx, why_not_valid


class Proofs:
    """Answers for one model. Each value is worked out once, with all that it is computed from.

    What is proved stays true while a pass replaces nodes by others that compute the same.

    Args:
        model: Must have no cycles once `of` is called.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._opsets = {scope.graph: scope.opset for scope in scopes(model)}
        self._known: dict[ir.Value, Certain] = {}

    def of(self, value: ir.Value) -> Certain:
        """What is certain of ``value``."""
        # A stack and not recursion: chains of nodes are longer than Python's stack is deep.
        pending = [value]
        while pending:
            current = pending[-1]
            node = current.producer()
            if current not in self._known and node is not None and (missing := self._missing(node)):
                pending += missing
                continue
            pending.pop()
            if current in self._known:
                continue
            if node is None:
                self._known[current] = self._of_source(current)
            else:
                self._known.update(zip(node.outputs, self._of_node(node), strict=True))
        return self._known[value]

    def opset_for(self, node: ir.Node) -> int | None:
        """The version of ONNX's operators by which ``node`` is understood, inputs and attributes included.

        None if it is not one of them or not as they are defined, is configured by the caller of its
        function, or is of a version that the installed onnx does not know yet.
        """
        opset = self.opset_named_for(node)
        return None if opset is None or why_not_valid(node, opset) else opset

    def opset_named_for(self, node: ir.Node) -> int | None:
        """As `opset_for`, for a node that need not be as its operator is defined."""
        opset = self._opsets.get(node.graph) if isinstance(node.graph, ir.Graph) else None
        if opset is None or opset > onnx.defs.onnx_opset_version():
            return None
        by_caller = any(attribute.is_ref() for attribute in node.attributes.values())
        known = onnx.defs.has(node.op_type, opset, "")
        return None if by_caller or not known or why_not_onnx(node, self._model) else opset

    def _missing(self, node: ir.Node) -> list[ir.Value]:
        """The inputs that have to be worked out before the node."""
        return [value for value in node.inputs if value is not None and value not in self._known]

    def _of_source(self, value: ir.Value) -> Certain:
        """Of an initializer or an input."""
        if not value.is_graph_input():
            return of_tensor(constant_tensor_of(value))
        if value.graph is not self._model.graph or not isinstance(value.type, ir.TensorType):
            return NOTHING
        if value.shape is None:
            return Certain(value.dtype)
        # The runtime takes a negative length for one that is not declared.
        dims = [dim if isinstance(dim, int) and dim >= 0 else None for dim in value.shape]
        return Certain(value.dtype, tuple(dims))

    def _of_node(self, node: ir.Node) -> list[Certain]:
        opset = self.opset_for(node)
        if opset is None:
            return [NOTHING] * len(node.outputs)
        if node.op_type == "Constant":
            return [of_tensor(constant_tensor_of(node.outputs[0]))]
        inputs = [self._known.get(value, NOTHING) if value is not None else None for value in node.inputs]
        return infer(node, opset, inputs)
