"""Tensors as pixels: what a person sees of an input, of a mask, and of the difference between two masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from hubpublish.verify import images

Array = np.ndarray[Any, Any]

WIDEST: Final = 512  # pixels of the longer edge of a picture
COARSEST: Final = 256  # cells of the longer edge of a difference: one must still be seen in a thumbnail
SMALLEST: Final = 256  # pixels up to which a picture is enlarged
FAINTEST: Final = 64  # grey of the smallest difference: black says that nothing differs


@dataclass(frozen=True)
class Pixels:
    """A picture, uint8 [H, W] or [H, W, 3], and in words how it came of the values."""

    array: Array
    words: str


def image(values: Array, preprocessor: Path | None) -> Pixels:
    """A picture of an input.

    Args:
        values: [H, W, C] with one or three channels.
        preprocessor: What an image would have gone through; None: that is not known.
    """
    plain = values.astype(np.float64)
    words = "as it is"
    found: Array | None = plain
    if values.dtype != np.uint8:
        found = images.pixels(plain, preprocessor) if preprocessor else None
        words = "preprocessing undone"
    if found is None:
        low, high = _bounds(plain)
        found, words = 255 * _scaled(plain, low, high), _range_words(low, high)
    elif np.any((found < -0.5) | (found > 255.5)):
        words += ", clipped to what a pixel can be"
    channels = [_mean(255 * _clipped(found[:, :, each] / 255)) for each in range(found.shape[2])]
    array = _enlarged(_bytes(np.stack(channels, axis=-1) if len(channels) > 1 else channels[0]))
    return Pixels(array, words + _nonfinite_words(plain))


def masks(before: Array, after: Array) -> tuple[Pixels, Pixels]:
    """Pictures of two masks [H, W], drawn alike.

    Values within [0, 1] are the mask; negative ones make them logits; others have a range of their own.
    """
    bounds = [_bounds(plane.astype(np.float64)) for plane in (before, after)]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)

    def drawn(mask: Array) -> Pixels:
        plane = mask.astype(np.float64)  # one at a time: a mask may have millions of values
        words = "values as they are" + _nonfinite_words(plane)
        if low < 0 and mask.dtype.kind not in "iu":
            plane, words = _sigmoid(plane), "sigmoid of the values" + _nonfinite_words(plane)
        elif low < 0 or high > 1:
            plane, words = _scaled(plane, low, high), _range_words(low, high) + _nonfinite_words(plane)
        return Pixels(_enlarged(_bytes(255 * _mean(_clipped(plane)))), words)

    return drawn(before), drawn(after)


def difference(before: Array, after: Array) -> Pixels:
    """Where two masks [H, W] of one dtype differ: black where they have the same bits, and nowhere else.

    The largest difference is between half and full white, by a power of two; a pixel is the largest of all
    the values that it stands for.
    """
    bits = f"u{before.dtype.itemsize}"
    differs = before.view(bits) != after.view(bits)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(after.astype(np.float64) - before.astype(np.float64))
    finite = np.isfinite(apart)
    largest = float(apart.max(where=finite, initial=0.0))
    mantissa, exponent = math.frexp(largest)
    exponent -= mantissa == 0.5
    with np.errstate(over="ignore", invalid="ignore"):
        level = np.where(finite, np.clip(255 * np.ldexp(apart, -exponent), FAINTEST, 255), 255)
    array = _enlarged(_bytes(_largest(np.where(differs, level, 0.0))))
    words = [f"× {_power(-exponent)}"] if largest else []
    if np.any(differs & ~finite):
        words.append("white where one is NaN or infinite")
    return Pixels(array, ", ".join([*words, "black where none differs"] if differs.any() else []))


def _power(exponent: int) -> str:
    """A power of two as people read it."""
    if abs(exponent) > 30:
        return f"2^{exponent}"
    return f"{2**exponent:,}" if exponent >= 0 else f"1/{2**-exponent:,}"


def _bounds(values: Array) -> tuple[float, float]:
    """Lowest and highest finite value; (0, 0) if there is none."""
    finite = np.isfinite(values)
    if not finite.any():
        return 0.0, 0.0
    return float(values.min(where=finite, initial=np.inf)), float(values.max(where=finite, initial=-np.inf))


def _scaled(values: Array, low: float, high: float) -> Array:
    """``low`` becomes 0, ``high`` 1; halved, as the range may be more than a number can hold."""
    span = high / 2 - low / 2
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((values / 2 - low / 2) / (span or 1.0))


def _range_words(low: float, high: float) -> str:
    return f"scaled from [{low:.3g}, {high:.3g}]"


def _sigmoid(values: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))


def _nonfinite_words(values: Array) -> str:
    count = int(np.count_nonzero(~np.isfinite(values)))
    return f"; {count:,} of {values.size:,} values NaN (black) or infinite" if count else ""


def _clipped(values: Array) -> Array:
    """Within [0, 1]; what is not a number is 0."""
    return np.asarray(np.nan_to_num(np.clip(values, 0, 1)))


def _bytes(values: Array) -> Array:
    return np.rint(values).astype(np.uint8)


def _starts(size: int, step: int) -> Array:
    return np.arange(0, size, step)


def _mean(plane: Array) -> Array:
    """The plane in at most WIDEST pixels an edge, each the mean of what it stands for."""
    height, width = plane.shape
    step = math.ceil(max(plane.shape) / WIDEST)
    if step == 1:
        return plane
    rows, columns = _starts(height, step), _starts(width, step)
    sums = np.add.reduceat(np.add.reduceat(plane, rows, axis=0), columns, axis=1)
    counts = np.outer(np.diff([*rows, height]), np.diff([*columns, width]))
    return np.asarray(sums / counts)


def _largest(plane: Array) -> Array:
    """The plane in at most COARSEST cells an edge, each the largest of what it stands for."""
    step = math.ceil(max(plane.shape) / COARSEST)
    rows, columns = (_starts(size, step) for size in plane.shape)
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(plane, rows, axis=0), columns, axis=1))


def _enlarged(pixels: Array) -> Array:
    """A small picture with every pixel as a square of them."""
    factor = max(1, SMALLEST // max(pixels.shape[:2]))
    return pixels.repeat(factor, axis=0).repeat(factor, axis=1)
