"""What is known of the tensors of a model: element type, shape, bytes. What is not certain stays unknown.

Shapes are those that `hubpublish.passes.proofs` proves. Where it proves nothing, a length that the model
declares is taken, and can be told apart: it is a claim. A declared element type is more than that: a
runtime refuses a model in which it is wrong.
"""

from __future__ import annotations

import functools
import math
from typing import Final

import onnx
import onnx_ir as ir

from hubpublish.devices.runtimes import Signature, dtype_name, parameters_of, signature_in_tables
from hubpublish.model.constants import integer_of
from hubpublish.model.scopes import bodies
from hubpublish.model.statistics import op_name
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.proofs.facts import Proofs

IMPOSSIBLE = 2**53  # bytes of a tensor: no memory holds them, and no number of JavaScript tells them apart
_DTYPES: Final = {dtype.value: dtype for dtype in ir.DataType if dtype != ir.DataType.UNDEFINED}
BODY_OUTPUTS: Final = {"If": 0, "Loop": 1, "Scan": 0}  # outputs of a body before those of its node


class Tensors:
    """Answers for one model, which must have no cycles. Each value is worked out once."""

    def __init__(self, model: ir.Model) -> None:
        self.proofs = Proofs(model)
        self._functions = frozenset(model.functions)
        self._dtypes: dict[ir.Value, ir.DataType | None] = {}
        self._nbytes: dict[ir.Value, int | None] = {}

    def shape(self, value: ir.Value) -> Dims | None:
        """Length of each axis, None where not known; None if the rank is not known."""
        return self.proofs.of(value).shape

    def believed_shape(self, value: ir.Value) -> Dims | None:
        """As `shape`, or what the model declares where that says more."""
        proved = self.shape(value)
        if (proved is not None and None not in proved) or value.shape is None:
            return proved
        if proved is not None and len(proved) != len(value.shape):
            return proved
        declared = [dim if isinstance(dim, int) and dim >= 0 else None for dim in value.shape]
        return tuple(
            mine if mine is not None else its for mine, its in zip(proved or declared, declared, strict=True)
        )

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Element type; None if not known, or if the value is no tensor."""
        if value in self._dtypes:
            return self._dtypes[value]
        pending = [value]
        while pending:  # a stack and not recursion, as graphs are deep
            current = pending[-1]
            if current in self._dtypes:
                pending.pop()
                continue
            known = None if is_no_tensor(current) else self.proofs.of(current).dtype or current.dtype
            known = known or self._fixed(current)
            source = None if known else self._of_the_same_type(current)
            if source is not None and source not in self._dtypes:
                pending.append(source)
                continue
            self._dtypes[current] = known or (self._dtypes[source] if source is not None else None)
            pending.pop()
        return self._dtypes[value]

    def nbytes(self, value: ir.Value) -> int | None:
        """Bytes of the tensor; None if its shape or element type is neither proved nor declared."""
        if value not in self._nbytes:
            self._nbytes[value] = self._count(value)
        return self._nbytes[value]

    def _count(self, value: ir.Value) -> int | None:
        shape, dtype = self.believed_shape(value), self.dtype(value)
        if shape is None or dtype is None or dtype == ir.DataType.STRING:
            return None
        lengths = [length for length in shape if length is not None]
        if len(lengths) < len(shape):
            return None
        nbytes = -(-math.prod(lengths) * dtype.bitwidth // 8)
        return nbytes if nbytes < IMPOSSIBLE else None

    def is_declared(self, value: ir.Value) -> bool:
        """Whether a size is known only because the model declares it, which is a claim."""
        proved = self.shape(value)
        return (proved is None or None in proved) and self.nbytes(value) is not None

    def _fixed(self, value: ir.Value) -> ir.DataType | None:
        """The element type that the value's node gives whatever it is given."""
        node = value.producer()
        opset = self.proofs.opset_named_for(node) if node is not None else None
        if node is None or opset is None:
            return None
        if node.op_type == "Cast":
            return _DTYPES.get(integer_of(node, "to", 0))
        return only_dtype(node.op_type, opset, node.outputs.index(value))

    def _of_the_same_type(self, value: ir.Value) -> ir.Value | None:
        """A value that certainly has this one's element type: an input of its node, or one in its body."""
        node = value.producer()
        if node is not None and not node.domain and node.op_type in BODY_OUTPUTS:
            return _inside(node, node.outputs.index(value) + BODY_OUTPUTS[node.op_type])
        signature = self._signature(node) if node is not None else None
        if node is None or signature is None:
            return None
        wanted = type_of(signature.outputs, node.outputs.index(value))
        return next(
            (
                each
                for index, each in enumerate(node.inputs)
                if each is not None and type_of(signature.inputs, index) == wanted
            ),
            None,
        )

    def _signature(self, node: ir.Node) -> Signature | None:
        if node.domain and node.op_identifier() not in self._functions:
            return signature_in_tables(op_name(node))
        opset = self.proofs.opset_named_for(node)
        known = parameters_of(node.op_type, "", opset) if opset is not None else None
        return known[1] if known else None


def _inside(node: ir.Node, position: int) -> ir.Value | None:
    """An output of a body of an If, Loop or Scan."""
    outputs = next((body.outputs for body in bodies(node)), ())
    return outputs[position] if position < len(outputs) else None


def is_no_tensor(value: ir.Value) -> bool:
    """Whether the value is certainly a sequence or an optional."""
    return isinstance(value.type, ir.SequenceType | ir.OptionalType)


def type_name(value: ir.Value, tensors: Tensors) -> str:
    """The element type as in the tables, or what it is if it is no tensor; "" if not known."""
    if is_no_tensor(value):
        return "sequence" if isinstance(value.type, ir.SequenceType) else "optional"
    dtype = tensors.dtype(value)
    return dtype_name(dtype) if dtype is not None else ""


@functools.cache
def only_dtype(op_type: str, opset: int, index: int) -> ir.DataType | None:
    """The element type of an output of one of ONNX's own operators, if only one is allowed."""
    outputs = onnx.defs.get_schema(op_type, opset, "").outputs
    types = outputs[min(index, len(outputs) - 1)].types if outputs else set()
    names = {f"tensor({dtype_name(dtype)})": dtype for dtype in _DTYPES.values()}
    return names.get(min(types)) if len(types) == 1 else None


def type_of(parameters: tuple[str, ...], index: int) -> str:
    """The type parameter at a position; the last is repeated."""
    return parameters[min(index, len(parameters) - 1)].rpartition(":")[2] if parameters else ""


def constrained(signature: Signature, name: str, node: ir.Node) -> list[ir.Value]:
    """The values of a node to which a kernel's type constraint applies, by type parameter or by name."""
    return [
        value
        for parameters, values in ((signature.inputs, node.inputs), (signature.outputs, node.outputs))
        for index, value in enumerate(values)
        if value is not None and value.name and parameters
        if name in parameters[min(index, len(parameters) - 1)].split(":")
    ]
