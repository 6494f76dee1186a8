"""What dtype, shape and values a node's outputs certainly have, given what is certain of its inputs.

The shapes come from ONNX's own inference function of the one operator (``infer_node_outputs``). It
sees nothing but what is certain: no ``value_info``, no declared output, no name of a dimension.
Inference over the whole model would believe the declared outputs of a body and the ``value_info``
that it cannot refute, and would not follow shapes computed with Equal, Where or ConstantOfShape.
Small integers are computed with ONNX's reference implementation, for shapes that the graph computes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import onnx_ir as ir

Dims = tuple[int | None, ...]
Array = npt.NDArray[Any]

MOST_VALUES = 1024  # what describes shapes is smaller; what is larger is data, and not to be computed here

AXES_IN_ANY_ORDER = 11  # opset; before, ONNX's inference ignores some that ONNX Runtime does not

_INT32_MAX: Final = 2**31 - 1

#: Operators whose inference says what ONNX Runtime does; for exceptions see `_in_doubt`.
INFERRED: Final = frozenset(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization Cast Ceil Celu Clip Cos Cosh CumSum Dropout Elu
    Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN
    LayerNormalization LeakyRelu Log LogSoftmax LpNormalization Mish Neg Not PRelu Reciprocal Relu Round Selu
    Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Trilu

    Add And BitShift Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum
    Where Xor

    Concat ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather GatherElements GatherND OneHot Pad
    Range Reshape ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile TopK Transpose
    Unsqueeze

    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare

    AveragePool Conv ConvInteger ConvTranspose Einsum Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool
    GridSample LpPool MatMul MatMulInteger MaxPool Resize

    DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul QuantizeLinear
    """.split()  # noqa: SIM905 - a list of a hundred names is for reading
)

#: Operators that compute shapes; evaluated on integers and booleans.
EVALUATED: Final = frozenset(
    """
    Add And Cast Concat ConstantOfShape Div Equal Expand Flatten Gather Greater Identity Less Max Min Mod Mul
    Neg Not Or Range ReduceProd Reshape Slice Squeeze Sub Tile Transpose Unsqueeze Where
    """.split()  # noqa: SIM905
)

_NUMPY_NUMBERS: Final = frozenset(
    ir.DataType.from_numpy(np.dtype(code)) for code in ("?", *np.typecodes["AllInteger"], "f", "d")
)


@dataclass(frozen=True, eq=False)
class Certain:
    """What holds for a value in every run that gets as far as computing it.

    Attributes:
        dtype: Element type; None if not known.
        shape: Length of each axis, None where not known; None as a whole if the rank is not known.
        values: The elements, if they are always the same, numbers, and few.
    """

    dtype: ir.DataType | None = None
    shape: Dims | None = None
    values: Array | None = None

    @functools.cached_property
    def type_proto(self) -> onnx.TypeProto:
        """As ONNX's inference takes it; the dtype must be known."""
        assert self.dtype is not None
        return onnx.helper.make_tensor_type_proto(self.dtype.value, self.shape)

    @functools.cached_property
    def tensor_proto(self) -> onnx.TensorProto | None:
        """The values as ONNX's inference takes them."""
        return onnx.numpy_helper.from_array(self.values) if self.values is not None else None


NOTHING: Final = Certain()
_DTYPES: Final = frozenset(ir.DataType) - {ir.DataType.UNDEFINED}
_NOT_VALID: Final = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    LookupError,
    ValueError,
)


def of_tensor(tensor: ir.TensorProtocol | None) -> Certain:
    """What is certain of a constant; only small ones are read."""
    if tensor is None:
        return NOTHING
    few = tensor.size <= MOST_VALUES and tensor.dtype in _NUMPY_NUMBERS
    return Certain(tensor.dtype, tuple(tensor.shape.numpy()), tensor.numpy() if few else None)


def infer(node: ir.Node, opset: int, inputs: Sequence[Certain | None]) -> list[Certain]:
    """What is certain of the outputs of one of ONNX's own operators.

    Args:
        node: Its attributes must not refer to a function's.
        opset: Version of ONNX's operator set in the node's scope.
        inputs: What is certain of its inputs; None for one left out.
    """
    nothing = [NOTHING] * len(node.outputs)
    if node.op_type not in INFERRED or _in_doubt(node, opset, inputs):
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


def _in_doubt(node: ir.Node, opset: int, inputs: Sequence[Certain | None]) -> bool:
    """Whether ONNX Runtime may compute another shape than ONNX's inference says; all were seen to differ."""
    attributes = node.attributes
    match node.op_type:
        case "AveragePool" | "LpPool" | "MaxPool":
            same = attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
            return same or attributes.get_int("ceil_mode", 0) != 0
        case "ConvTranspose":
            return any(name in attributes for name in ("auto_pad", "output_padding", "output_shape"))
        case "Einsum":
            return not _lengths_agree(attributes.get_string("equation", "..."), inputs)
        case "PRelu":
            return not _broadcasts_into(inputs[1], inputs[0])
        case "Resize":
            cropped = attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
            kept = attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch"
            return cropped or kept or not _scales_exactly(inputs)
        case "Slice":
            return not _slices_forward(inputs)
        case "Squeeze" | "Unsqueeze":
            axes = list(attributes.get_ints("axes", ()))
            return opset < AXES_IN_ANY_ORDER and (min(axes, default=0) < 0 or axes != sorted(axes))
    return False


def _lengths_agree(equation: str, inputs: Sequence[Certain | None]) -> bool:
    """Whether each letter of an Einsum has one length: ONNX Runtime repeats what has length 1."""
    lengths: dict[str, set[int | None]] = {}
    for letters, known in zip(equation.replace(" ", "").split("->")[0].split(","), inputs, strict=False):
        if "." in letters or known is None or known.shape is None or len(known.shape) != len(letters):
            return False
        for letter, length in zip(letters, known.shape, strict=True):
            lengths.setdefault(letter, set()).add(length)
    return all(len(each) == 1 and None not in each for each in lengths.values())


def _broadcasts_into(one: Certain | None, other: Certain | None) -> bool:
    """Whether the first certainly adds nothing to the second's shape: ONNX Runtime's PRelu takes any two."""
    if one is None or other is None or one.shape is None or other.shape is None:
        return False
    if len(one.shape) > len(other.shape):
        return False
    pairs = zip(reversed(one.shape), reversed(other.shape), strict=False)
    return all(mine == 1 or (mine is not None and mine == its) for mine, its in pairs)


def _scales_exactly(inputs: Sequence[Certain | None]) -> bool:
    """Whether a Resize has no scales whose product with a length depends on how it is rounded."""
    scales = inputs[2] if len(inputs) > 2 else None
    if scales is None or scales.shape == (0,):  # none: there are sizes
        return True
    return scales.values is not None and bool(np.all(scales.values.astype(np.float64) * 64 % 1 == 0))


def _slices_forward(inputs: Sequence[Certain | None]) -> bool:
    """Whether it is certain what a Slice slices, and to where.

    All steps are positive, or go back to an end that is not "the largest integer": ONNX Runtime takes
    that as "to the end" in the direction of the step, ONNX as it stands.
    """
    _, _, ends, axes, steps = (*inputs, None, None, None, None)[:5]
    if axes is not None and axes.values is None:
        return False  # ONNX's inference takes them for all
    if steps is None:
        return True
    if steps.values is None or ends is None or ends.values is None or ends.values.shape != steps.values.shape:
        return False
    back = steps.values < 0
    return bool(np.all(ends.values[back] < _INT32_MAX) and np.all(steps.values > -_INT32_MAX))


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
