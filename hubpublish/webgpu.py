"""webgpu.json: what each file asks of a device, for an app that asks before it downloads.

README.md shows how an app reads it, and lists the keys; `hubpublish.inspection.Requirements` explains them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hubpublish.report import Report, VariantReport

WEBGPU_SCHEMA: Final = 1


def render(report: Report) -> str:
    """The file's text: by the path of each model what it needs, and how many bytes to download.

    Sizes are bytes. A limit that is not known is left out; ``unknownSizes`` counts tensors of unknown size.
    ``runtimes`` are those that were looked at: of any other neither ``failsOn`` nor ``onCpu`` says anything.
    """
    document = {
        "schema": WEBGPU_SCHEMA,
        "runtimes": list(report.variants[0].inspection.runtimes),
        "files": {variant.path: _needs(variant) for variant in report.variants},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _needs(variant: VariantReport) -> dict[str, Any]:
    return {
        **variant.needs.model_dump(mode="json", exclude_none=True),
        "downloadBytes": sum(file.size for file in variant.output),
    }
