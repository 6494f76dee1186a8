"""How to use a published model in Transformers.js, as the card's example shows it."""

from __future__ import annotations

from pathlib import PurePosixPath

from hubpublish.recipe import CardSpec
from hubpublish.report import Report, VariantReport
from hubpublish.transformers_js import DEFAULT_FOLDER, DEFAULT_NAME, OF_IMAGES, PIPELINES, SUFFIX_OF_DTYPE


def usage_of(report: Report, spec: CardSpec) -> str:
    """The Markdown under the card's heading on usage: the recipe's own, or an example."""
    if spec.usage != "auto":
        return spec.usage
    first, *others = report.variants
    task = spec.pipeline_tag if spec.pipeline_tag in PIPELINES else None
    name, load = ("run", "pipeline") if task else ("model", "AutoModel")
    arguments = f"'{task}', '{report.target}'" if task else f"'{report.target}'"
    call = f"{load}({arguments}" if task else f"{load}.from_pretrained({arguments}"
    given = "image);  // its URL, or a RawImage" if task in OF_IMAGES else "inputs);"
    lines = [
        f"import {{ {load} }} from '@huggingface/transformers';",
        "",
        f"const {name} = await {call}, {{",
        *(f"  {option}," for option in _options(first)),
        "});",
        f"const output = await {name}({given}",
    ]
    more = [f"For `{other.path}` the options are `{{ {', '.join(_options(other))} }}`." for other in others]
    return "\n".join(["```js", *lines, "```", *(["", *more] if more else [])])


def options_of(variant: VariantReport) -> dict[str, str | bool]:
    """The options with which Transformers.js loads this file of the repo.

    A standard file name is found by its ``dtype``. Any other is named by ``model_file_name``, and
    then ``dtype: 'fp32'``, whose suffix is empty, keeps Transformers.js from appending one. External
    data is fetched only when it is asked for.
    """
    path = PurePosixPath(variant.path)
    options: dict[str, str | bool] = {"device": "webgpu"}
    standard = {f"{DEFAULT_NAME}{suffix}": dtype for dtype, suffix in SUFFIX_OF_DTYPE.items()}
    if path.stem in standard:
        options["dtype"] = standard[path.stem]
    else:
        options |= {"model_file_name": path.stem, "dtype": "fp32"}
    folder = "" if str(path.parent) == "." else str(path.parent)
    if folder != DEFAULT_FOLDER:
        options["subfolder"] = folder
    if len(variant.output) > 1:
        options["use_external_data_format"] = True
    return options


def _options(variant: VariantReport) -> list[str]:
    """The members of a JavaScript object."""
    return [f"{name}: {_literal(value)}" for name, value in options_of(variant).items()]


def _literal(value: str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
