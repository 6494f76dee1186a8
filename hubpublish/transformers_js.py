"""What Transformers.js expects of a repo: folders, file names, tasks."""

from __future__ import annotations

from typing import Final

SUFFIX_OF_DTYPE: Final = {
    "fp32": "",
    "fp16": "_fp16",
    "q8": "_quantized",
    "int8": "_int8",
    "uint8": "_uint8",
    "q4": "_q4",
    "q4f16": "_q4f16",
    "bnb4": "_bnb4",
}
"""What Transformers.js appends to a model's file name for each ``dtype``."""

DEFAULT_FOLDER: Final = "onnx"  # where Transformers.js looks
DEFAULT_NAME: Final = "model"

PIPELINES: Final = frozenset(
    {
        "background-removal",
        "depth-estimation",
        "feature-extraction",
        "image-classification",
        "image-feature-extraction",
        "image-segmentation",
        "image-to-image",
        "object-detection",
        "text-classification",
        "text-generation",
        "token-classification",
        "zero-shot-image-classification",
    }
)
"""Tasks on the Hub that are pipelines of Transformers.js under the same name."""

OF_IMAGES: Final = frozenset(
    {
        "background-removal",
        "depth-estimation",
        "image-classification",
        "image-feature-extraction",
        "image-segmentation",
        "image-to-image",
        "object-detection",
    }
)
"""Those that take an image and nothing else."""
