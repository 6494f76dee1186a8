"""What dtype, shape and values a node's outputs certainly have, given what is certain of its inputs.

The shapes come from ONNX's own inference function of the one operator (``infer_node_outputs``). It
sees nothing but what is certain: no ``value_info``, no declared output, no name of a dimension.
Inference over the whole model would believe the declared outputs of a body and the ``value_info``
that it cannot refute, and would not follow shapes computed with Equal, Where or ConstantOfShape.
Small integers are computed with ONNX's reference implementation, for shapes that the graph computes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir

from hubpublish.passes.proofs.certain import MOST_VALUES, NOTHING, Array, Certain
from hubpublish.passes.proofs.doubts import INFERRED, in_doubt

#: Operators that compute shapes; evaluated on integers and booleans.
EVALUATED: Final = frozenset(
    """
    Add And Cast Concat ConstantOfShape Div Equal Expand Flatten Gather Greater Identity Less Max Min Mod Mul
    Neg Not Or Range ReduceProd Reshape Slice Squeeze Sub Tile Transpose Unsqueeze Where
    """.split()  # noqa: SIM905
)

_DTYPES: Final = frozenset(ir.DataType) - {ir.DataType.UNDEFINED}
_NOT_VALID: Final = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    LookupError,
    ValueError,
)


def infer(node: ir.Node, opset: int, inputs: Sequence[Certain | None]) -> list[Certain]:
    """What is certain of the outputs of one of ONNX's own operators.

    Args:
        node: Its attributes must not refer to a function's.
        opset: Version of ONNX's operator set in the node's scope.
        inputs: What is certain of its inputs; None for one left out.
    """
    nothing = [NOTHING] * len(node.outputs)
    if node.op_type not in INFERRED or in_doubt(node, opset, inputs):
        return nothing
    proto = _numbered(node)
    imports = [onnx.helper.make_opsetid("", opset)]
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        typed, inputs = _with_dtypes(schema, inputs)
        present = [(f"i{number}", known) for number, known in enumerate(inputs) if known is not None]
        types = {name: known.type_proto for name, known in present}
        data = {name: known.tensor_proto for name, known in present if known.tensor_proto is not None}
        found = onnx.shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=imports)
    except _NOT_VALID:
        return nothing  # no runtime gets past such a node
    outputs = [_of_type(found.get(f"o{number}"), typed) for number in range(len(node.outputs))]
    values = _evaluate(node, proto, opset, inputs, outputs)
    return outputs if values is None else [Certain(outputs[0].dtype, outputs[0].shape, values)]


def _numbered(node: ir.Node) -> onnx.NodeProto:
    """The node alone, its values named by position, whatever they are called in the model."""
    proto = onnx.NodeProto(op_type=node.op_type)
    proto.input.extend("" if value is None else f"i{number}" for number, value in enumerate(node.inputs))
    proto.output.extend(f"o{number}" for number in range(len(node.outputs)))
    proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    return proto


def _with_dtypes(
    schema: onnx.defs.OpSchema, inputs: Sequence[Certain | None]
) -> tuple[bool, list[Certain | None]]:
    """The inputs with a dtype each, as inference wants them, and whether all dtypes are certain.

    What is not known is the dtype of another input of which the operator says that it is the same.
    Failing that it is any dtype that the operator takes: shapes do not depend on it.
    """
    formal = [schema.inputs[min(number, len(schema.inputs) - 1)] for number in range(len(inputs))]
    pairs = list(zip(formal, inputs, strict=True))
    same = {parameter.type_str: known.dtype for parameter, known in pairs if known and known.dtype}
    certain, completed = True, []
    for parameter, known in pairs:
        if known is not None and known.dtype is None:
            dtype = same.get(parameter.type_str)
            certain = certain and dtype is not None
            accepted = "tensor(float)" if "tensor(float)" in parameter.types else min(parameter.types)
            known = dataclasses.replace(known, dtype=dtype or _dtype_called(accepted))
        completed.append(known)
    return certain, completed


def _dtype_called(name: str) -> ir.DataType:
    """From ONNX's name for a type, such as ``tensor(float)``."""
    return ir.DataType[name.removeprefix("tensor(").removesuffix(")").upper()]


def _of_type(proto: onnx.TypeProto | None, typed: bool) -> Certain:
    if proto is None or not proto.HasField("tensor_type"):
        return NOTHING
    tensor = proto.tensor_type
    dtype = ir.DataType(tensor.elem_type) if typed and tensor.elem_type in _DTYPES else None
    if not tensor.HasField("shape"):
        return Certain(dtype)
    dims = tensor.shape.dim
    return Certain(dtype, tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims))


def _evaluate(
    node: ir.Node,
    proto: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Certain | None],
    outputs: Sequence[Certain],
) -> Array | None:
    """The values of the node's only output, if it is small, of integers, and always the same."""
    shape = outputs[0].shape if len(outputs) == 1 else None
    if node.op_type in ("Shape", "Size"):
        return _measured(node, inputs[0])
    if node.op_type not in EVALUATED or shape is None or None in shape:
        return None
    unknown = any(known is not None and not _integers(known.values) for known in inputs)
    if unknown or math.prod(length or 0 for length in shape) > MOST_VALUES:
        return None
    feeds = {f"i{number}": known.values for number, known in enumerate(inputs) if known is not None}
    values = _run(proto, opset, feeds)
    return values if values is not None and _integers(values) and values.shape == shape else None


def _run(proto: onnx.NodeProto, opset: int, feeds: dict[str, Array | None]) -> Array | None:
    """What ONNX's reference implementation computes; None if the node is not valid, or not defined."""
    inputs = [onnx.helper.make_empty_tensor_value_info(name) for name in feeds]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output]
    graph = onnx.helper.make_graph([proto], "node", inputs, outputs)
    try:
        with np.errstate(all="raise"):  # division by zero, overflow: the runtime may do anything
            (result,) = onnx.reference.ReferenceEvaluator(graph, opsets={"": opset}).run(None, feeds)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    return np.asarray(result)


def _integers(values: Array | None) -> bool:
    return values is not None and values.dtype.kind in "iub"


def _measured(node: ir.Node, known: Certain | None) -> Array | None:
    """The values of Shape and Size."""
    if known is None or known.shape is None:
        return None
    dims = known.shape
    if node.op_type == "Shape":
        dims = dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(dims))]
    if None in dims:
        return None
    lengths = np.array(dims, dtype=np.int64)
    return lengths if node.op_type == "Shape" else np.array(math.prod(lengths.tolist()), dtype=np.int64)
