"""Which values of a graph ONNX Runtime's optimizer may find to be the same, and so compute only once.

It merges nodes of one type with the same inputs and attributes. Here more may count as the same: nodes whose
attributes are tensors or graphs, and constants of many elements, are not compared to the last bit.
Source: onnxruntime's common_subexpression_elimination.cc.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from hubpublish.model.constants import is_onnx

_SIMPLE: Final = frozenset(
    {ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.STRING}
)
_FEW: Final = 16  # elements


class Alike:
    """Numbers for the values of a sorted graph, as it is now: equal ones for what may be the same.

    A Sum has the number of the chain of Add that it is equal to, and an Identity that of its input.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._numbers: dict[ir.Value, object] = {}
        self._known: dict[object, int] = {}
        for node in graph:
            inputs = [self.of(value) for value in node.inputs]
            if inputs and node.outputs and is_onnx(node, "Identity", "Sum"):
                total, *others = inputs
                for other in others:
                    total = (self._number("", "Add", (), (total, other)), 0)
                self._numbers[node.outputs[0]] = total
                continue
            attributes = tuple(sorted(map(_said, node.attributes.values())))
            number = self._number(node.domain, node.op_type, attributes, tuple(inputs))
            self._numbers |= {value: (number, place) for place, value in enumerate(node.outputs)}

    def of(self, value: ir.Value | None) -> object:
        """The number of a value; of one from outside of the graph what it is."""
        if value is None:
            return None
        return self._numbers.get(value) or _given(value)

    def _number(self, *what: object) -> int:
        return self._known.setdefault(what, len(self._known))


def _said(attribute: ir.Attr) -> tuple[str, str]:
    simple = attribute.type in _SIMPLE and not attribute.is_ref()
    return attribute.name, str(attribute.value) if simple else ""


def _given(value: ir.Value) -> object:
    tensor = value.const_value
    if tensor is None or value.is_graph_input():
        return value
    few = tensor.size <= _FEW and tensor.dtype != ir.DataType.STRING
    return tensor.dtype, tuple(tensor.shape), tensor.tobytes() if few else b""
