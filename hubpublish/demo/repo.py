"""The demo's source: a repo folder as ONNX exports for Transformers.js come, with the demo model in it."""

from __future__ import annotations

import json
from pathlib import Path

from hubpublish.demo.config import SMALL, Dtype, ModelConfig
from hubpublish.demo.model import build_model

#: Files of the two precisions, under the names that Transformers.js looks for.
MODEL_FILES: dict[str, Dtype] = {"onnx/model.onnx": "fp32", "onnx/model_fp16.onnx": "fp16"}

CARD = """\
---
license: mit
library_name: transformers.js
pipeline_tag: image-segmentation
tags:
- onnx
---

# Demo model with the shape of BiRefNet_lite

An ONNX model that has the structure of
[onnx-community/BiRefNet_lite-ONNX](https://huggingface.co/onnx-community/BiRefNet_lite-ONNX)
in a small size: a window-attention backbone used on two scales, four patch grids and twenty deformable
convolutions. **Its weights are random**: the masks it draws mean nothing. It exists to try tools on.

`input_image` [1, 3, {size}, {size}] -> `output_image` [1, 1, {size}, {size}], logits.
"""

LICENSE = """\
MIT License

Copyright (c) the hubpublish authors: demo model, random weights

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""


def write_repo(folder: Path, config: ModelConfig = SMALL, *, seed: int = 0) -> tuple[str, ...]:
    """Write the files of a source repo; the same arguments write the same bytes.

    Args:
        folder: Made if missing; files of the same names are overwritten.
        config: Sizes of the model.
        seed: Seed of its weights.

    Returns:
        The paths written, relative to ``folder``, sorted.
    """
    texts = {
        "README.md": CARD.format(size=config.size),
        "LICENSE": LICENSE,
        "config.json": _json({"model_type": "birefnet", "architectures": ["BiRefNet"]}),
        "preprocessor_config.json": _json(_preprocessor(config.size)),
    }
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        (folder / path).write_text(text, encoding="utf-8", newline="\n")
    for path, dtype in MODEL_FILES.items():
        model = build_model(config, dtype=dtype, seed=seed)
        (folder / path).write_bytes(model.SerializeToString(deterministic=True))
    return tuple(sorted([*texts, *MODEL_FILES]))


def _preprocessor(size: int) -> dict[str, object]:
    """How Transformers.js prepares an image: resized, scaled to [0, 1], normalized as for ImageNet."""
    return {
        "feature_extractor_type": "ImageFeatureExtractor",
        "do_resize": True,
        "size": {"width": size, "height": size},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
