"""The model card: the report, put into words by ``templates/model_card.md.j2``.

Whatever the card states comes from the report; this module only chooses and formats, and the
template holds no number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from huggingface_hub import ModelCardData

from hubpublish.markdown import CARD_TEMPLATE, render_template
from hubpublish.on_device import device_rows, needs_in_words, obstacle_rows, on_webgpu, runtimes_in_words
from hubpublish.original import in_the_card
from hubpublish.recipe import CardSpec
from hubpublish.regions import empty_region
from hubpublish.report import PassReport, Report, VariantReport
from hubpublish.rows import Row, merged
from hubpublish.usage import has_config, usage_of
from hubpublish.words import readable_distance

REASONS_SHOWN: Final = 3  # so many different reasons of skipped nodes a row of the card names


class ReplacedRow(Row):
    """What a pass did."""

    name: str
    summary: str
    rewritten: str
    into: str
    skipped: str


class ChosenRow(Row):
    """The passes that were chosen."""

    passes: str


class WidestRow(Row):
    """Slots that the widest node of an op type takes, before and after."""

    op: str
    before: int
    after: int


class VerifiedRow(Row):
    """What was compared at one optimization level, and how far apart it was."""

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
    variants = report.variants
    first = variants[0].verification
    return render_template(
        CARD_TEMPLATE,
        metadata=metadata(report, spec).to_yaml(),
        report=report,
        card=spec,
        title=spec.title or report.target.rpartition("/")[2],
        usage=usage_of(report, spec),
        free_text=[empty_region(name) for name in spec.free_text],
        replaced=merged(row for variant in variants for row in replaced(variant)),
        widest=merged(row for variant in variants for row in widest(variant)),
        verified=[row for variant in variants for row in verified(variant)],
        verdict=verdict,
        untouched=untouched(report),
        chosen=merged(row for variant in variants for row in chosen(variant)),
        same_bits=all(variant.verification.held == "exact" for variant in variants),
        will_not_run=sorted({(width.op, width.slots) for v in variants for width in v.fit.cannot_run}),
        on_device=merged(row for variant in variants for row in device_rows(variant)),
        obstacles=merged(row for variant in variants for row in obstacle_rows(variant)),
        runtimes=runtimes_in_words(report),
        needs_in_words=needs_in_words,
        **in_the_card(report),
        **on_webgpu(report),
        runtime=first.runtime,
        provider=first.provider,
        images=_images(report),
        input_labels=list(dict.fromkeys(each.label for v in variants for each in v.verification.inputs)),
    )


def metadata(report: Report, spec: CardSpec) -> ModelCardData:
    """The card's YAML block; the Hub indexes it."""
    return ModelCardData(
        license=spec.license,
        library_name="transformers.js" if has_config(report) else None,
        pipeline_tag=spec.pipeline_tag,
        tags=list(spec.tags) or None,
        base_model=list(spec.base_model) or [report.source.repo],
    )


def untouched(report: Report) -> dict[str, object]:
    """The files in which no pass replaced anything, and whether that is all of them.

    ``free`` are those of them in whose way nothing stands on the device.
    """
    files = [variant for variant in report.variants if not variant.was_rewritten]
    return {
        "all": len(files) == len(report.variants),
        "files": [_name(variant) for variant in files],
        "free": [_name(variant) for variant in files if not variant.inspection.groups],
    }


def chosen(variant: VariantReport) -> Iterable[ChosenRow]:
    """The passes of a file for which ``passes: auto`` chose them."""
    if variant.auto:
        yield ChosenRow(file=_name(variant), passes=", ".join(f"`{each.name}`" for each in variant.passes))


def replaced(variant: VariantReport) -> Iterable[ReplacedRow]:
    """A row for each pass that found something."""
    for each in variant.passes:
        if each.rewritten or each.skipped:
            yield ReplacedRow(
                file=_name(variant),
                name=each.name,
                summary=each.summary if each.exact else f"{each.summary} (approximate)",
                rewritten=_counted(Counter(node.op for node in each.rewritten)),
                into=_counted(sum((Counter(node.into) for node in each.rewritten), Counter())),
                skipped=_skipped(each),
            )


def widest(variant: VariantReport) -> Iterable[WidestRow]:
    """The op types that a pass can narrow, where they were too wide or have become narrower."""
    after = {width.op: width.slots for width in variant.fit.widest_by_op}
    for width in variant.fit_before.widest_by_op:
        changed = width.slots != after.get(width.op, 0)
        if width.narrowed_by and (changed or width.exceeds(variant.fit.limit)):
            yield WidestRow(
                file=_name(variant), op=width.op, before=width.slots, after=after.get(width.op, 0)
            )


def verified(variant: VariantReport) -> Iterable[VerifiedRow]:
    """A row for each optimization level."""
    for level in variant.verification.levels:
        outputs = [output for result in level.inputs for output in result.outputs]
        distances = [output.distance for output in outputs if output.distance is not None]
        yield VerifiedRow(
            file=_name(variant),
            level=level.level,
            inputs=sum(result.status == "compared" for result in level.inputs),
            compared=sum(distance.elements for distance in distances),
            differing=sum(distance.differing for distance in distances),
            max_abs=max((distance.max_abs or 0.0 for distance in distances), default=None),
        )


def verdict(variant: VariantReport) -> str:
    """Which gate held for a file, with what was measured, and what was not compared; without its subject."""
    result = variant.verification
    failing = [each.label for level in result.levels for each in level.inputs if each.status == "both_fail"]
    sentences = [_held(variant), *result.notes]
    if failing:
        labels = ", ".join(f"`{label}`" for label in dict.fromkeys(failing))
        sentences.append(f"On {labels} the runtime reports an error for both models, so nothing is compared.")
    return " ".join(sentences)


def _held(variant: VariantReport) -> str:
    result = variant.verification
    if result.held == "exact":
        return "**same bits** as the original, with optimizations disabled and at the default level."
    if result.held == "exact_unoptimized":
        return (
            "**same bits** as the original with optimizations disabled. At the default level, where the "
            f"runtime fuses operators differently, they differ by {_worst(variant, 'max_abs')} at most; the "
            f"original's own two levels differ by up to {_worst(variant, 'max_abs', own=True)}."
        )
    bounds = {} if isinstance(result.gate, str) else result.gate
    words = ", ".join(f"{name} at most {bound:g}: {_worst(variant, name)}" for name, bound in bounds.items())
    return f"within the tolerance that the recipe sets ({words}); not the same bits."


def _worst(variant: VariantReport, figure: str, *, own: bool = False) -> str:
    """The largest value of a figure over all levels, inputs and outputs."""
    outputs = [
        output for level in variant.verification.levels for each in level.inputs for output in each.outputs
    ]
    distances = [output.own if own else output.distance for output in outputs]
    values = [getattr(distance, figure) for distance in distances if distance is not None]
    return readable_distance(max((value for value in values if value is not None), default=None))


def _images(report: Report) -> list[str]:
    """The images that the recipe compares on; they are not published."""
    specs = [report.recipe.get("verify"), *(each.get("verify") for each in report.recipe["variants"])]
    names = [name for spec in specs if spec for name in spec.get("inputs", {}).get("images", [])]
    return list(dict.fromkeys(names))


def _name(variant: VariantReport) -> str:
    return f"`{variant.path}`"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {op}" for op, count in sorted(counts.items(), key=lambda i: (-i[1], i[0])))


def _skipped(each: PassReport) -> str:
    reasons = Counter(node.reason for node in each.skipped)
    shown = [f"{count}: {reason}" for reason, count in reasons.most_common(REASONS_SHOWN)]
    return "; ".join([*shown, *(["..."] if len(reasons) > REASONS_SHOWN else [])])
