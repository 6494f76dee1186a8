"""webgpu.json: what each file asks of a device, for an app that asks before it downloads.

const needs = (await (await fetch(`${repo}/resolve/main/webgpu.json`)).json()).files['onnx/model.onnx'];
const adapter = await navigator.gpu.requestAdapter();
const fits = Object.entries(needs.requiredLimits).every(([name, least]) => adapter.limits[name] >= least)
  && needs.requiredFeatures.every((name) => adapter.features.has(name));
"""

from __future__ import annotations

import json
from typing import Any, Final

from hubpublish.devices import read_runtime
from hubpublish.inspection import Group
from hubpublish.passes.removes import Problem
from hubpublish.report import Report, VariantReport

WEBGPU_SCHEMA: Final = 1


def render(report: Report) -> str:
    """The file's text: by the path of each model what it needs, and how many bytes to download.

    ``runtimes`` are those on which all files run on a device that has what they need, as far as is known.
    Sizes are bytes. A limit that is not known is left out; ``unknownSizes`` counts tensors of unknown size.
    """
    document = {
        "schema": WEBGPU_SCHEMA,
        "runtimes": _runtimes(report),
        "files": {variant.path: _needs(variant) for variant in report.variants},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _runtimes(report: Report) -> list[str]:
    groups = [group for variant in report.variants for group in variant.inspection.groups]
    failing = {name for group in groups for name in group.runtimes if _fails_anywhere(group, name)}
    return [name for name in report.variants[0].inspection.runtimes if name not in failing]


def _fails_anywhere(group: Group, runtime: str) -> bool:
    """Whether nodes fail on a runtime whatever the device grants."""
    if group.problem == Problem.STORAGE_BUFFERS:
        return group.op in read_runtime(runtime).limits
    return group.problem in (Problem.FAILS, Problem.EMPTY)


def _needs(variant: VariantReport) -> dict[str, Any]:
    return {
        **variant.needs.model_dump(mode="json", exclude_none=True),
        "downloadBytes": sum(file.size for file in variant.output),
    }
