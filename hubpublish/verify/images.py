"""Images as inputs, put through ``preprocessor_config.json`` as Transformers.js does.

Pillow is an optional extra; only images need it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hubpublish.errors import UsageError
from hubpublish.verify.signature import Dimension, TensorInput

BILINEAR = 2  # Pillow's number, which the configuration uses too


def image_input(free: Sequence[TensorInput]) -> TensorInput:
    """The one input that can take an image: floating-point, of rank 4.

    Raises:
        UsageError: There is none, or more than one.
    """
    candidates = [tensor for tensor in free if tensor.kind == "float" and len(tensor.shape or ()) == 4]
    if len(candidates) != 1:
        names = ", ".join(tensor.name for tensor in candidates)
        raise UsageError(
            f"several inputs could take the image: {names}" if names else "no input can take an image",
            where="verify.inputs.images",
            hint="fix the others with verify.inputs.values" if names else "remove the images",
        )
    return candidates[0]


def load(path: Path, preprocessor: Path | None, declared: Sequence[Dimension]) -> np.ndarray[Any, Any]:
    """The image as a float32 batch of one: [1, C, H, W], or [1, H, W, C] where the model declares that.

    A height and width that the model declares win over the configuration's.

    Raises:
        UsageError: No configuration, no Pillow, or an image that cannot be read.
    """
    if preprocessor is None:
        raise UsageError(
            "images go through preprocessor_config.json, and the source has none",
            where="verify.inputs.images",
            hint="remove the images; noise is compared all the same",
        )
    config = _config(preprocessor)
    try:
        return _batch(path, config, declared)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the preprocessor's configuration does not make sense: {error}",
            where=str(preprocessor),
            hint="check size, crop_size, resample, image_mean and image_std",
        ) from error


def _batch(path: Path, config: Mapping[str, Any], declared: Sequence[Dimension]) -> np.ndarray[Any, Any]:
    channels_last = declared[3] in (1, 3) and declared[1] not in (1, 3)
    channels, height, width = declared[3 if channels_last else 1], *declared[1 if channels_last else 2 :][:2]
    pixels = _pixels(path, config, "L" if channels == 1 else "RGB", height, width)
    array = pixels.astype(np.float32)
    if config.get("do_rescale", True):
        array *= np.float32(config.get("rescale_factor", 1 / 255))
    if config.get("do_normalize"):
        mean, std = _normalization(config)
        array = (array - mean) / std
    return np.ascontiguousarray(array if channels_last else array.transpose(2, 0, 1))[np.newaxis]


def pixels(array: np.ndarray[Any, Any], preprocessor: Path) -> np.ndarray[Any, Any] | None:
    """What `load` makes of an image, back as its pixels.

    Args:
        array: Floating-point [H, W, C].
        preprocessor: The ``preprocessor_config.json`` that it went through.

    Returns:
        [H, W, C] in the range of [0, 255], which what was no image can leave; None where the configuration
        does not say how.
    """
    try:
        config = _config(preprocessor)
        mean, std = _normalization(config if config.get("do_normalize") else {})
        scale = np.float64(config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1.0)
        with np.errstate(all="ignore"):
            found = np.asarray((array.astype(np.float64) * std + mean) / scale)
    except (UsageError, RecursionError, TypeError, ValueError):
        return None
    return found if found.shape == array.shape and np.isfinite(found).any() else None


def _normalization(config: Mapping[str, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean and standard deviation, one for each channel or one for all."""
    mean = np.asarray(config.get("image_mean", config.get("mean", 0.0)), np.float32)
    return mean, np.asarray(config.get("image_std", config.get("std", 1.0)), np.float32)


def _config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            "the preprocessor's configuration cannot be read", where=str(path), hint="check that it is JSON"
        ) from error
    if not isinstance(config, dict):
        raise UsageError(
            "the preprocessor's configuration is not a mapping", where=str(path), hint="check the file"
        )
    return config


def _pixels(
    path: Path, config: Mapping[str, Any], mode: str, height: Dimension, width: Dimension
) -> np.ndarray[Any, Any]:
    """Resized and cropped pixels, uint8 [H, W, C]."""
    try:
        import PIL.Image
    except ImportError as error:
        raise UsageError(
            "images need Pillow, which is not installed",
            where="verify.inputs.images",
            hint="pip install 'hubpublish[images]'",
        ) from error
    try:
        with PIL.Image.open(path) as opened:
            image = opened.convert(mode)
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise UsageError(
            "the image cannot be read",
            where=str(path),
            hint="check the path, and that Pillow knows the format",
        ) from error
    resample = PIL.Image.Resampling(config.get("resample", BILINEAR))
    if isinstance(height, int) and isinstance(width, int):
        image = image.resize((width, height), resample)
    else:
        if config.get("do_resize", True) and "size" in config:
            image = image.resize(_target(config["size"], *image.size), resample)
        if config.get("do_center_crop") and "crop_size" in config:
            image = image.crop(_crop(config["crop_size"], *image.size))
    return np.asarray(image).reshape(image.height, image.width, -1)


def _target(size: Any, width: int, height: int) -> tuple[int, int]:
    """(width, height) that ``size`` of the configuration makes of an image."""
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return int(size["width"]), int(size["height"])
    edges = size if isinstance(size, Mapping) else {"shortest_edge": size, "longest_edge": size}
    scale = 1.0
    if edges.get("shortest_edge"):
        scale = int(edges["shortest_edge"]) / min(width, height)
    if edges.get("longest_edge"):
        limit = int(edges["longest_edge"]) / max(width, height)
        scale = min(scale, limit) if edges.get("shortest_edge") else limit
    return max(1, round(width * scale)), max(1, round(height * scale))


def _crop(size: Any, width: int, height: int) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the centre of the image."""
    wanted = size if isinstance(size, Mapping) else {"height": size, "width": size}
    crop_width, crop_height = min(width, int(wanted["width"])), min(height, int(wanted["height"]))
    left, top = (width - crop_width) // 2, (height - crop_height) // 2
    return left, top, left + crop_width, top + crop_height
