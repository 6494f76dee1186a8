"""Of which operators ONNX's own shape inference can be believed, and for which nodes of them it cannot.

In most of these doubts inference gave a shape, and ONNX Runtime 1.32 computed another or none; some are
excluded without having been tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from hubpublish.passes.proofs.certain import Certain

AXES_IN_ANY_ORDER = 11  # opset; before, ONNX's inference ignores some that ONNX Runtime does not

_INT32_MAX: Final = 2**31 - 1

#: Operators whose inference says what ONNX Runtime does; for exceptions see `in_doubt`.
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


def in_doubt(node: ir.Node, opset: int, inputs: Sequence[Certain | None]) -> bool:
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
