"""Compares the outputs of two runs: bits first, then how far apart the values are.

Outputs can be hundreds of megabytes: they are mapped from disk and read in chunks.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from hubpublish.verify.result import Distance, OutputComparison
from hubpublish.verify.runner import Output
from hubpublish.verify.signature import onnx_type

CHUNK = 2**21  # elements that are looked at together
PACKED_BITS = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}


def outputs(original: Sequence[Output], rewritten: Sequence[Output]) -> tuple[OutputComparison, ...]:
    """Every output of the original against the rewritten's of the same place.

    Sequences and maps are taken apart, so that they can differ in number.
    """
    if [output.name for output in original] != [output.name for output in rewritten]:
        return (_other_elements(original, rewritten),)
    return tuple(output(before, after) for before, after in zip(original, rewritten, strict=True))


def output(original: Output, rewritten: Output) -> OutputComparison:
    """One output against another."""
    about: dict[str, Any] = {"name": original.name, "dtype": original.dtype, "shape": original.shape}
    if original.dtype != rewritten.dtype:
        return OutputComparison(**about, identical=False, mismatch=f"dtype {rewritten.dtype}")
    if original.shape != rewritten.shape:
        return OutputComparison(**about, identical=False, mismatch=f"shape {list(rewritten.shape)}")
    measured = distance(original, rewritten)
    return OutputComparison(**about, identical=measured.identical, distance=measured)


def _other_elements(original: Sequence[Output], rewritten: Sequence[Output]) -> OutputComparison:
    """Sequences of other lengths, or maps with other keys."""
    before, after = {output.name for output in original}, {output.name for output in rewritten}
    first = next((output for output in original if output.name not in after), original[0])
    extra = ", ".join(sorted(before ^ after)[:3])
    return OutputComparison(
        name=first.name,
        dtype=first.dtype,
        shape=first.shape,
        identical=False,
        mismatch=f"set of elements: {extra}",
    )


def distance(one: Output, other: Output) -> Distance:
    """How far apart two outputs of one dtype and shape are."""
    elements = math.prod(one.shape)
    if one.file is None or other.file is None or elements == 0:
        return _identical(one.dtype, elements)
    if one.dtype == "string":
        before, after = (json.loads(file.read_text(encoding="utf-8")) for file in (one.file, other.file))
        return Distance(elements=elements, differing=sum(a != b for a, b in zip(before, after, strict=True)))
    differing = sum(_differing(a, b) for a, b in _bit_chunks(one, other))
    if differing == 0:
        return _identical(one.dtype, elements)
    if one.dtype in PACKED_BITS:
        return Distance(elements=elements, differing=differing)
    return _measure(one, other, elements, differing)


def _identical(dtype: str, elements: int) -> Distance:
    """The distance of identical tensors."""
    if elements == 0 or dtype == "string" or dtype in PACKED_BITS:
        return Distance(elements=elements, differing=0)
    sigmoid = 0.0 if dtype.startswith(("float", "bfloat")) else None
    return Distance(elements=elements, differing=0, max_abs=0.0, mean_abs=0.0, mean_sigmoid=sigmoid)


def _bit_chunks(one: Output, other: Output) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Both tensors as unsigned integers, element by element; of packed ones two or four are a byte.

    What fills up the last byte is no value.
    """
    left = math.prod(one.shape)
    for a, b in _chunks(one, other, _bits(one.dtype)):
        if one.dtype not in PACKED_BITS:
            yield a, b
            continue
        width = PACKED_BITS[one.dtype]
        shifts = np.arange(0, 8, width, dtype=np.uint8)
        unpacked = [((part[:, np.newaxis] >> shifts) & (2**width - 1)).reshape(-1)[:left] for part in (a, b)]
        left -= len(unpacked[0])
        yield unpacked[0], unpacked[1]


def _bits(dtype: str) -> np.dtype[Any]:
    """The unsigned integers that show an element's bits; complex128 shows as two."""
    if dtype in PACKED_BITS:
        return np.dtype(np.uint8)
    return np.dtype(f"u{min(8, numpy_type(dtype).itemsize)}")


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The numpy type of an ONNX type; ml_dtypes' where numpy has none."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx_type(dtype)))


def _chunks(
    one: Output, other: Output, dtype: np.dtype[Any]
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Both files as arrays of ``dtype``, a part at a time."""
    assert one.file is not None
    assert other.file is not None
    a, b = (np.memmap(file, dtype=dtype, mode="r") for file in (one.file, other.file))
    for start in range(0, len(a), CHUNK):
        yield np.asarray(a[start : start + CHUNK]), np.asarray(b[start : start + CHUNK])


def _differing(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> int:
    return int(np.count_nonzero(a != b))


@dataclass
class _Sums:
    """What the figures are computed from, over all chunks."""

    finite: int = 0
    nonfinite_differing: int = 0
    largest: float = 0.0
    absolute: float = 0.0
    sigmoid: float = 0.0
    moments: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(5))  # x, y, xx, yy, xy
    shift: float | None = None

    def add(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], floating: bool) -> None:
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        self.nonfinite_differing += int(np.count_nonzero(~both & ~same))
        x, y = a[both], b[both]
        if x.size == 0:
            return
        with np.errstate(over="ignore"):
            apart = np.abs(x - y)
            self.absolute += float(apart.sum())
        self.finite += x.size
        self.largest = max(self.largest, float(apart.max()))
        if floating:
            self.sigmoid += float(np.abs(_sigmoid(x) - _sigmoid(y)).sum())
        if not np.iscomplexobj(x):
            self._add_moments(x, y)

    def _add_moments(self, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
        if self.shift is None:
            self.shift = float(x[0])  # near the mean, or the squares would swamp the spread
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = x - self.shift, y - self.shift
            self.moments += [x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]

    def correlation(self) -> float | None:
        with np.errstate(over="ignore", invalid="ignore"):
            x, y, xx, yy, xy = self.moments / max(self.finite, 1)
            spread = (xx - x * x) * (yy - y * y)
        if self.shift is None or not (math.isfinite(spread) and spread > 0):
            return None
        value = float((xy - x * y) / math.sqrt(spread))
        return max(-1.0, min(1.0, value)) if math.isfinite(value) else None


def _measure(one: Output, other: Output, elements: int, differing: int) -> Distance:
    dtype = numpy_type(one.dtype)
    floating = one.dtype.startswith(("float", "bfloat"))
    wide = np.complex128 if dtype.kind == "c" else np.float64
    sums = _Sums()
    for a, b in _chunks(one, other, dtype):
        sums.add(a.astype(wide), b.astype(wide), floating)
    count = sums.finite
    return Distance(
        elements=elements,
        differing=min(differing, elements),
        nonfinite_differing=sums.nonfinite_differing,
        max_abs=_representable(sums.largest) if count else None,
        mean_abs=_representable(sums.absolute / count) if count else None,
        mean_sigmoid=sums.sigmoid / count if count and floating else None,
        correlation=sums.correlation(),
    )


def _representable(value: float) -> float:
    """JSON has no infinity."""
    return min(value, sys.float_info.max)


def _sigmoid(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
