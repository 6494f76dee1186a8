"""The model card: the report, put into words by ``templates/model_card.md.j2``.

Whatever the card states comes from the report; this module only chooses and formats, and the
template holds no number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Final

import jinja2
from huggingface_hub import ModelCardData
from pydantic import BaseModel, ConfigDict

from hubpublish.passes import PASSES
from hubpublish.recipe import CardSpec
from hubpublish.report import PassReport, Report, VariantReport
from hubpublish.usage import usage_of
from hubpublish.words import plural, readable_bytes, readable_distance

TEMPLATE: Final = "model_card.md.j2"
REASONS_SHOWN: Final = 3  # so many different reasons of skipped nodes a row of the card names


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplacedRow(_Row):
    """One pass on one file, for the table of what was replaced."""

    file: str
    summary: str
    name: str
    rewritten: str
    into: str
    skipped: str


class WidestRow(_Row):
    """Slots that the widest node of an op type takes in one file, before and after."""

    file: str
    op: str
    before: int
    after: int


class VerifiedRow(_Row):
    """What was compared in one file at one optimization level, and how far apart it was."""

    file: str
    level: str
    inputs: int
    compared: int
    differing: int
    max_abs: float | None


def render(report: Report, spec: CardSpec) -> str:
    """The card as it is published: YAML metadata and Markdown.

    Args:
        report: What was done and measured.
        spec: The texts and metadata that the recipe gives.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, not HTML
    )
    environment.filters |= {
        "bytes": readable_bytes,
        "distance": readable_distance,
        "lower_first": lambda text: text[:1].lower() + text[1:],
        "plural": plural,
        "verdict": verdict,
    }
    first = report.variants[0].verification
    text = environment.get_template(TEMPLATE).render(
        metadata=metadata(report, spec).to_yaml(),
        report=report,
        card=spec,
        title=spec.title or report.target.rpartition("/")[2],
        usage=usage_of(report, spec),
        failures=list(failures(report)),
        replaced=[row for variant in report.variants for row in replaced(variant)],
        widest=[row for variant in report.variants for row in widest(variant)],
        will_not_run=sorted({(n.op, n.slots) for v in report.variants for n in v.fit.cannot_run}),
        exact=all(each.exact for variant in report.variants for each in variant.passes),
        all_identical=all(variant.verification.held == "exact" for variant in report.variants),
        runtime=first.runtime,
        provider=first.provider,
        inputs_in_words=_inputs_in_words(report),
        verified=[row for variant in report.variants for row in verified(variant)],
    )
    return text.rstrip() + "\n"


def metadata(report: Report, spec: CardSpec) -> ModelCardData:
    """The card's YAML block; the Hub indexes it."""
    return ModelCardData(
        license=spec.license,
        library_name="transformers.js",
        pipeline_tag=spec.pipeline_tag,
        tags=list(spec.tags) or None,
        base_model=list(spec.base_model) or [report.source.repo],
    )


def template_folder() -> Path:
    """Where the templates are: in the wheel inside the package, in a checkout beside it."""
    packaged = Path(str(files("hubpublish").joinpath("templates")))
    return packaged if packaged.is_dir() else packaged.parent.parent / "templates"


def failures(report: Report) -> Iterable[str]:
    """Why the original fails on the device: a sentence for each pass that replaced something."""
    for name, pass_class in PASSES.items():
        variant = next((v for v in report.variants for p in v.passes if p.name == name and p.rewritten), None)
        if variant is not None and pass_class.failure:
            nodes = [width for width in variant.fit_before.widest_by_op if width.op in pass_class.op_types]
            slots = max((width.slots for width in nodes), default=0)
            yield pass_class.failure.format(slots=slots, limit=variant.fit_before.limit)


def replaced(variant: VariantReport) -> Iterable[ReplacedRow]:
    """The rows of one file in the table of what was replaced; a pass that found nothing has none."""
    for each in variant.passes:
        if each.rewritten or each.skipped:
            yield ReplacedRow(
                file=PurePosixPath(variant.path).name,
                summary=each.summary,
                name=each.name,
                rewritten=_counted(Counter(node.op for node in each.rewritten)),
                into=_counted(sum((Counter(node.into) for node in each.rewritten), Counter())),
                skipped=_skipped(each),
            )


def widest(variant: VariantReport) -> Iterable[WidestRow]:
    """The op types that a pass can narrow, where they were too wide or have become narrower."""
    after = {width.op: width.slots for width in variant.fit.widest_by_op}
    for width in variant.fit_before.widest_by_op:
        changed = width.slots != after.get(width.op, 0)
        if width.narrowed_by and (changed or width.slots > variant.fit.limit):
            yield WidestRow(
                file=PurePosixPath(variant.path).name,
                op=width.op,
                before=width.slots,
                after=after.get(width.op, 0),
            )


def verified(variant: VariantReport) -> Iterable[VerifiedRow]:
    """A row for each optimization level."""
    for level in variant.verification.levels:
        outputs = [output for result in level.inputs for output in result.outputs]
        distances = [output.distance for output in outputs if output.distance is not None]
        yield VerifiedRow(
            file=PurePosixPath(variant.path).name,
            level=level.level,
            inputs=len(level.inputs),
            compared=sum(distance.elements for distance in distances),
            differing=sum(distance.differing for distance in distances),
            max_abs=max((distance.max_abs or 0.0 for distance in distances), default=None),
        )


def verdict(variant: VariantReport) -> str:
    """Which gate held for a file, as a sentence without its subject."""
    result = variant.verification
    if result.held == "exact":
        return "**same bits** as the original, with optimizations disabled and at the default level."
    if result.held == "exact_unoptimized":
        return (
            "**same bits** as the original with optimizations disabled. At the default level, where the "
            "runtime fuses operators differently, no further apart than the original's own two levels are."
        )
    bounds = (
        ", ".join(f"{name} ≤ {bound:g}" for name, bound in dict(result.gate).items())
        if not isinstance(result.gate, str)
        else result.gate
    )
    return f"within the tolerance that the recipe sets ({bounds}); not the same bits."


def _inputs_in_words(report: Report) -> str:
    labels = dict.fromkeys(each.label for v in report.variants for each in v.verification.inputs)
    return ", ".join(f"`{label}`" for label in labels)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {op}" for op, count in sorted(counts.items(), key=lambda i: (-i[1], i[0])))


def _skipped(each: PassReport) -> str:
    reasons = Counter(node.reason for node in each.skipped)
    shown = [f"{count}: {reason}" for reason, count in reasons.most_common(REASONS_SHOWN)]
    return "; ".join([*shown, *(["..."] if len(reasons) > REASONS_SHOWN else [])])
