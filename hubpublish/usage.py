"""How to use a published model in Transformers.js, as the card's example shows it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from hubpublish.recipe import CardSpec
from hubpublish.report import Report, VariantReport

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


def usage_of(report: Report, spec: CardSpec) -> str:
    """The Markdown under the card's heading on usage: the recipe's own, or an example for each file."""
    if spec.usage != "auto":
        return spec.usage
    examples = [_example(report, spec, variant) for variant in report.variants]
    return "\n\n".join(examples)


def options_of(variant: VariantReport) -> dict[str, str]:
    """The options with which Transformers.js loads this file of the repo.

    A standard file name is found by its ``dtype``. Any other is named by ``model_file_name``, and
    then ``dtype: 'fp32'``, whose suffix is empty, keeps Transformers.js from appending one.
    """
    path = PurePosixPath(variant.path)
    options = {"device": "webgpu"}
    standard = {f"{DEFAULT_NAME}{suffix}": dtype for dtype, suffix in SUFFIX_OF_DTYPE.items()}
    if path.stem in standard:
        options["dtype"] = standard[path.stem]
    else:
        options |= {"model_file_name": path.stem, "dtype": "fp32"}
    folder = "" if str(path.parent) == "." else str(path.parent)
    if folder != DEFAULT_FOLDER:
        options["subfolder"] = folder
    return options


def _example(report: Report, spec: CardSpec, variant: VariantReport) -> str:
    options = ", ".join(f"{name}: '{value}'" for name, value in options_of(variant).items())
    if spec.pipeline_tag in PIPELINES:
        imported = "pipeline"
        call = f"const run = await pipeline('{spec.pipeline_tag}', '{report.target}', {{ {options} }});"
        last = "const output = await run(input);"
    else:
        imported = "AutoModel"
        call = f"const model = await AutoModel.from_pretrained('{report.target}', {{ {options} }});"
        last = "const output = await model(inputs);"
    code = f"import {{ {imported} }} from '@huggingface/transformers';\n\n{call}\n{last}"
    return f"`{variant.path}`:\n\n```js\n{code}\n```"
