"""What can be certain of a value, as data: its dtype, its shape, its elements if they are few."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

Dims = tuple[int | None, ...]
Array = npt.NDArray[Any]

MOST_VALUES = 1024  # what describes shapes is smaller; what is larger is data, and not to be computed here

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


def of_tensor(tensor: ir.TensorProtocol | None) -> Certain:
    """What is certain of a constant; only small ones are read."""
    if tensor is None:
        return NOTHING
    few = tensor.size <= MOST_VALUES and tensor.dtype in _NUMPY_NUMBERS
    return Certain(tensor.dtype, tuple(tensor.shape.numpy()), tensor.numpy() if few else None)
