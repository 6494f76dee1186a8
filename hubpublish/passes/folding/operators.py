"""Which operators are computed ahead, and for which types their result is the same on every machine.

Left out are all whose floats depend on the machine: what is not rounded correctly (Exp, Pow, Sqrt), and
what depends on an order (sums). So are float16 operators without a kernel of their own in ONNX Runtime on
the CPU: it does not fold them when it loads a model, so its fusions would see constants that they did not.
Source: IEEE 754; the kernels of onnxruntime 1.32.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

#: Operators that move elements, or make equal ones. On any type.
MOVES: Final = frozenset(
    """
    Concat ConstantOfShape Expand Flatten Gather GatherElements GatherND Identity Pad Reshape ScatterElements
    ScatterND Slice Split Squeeze Tile Transpose Trilu Unsqueeze Where
    """.split()  # noqa: SIM905
)

#: Operators on single elements that are rounded as IEEE 754 says, or not at all. On any type.
_ROUNDED_CORRECTLY: Final = frozenset(
    """
    Abs Add Cast Ceil Div Equal Floor Greater GreaterOrEqual Less LessOrEqual Mul Neg Round Sub
    """.split()  # noqa: SIM905
)

#: Operators that are exact on integers and booleans alone.
_ON_INTEGERS: Final = frozenset(
    """
    And BitShift Clip CumSum Max Min Mod Not Or Range ReduceMax ReduceMin ReduceProd ReduceSum Sign Xor
    """.split()  # noqa: SIM905
)

#: All of these.
COMPUTED: Final = MOVES | _ROUNDED_CORRECTLY | _ON_INTEGERS

#: Those that have a kernel for float16 on the CPU, in every version.
ON_HALVES: Final = frozenset(
    """
    Cast Concat ConstantOfShape Expand Flatten Gather GatherElements GatherND Identity Reshape
    ScatterElements ScatterND Slice Split Squeeze Transpose Unsqueeze
    """.split()  # noqa: SIM905
)

#: Operators of which it matters only what shape they are given. Not Size, which the runtime does not fold:
#: what it measures may be fused with others without it, and so may what it is used with.
MEASURES: Final = frozenset({"Shape"})

INTEGERS: Final = frozenset(
    {
        *(ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)
FLOATS: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})


def why_not_exact(node: ir.Node, dtypes: frozenset[ir.DataType]) -> str | None:
    """Why the node's result is not certainly the same on every machine, or None if it is.

    Args:
        node: Of one of ONNX's own operators.
        dtypes: Of its inputs and outputs.
    """
    op, floats = node.op_type, dtypes & FLOATS
    if op not in COMPUTED:
        return f"{op} is not computed ahead"
    if not dtypes <= INTEGERS | FLOATS:
        names = ", ".join(sorted(dtype.name.lower() for dtype in dtypes - INTEGERS - FLOATS))
        return f"has elements of type {names}, which are not computed ahead"
    if floats and (op in _ON_INTEGERS or node.attributes.get_string("reduction", "none") != "none"):
        return f"what {op} makes of floats is not certainly the same on every machine"
    if ir.DataType.FLOAT16 in floats and op not in ON_HALVES:
        return f"{op} of float16 is not folded by the runtime, which may fuse it differently as a constant"
    return None
