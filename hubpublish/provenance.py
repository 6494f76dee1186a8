"""provenance.json: for programs, what the published models were made from, and how.

It is an in-toto statement (https://in-toto.io/Statement/v1) whose subjects are the published models and
their external data, and whose predicate is SLSA provenance (https://slsa.dev/provenance/v1):

- ``externalParameters.recipe`` is the resolved recipe: the one input that somebody chose. Each path in
  its ``variants`` (``path``, ``data``) and ``source.copy`` is the dependency
  ``https://huggingface.co/{source.repo}/resolve/{source.revision}/{path}``.
- ``internalParameters.device`` holds the limits by which this version knows the recipe's device.
- ``resolvedDependencies`` are the files of the source, each with its SHA-256.
- ``builder.version`` has the versions on which the bytes or the proof depend.
- ``byproducts`` is report.json, with what the verification found as the annotation
  ``hubpublish_verification``.

The build is ``hubpublish run recipe.yaml``; ``hubpublish reproduce REPO`` does it again and compares. Types
and builder go by URNs, names that resolve to nothing, since no domain is hubpublish's; in-toto allows it.
``urn:hubpublish:run`` names the program, wherever it ran, and claims no SLSA level. Where it ran, and for
whom, is for the signature around a statement to say: this file holds only what repeats, neither time nor
machine, so that equal runs publish equal bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from hubpublish.hub import DEFAULT_ENDPOINT
from hubpublish.layout import REPORT
from hubpublish.report import FileRecord, Report, VariantReport
from hubpublish.verify.result import LevelResult

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:hubpublish:rewrite:v1"
BUILDER: Final = "urn:hubpublish:run"

PREDICATE_FILE: Final = "predicate.json"
CHECKSUMS_FILE: Final = "checksums.txt"


def render(report: Report) -> str:
    """The statement as it is published; it follows from the report alone."""
    return _to_json(statement(report))


def for_attesting(report: Report) -> dict[str, str]:
    """The statement in the two parts that ``actions/attest`` takes, by file name.

    ``checksums.txt`` lists the subjects as ``sha256sum`` does (``subject-checksums``), ``predicate.json``
    is the predicate alone (``predicate-path``); ``predicate-type`` is `PREDICATE_TYPE`.
    """
    made = statement(report)
    checksums = "".join(f"{each['digest']['sha256']}  {each['name']}\n" for each in made["subject"])
    return {CHECKSUMS_FILE: checksums, PREDICATE_FILE: _to_json(made["predicate"])}


def statement(report: Report) -> dict[str, Any]:
    """The statement as plain data."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": file.path, "digest": {"sha256": file.sha256}} for file in report.outputs],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"recipe": report.recipe},
                "internalParameters": {"device": report.device.model_dump(mode="json")},
                "resolvedDependencies": _dependencies(report),
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": report.versions},
                "byproducts": [_report(report)],
            },
        },
    }


def _dependencies(report: Report) -> list[dict[str, Any]]:
    """Every file of the source once, in order: variants may share external data."""
    files = [*(file for variant in report.variants for file in variant.source), *report.copied]
    return [_dependency(report, file) for file in {file.path: file for file in files}.values()]


def _dependency(report: Report, file: FileRecord) -> dict[str, Any]:
    source = report.source
    # The public Hub's address, whichever endpoint served it: a mirror's would not repeat.
    uri = f"{DEFAULT_ENDPOINT}/{source.repo}/resolve/{source.commit}/{quote(file.path)}"
    return {"name": file.path, "uri": uri, "digest": {"sha256": file.sha256}}


def _report(report: Report) -> dict[str, Any]:
    return {
        "name": REPORT,
        "digest": {"sha256": sha256(report.to_json().encode()).hexdigest()},
        "mediaType": "application/json",
        "annotations": {"hubpublish_verification": [_verified(each) for each in report.variants]},
    }


def _verified(variant: VariantReport) -> dict[str, Any]:
    """What the verification of a variant found: the gate, the strongest that holds, and the figures."""
    result = variant.verification
    return {
        "file": variant.path,
        "gate": result.gate,
        "passed": result.passed,
        "held": result.held,
        "runtime": result.runtime,
        "provider": result.provider,
        "threads": result.threads,
        "levels": [_level(each) for each in result.levels],
    }


def _level(level: LevelResult) -> dict[str, Any]:
    distances = [output.distance for result in level.inputs for output in result.outputs]
    measured = [distance for distance in distances if distance is not None]
    return {
        "level": level.level,
        "inputs": sum(result.status == "compared" for result in level.inputs),
        "values": sum(distance.elements for distance in measured),
        "differing": sum(distance.differing for distance in measured),
        "max_abs": _largest(distance.max_abs for distance in measured),
    }


def _largest(values: Iterable[float | None]) -> float | None:
    """None where it is not a number that JSON has."""
    found = max((value for value in values if value is not None), default=None)
    return found if found is not None and math.isfinite(found) else None


def _to_json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
