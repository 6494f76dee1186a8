"""How to use a published model, as the card's example shows it: in Transformers.js, if that can load it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from hubpublish.hub import DEFAULT_ENDPOINT
from hubpublish.recipe import CardSpec
from hubpublish.report import Report, VariantReport
from hubpublish.transformers_js import DEFAULT_FOLDER, DEFAULT_NAME, OF_IMAGES, PIPELINES, SUFFIX_OF_DTYPE

CONFIG: Final = "config.json"  # Transformers.js asks it what kind of model there is

_NAMES_IN_JAVASCRIPT: Final = {"str": "string", "object": "string"}  # of element types, where they differ


def has_config(report: Report) -> bool:
    """Whether Transformers.js can load a model of the repo."""
    return any(file.path == CONFIG for file in report.copied)


def usage_of(report: Report, spec: CardSpec) -> str:
    """The Markdown under the card's heading on usage: the recipe's own, or an example."""
    if spec.usage != "auto":
        return spec.usage
    return _with_transformers_js(report, spec) if has_config(report) else _with_onnxruntime_web(report)


def _with_transformers_js(report: Report, spec: CardSpec) -> str:
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


def _with_onnxruntime_web(report: Report) -> str:
    """A session by itself, for a model of which nothing says what kind it is."""
    first, *others = report.variants
    inputs = first.verification.inputs[0].tensors
    feeds = []
    for number, tensor in enumerate(inputs, 1):
        data = "data" if len(inputs) == 1 else f"data{number}"
        dtype = _literal(_NAMES_IN_JAVASCRIPT.get(tensor.dtype, tensor.dtype))
        feeds.append(f"  {_literal(tensor.name)}: new ort.Tensor({dtype}, {data}, {list(tensor.shape)}),")
    external = [
        f"    {{ path: {_literal(PurePosixPath(file.path).name)}, data: `${{repo}}/{quote(file.path)}` }},"
        for file in first.output[1:]
    ]
    lines = [
        "import * as ort from 'onnxruntime-web/webgpu';",
        "",
        f"const repo = '{DEFAULT_ENDPOINT}/{report.target}/resolve/main';",
        f"const session = await ort.InferenceSession.create(`${{repo}}/{quote(first.path)}`, {{",
        "  executionProviders: ['webgpu'],",
        *(["  externalData: [", *external, "  ],"] if external else []),
        "});",
        "const outputs = await session.run({",
        *feeds,
        "});",
    ]
    more = [f"`{other.path}` is loaded in the same way." for other in others]
    why = f"The repo has no `{CONFIG}`, without which Transformers.js loads no model; ONNX Runtime Web does:"
    return "\n".join([why, "", "```js", *lines, "```", *(["", *more] if more else [])])


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
