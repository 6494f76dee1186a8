"""What happened, as data: the one source of the card, the preview and the log.

A report holds only what repeats for the same source bytes, recipe and versions. Durations, memory,
dates and the machine are in ``run.json`` beside it, which is never published.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from hubpublish.devices import Fit, Profile
from hubpublish.inspection import Requirements, Summary, webgpu_requirements
from hubpublish.markdown import card_template_sha256
from hubpublish.model import GraphStatistics, sha256_of
from hubpublish.passes import PASSES, PassOutcome, Rewritten, Skipped
from hubpublish.recipe import Recipe
from hubpublish.recipe.writer import plain
from hubpublish.rewrite import Rewrite
from hubpublish.source import FetchedVariant
from hubpublish.verify import Verification
from hubpublish.verify.webgpu import WebGpuVerification
from hubpublish.verify.webgpu.system import PLUGIN

REPORT_SCHEMA: Final = 1
VERSIONED: Final = ("hubpublish", "onnx", "onnx-ir", "onnxruntime", "numpy")
"""Distributions whose version can change the published bytes or the proof."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileRecord(_Frozen):
    """A file: its path in the repo, SHA-256 in hexadecimal, and size in bytes."""

    path: str
    sha256: str
    size: int

    @classmethod
    def of(cls, path: str, local: Path) -> FileRecord:
        """Hash a file of this machine that has this path in the repo."""
        return cls(path=path, sha256=sha256_of(local), size=local.stat().st_size)


class PassReport(_Frozen):
    """A pass as it was applied: what it replaced, what it left alone and why."""

    name: str
    summary: str
    options: dict[str, Any]
    exact: bool
    rewritten: tuple[Rewritten, ...]
    skipped: tuple[Skipped, ...]

    @classmethod
    def of(cls, outcome: PassOutcome) -> PassReport:
        """Take over the outcome of a pass."""
        return cls(
            name=outcome.name,
            summary=PASSES[outcome.name].summary.format(**outcome.options),
            options=outcome.options,
            exact=outcome.exact,
            rewritten=tuple(outcome.rewritten),
            skipped=tuple(outcome.skipped),
        )


class VariantReport(_Frozen):
    """One model: where it came from, what became of it, and how that was proved.

    Attributes:
        inspection_before, inspection: What stands in its way on the device, before and after.
        needs: What the result asks of a device.
        webgpu: What came out on a WebGPU device; None if the recipe does not ask for that.
        auto: Whether ``passes: auto`` chose the passes; the report's recipe names those that it chose.
    """

    path: str
    dtype: str
    source: tuple[FileRecord, ...]
    output: tuple[FileRecord, ...]
    passes: tuple[PassReport, ...]
    before: GraphStatistics
    after: GraphStatistics
    fit_before: Fit
    fit: Fit
    inspection_before: Summary
    inspection: Summary
    needs: Requirements
    verification: Verification
    webgpu: WebGpuVerification | None = None
    auto: bool = False

    @property
    def was_rewritten(self) -> bool:
        """Whether any pass replaced anything."""
        return any(each.rewritten for each in self.passes)

    @classmethod
    def of(
        cls,
        fetched: FetchedVariant,
        output: tuple[FileRecord, ...],
        done: Rewrite,
        verification: Verification,
        webgpu: WebGpuVerification | None = None,
        *,
        auto: bool = False,
    ) -> VariantReport:
        """Put together what was done to a variant; `done` must have been measured for a device."""
        before, after = done.inspection_before, done.inspection
        assert before is not None
        assert after is not None
        taken = (fetched.model, *fetched.data)
        return cls(
            path=fetched.variant.path,
            dtype=fetched.variant.dtype,
            source=tuple(FileRecord(path=file.path, sha256=file.sha256, size=file.size) for file in taken),
            output=output,
            passes=tuple(PassReport.of(outcome) for outcome in done.outcomes),
            before=done.before,
            after=done.after,
            fit_before=before.fit,
            fit=after.fit,
            inspection_before=before.summary(),
            inspection=after.summary(),
            needs=webgpu_requirements(after),
            verification=verification,
            webgpu=webgpu,
            auto=auto,
        )


class SourceReport(_Frozen):
    """The repo and commit that everything was taken from."""

    repo: str
    commit: str
    license: str | None


class Report(_Frozen):
    """Everything that the card says, and the recipe that leads to the same bytes again.

    Attributes:
        key: See `run_key`.
        content_key: See `content_key`.
    """

    schema_version: int = REPORT_SCHEMA
    key: str
    content_key: str
    versions: dict[str, str]
    target: str
    source: SourceReport
    device: Profile
    recipe: dict[str, Any]
    copied: tuple[FileRecord, ...]
    variants: tuple[VariantReport, ...]

    def to_json(self) -> str:
        """The report as it is published: sorted as declared, indented, with a final newline."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"

    @property
    def outputs(self) -> tuple[FileRecord, ...]:
        """Every file with models or weights that is published."""
        return tuple(record for variant in self.variants for record in variant.output)


def versions(*, webgpu: bool = False) -> dict[str, str]:
    """The versions on which the published bytes and the proof depend; "none" of what is not installed.

    Args:
        webgpu: Whether the proof is also of a run on WebGPU.
    """
    names = (*VERSIONED, PLUGIN) if webgpu else VERSIONED
    return {name: _version(name) for name in names}


@functools.cache  # it reads and parses all of a distribution's metadata
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def run_key(resolved: Recipe, images: Mapping[str, str]) -> str:
    """The key under which a run's result can be found again; 64 hexadecimal digits.

    Equal keys mean equal results: it covers the recipe with the source's commit, the target and the
    SHA-256 of every file that is taken, the versions, the card's template, and the bytes of local images.

    Args:
        resolved: The recipe of exactly this publication; see `hubpublish.recipe.resolved`.
        images: SHA-256 by path of the images that the recipe verifies on.
    """
    facts = {
        "recipe": plain(resolved),
        "images": dict(images),
        "versions": versions(webgpu=resolved.asks_for_webgpu),
        "schema": REPORT_SCHEMA,
        "card": card_template_sha256(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def content_key(resolved: Recipe, images: Mapping[str, str]) -> str:
    """A key as of `run_key` that leaves out at which commit the source was.

    The files of the source that are taken are in the recipe by their SHA-256, so it stays the same when
    upstream commits something else. Arguments as there.
    """
    anywhere = resolved.source.model_copy(update={"revision": "any"})
    return run_key(resolved.model_copy(update={"source": anywhere}), images)
