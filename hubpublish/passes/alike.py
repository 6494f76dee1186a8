"""Which values of a graph ONNX Runtime's optimizer finds to be the same, and so computes only once.

It merges nodes of one type with the same inputs and attributes, and makes one of small constants with the
same elements.
Source: onnxruntime's common_subexpression_elimination.cc and constant_sharing.cc.
"""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt
import onnx_ir as ir

from hubpublish.model.constants import constant_tensor_of, is_onnx

_SIMPLE: Final = frozenset(
    {ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.STRING}
)
_FEW: Final = 16  # elements

MOST_SHARED: Final = 8  # elements of constants of which the runtime makes one
_SHARED: Final = frozenset(
    {
        *(ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE),
        *(ir.DataType.INT32, ir.DataType.INT64),
    }
)

_RANDOM: Final = frozenset(
    """
    Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    """.split()  # noqa: SIM905
)


class Alike:
    """Numbers for the values of a sorted graph, as it is now: equal ones for what may be the same.

    More may count as the same than is: nodes whose attributes are tensors or graphs, and constants of many
    elements, are not compared to the last bit. A Sum has the number of the chain of Add that it is equal to,
    and an Identity that of its input.

    Args:
        graph: The graph.
        certainly: Have equal numbers for what the runtime certainly merges, and nothing else.
    """

    def __init__(self, graph: ir.Graph, *, certainly: bool = False) -> None:
        self._certainly = certainly
        self._numbers: dict[ir.Value, object] = {}
        self._known: dict[object, int] = {}
        for node in graph:
            inputs = [self.of(value) for value in node.inputs]
            if inputs and node.outputs and is_onnx(node, "Identity", *(() if certainly else ("Sum",))):
                total, *others = inputs
                for other in others:
                    total = (self._number("", "Add", (), (total, other)), 0)
                self._numbers[node.outputs[0]] = total
                continue
            constant = self._of_constant(node.outputs[0]) if is_onnx(node, "Constant") else None
            if constant is not None:
                self._numbers[node.outputs[0]] = constant
                continue
            what = (node.domain, node.op_type, said(node, exactly=certainly), tuple(inputs))
            number = self._number(node) if certainly and node.op_type in _RANDOM else self._number(*what)
            self._numbers |= {value: (number, place) for place, value in enumerate(node.outputs)}

    def of(self, value: ir.Value | None) -> object:
        """The number of a value; of one from outside of the graph what it is."""
        if value is None:
            return None
        return self._numbers.get(value) or self._given(value)

    def has(self, op_type: str, inputs: tuple[object, ...]) -> bool:
        """Whether a node of ONNX without attributes is given inputs of these numbers."""
        return ("", op_type, (), inputs) in self._known

    def _number(self, *what: object) -> int:
        return self._known.setdefault(what, len(self._known))

    def _given(self, value: ir.Value) -> object:
        if value.is_graph_input() or value.const_value is None:
            return value
        return self._of_constant(value) or value

    def _of_constant(self, value: ir.Value) -> object:
        tensor = constant_tensor_of(value)
        if tensor is None:
            return None
        if self._certainly:
            few = tensor.size <= MOST_SHARED and tensor.dtype in _SHARED
            return (shared(tensor.numpy()) if few else None) or value
        few = tensor.size <= _FEW and tensor.dtype != ir.DataType.STRING
        return contents(tensor.dtype, tuple(tensor.shape), tensor.tobytes() if few else b"")


def contents(dtype: ir.DataType, shape: tuple[Any, ...], elements: bytes) -> object:
    """What a constant has instead of a number."""
    return dtype, shape, elements


def shared(array: npt.NDArray[Any]) -> object:
    """What a constant has instead of a number if the runtime makes one of all with the same elements."""
    dtype = ir.DataType.from_numpy(array.dtype)
    if not 0 < array.size <= MOST_SHARED or dtype not in _SHARED:
        return None
    return contents(dtype, array.shape, array.tobytes())


def said(node: ir.Node, *, exactly: bool) -> tuple[tuple[str, str], ...]:
    """The attributes of a node, such that they can be compared; equal only if nothing else differs."""
    return tuple(sorted(_said(each, exactly) for each in node.attributes.values()))


def _said(attribute: ir.Attr, exactly: bool) -> tuple[str, str]:
    simple = attribute.type in _SIMPLE and not attribute.is_ref()
    return attribute.name, str(attribute.value) if simple else str(id(attribute)) if exactly else ""
