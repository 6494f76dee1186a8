"""preview.md: what a run would change, for a pull request or a person at a terminal."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hubpublish.card import ReplacedRow, replaced, verdict
from hubpublish.markdown import render_template
from hubpublish.on_device import device_rows, obstacle_rows, on_webgpu, runtimes_in_words
from hubpublish.pictures import NONE, Pictures
from hubpublish.publish import Plan, tag_name
from hubpublish.report import Report, VariantReport
from hubpublish.rows import merged
from hubpublish.verify import OutputComparison
from hubpublish.verify.bench import LEVEL_NAMES
from hubpublish.words import readable_distance

TEMPLATE: Final = "preview.md.j2"
OPS_SHOWN: Final = 15  # rows of the table of op types
OUTPUTS_SHOWN: Final = 10  # rows of the table of outputs
PICTURE_WIDTH: Final = 200  # CSS pixels: four in a row fit a page of GitHub's


@dataclass(frozen=True)
class OutputRow:
    """One output over all inputs, at the optimization levels at which the figures are these."""

    output: str
    levels: str
    inputs: int
    values: int
    differing: int
    nonfinite_differing: int
    max_abs: float | None


def render_preview(
    report: Report,
    plan: Plan,
    old_card: str,
    new_card: str,
    pictures: Pictures = NONE,
    *,
    withdrawn: bool = False,
) -> str:
    """The preview as Markdown.

    Args:
        report: What was done.
        plan: What a commit would do to the target.
        old_card: The target's card now; empty if it has none.
        new_card: The card that would be published.
        pictures: What was drawn, below the folder of the preview.
        withdrawn: Whether this result was rolled back on the target.
    """
    diff = "\n".join(
        difflib.unified_diff(old_card.splitlines(), new_card.splitlines(), "now", "then", lineterm="")
    )
    return render_template(
        TEMPLATE,
        report=report,
        plan=plan,
        withdrawn=withdrawn,
        tag=_tag(report),
        summary=_summary(plan),
        card_diff=diff,
        fence=_fence(diff),
        on_device=merged(row for variant in report.variants for row in device_rows(variant)),
        obstacles=merged(row for variant in report.variants for row in obstacle_rows(variant)),
        runtimes=runtimes_in_words(report),
        **on_webgpu(report),
        variants=[_Described.of(variant) for variant in report.variants],
        pictures=pictures,
        width=PICTURE_WIDTH,
        verdict=verdict,
        counted=counted,
        levels=LEVEL_NAMES,
    )


@dataclass(frozen=True)
class _Described:
    """What the preview says of one variant."""

    report: VariantReport
    outputs: Sequence[OutputRow]
    more_outputs: Sequence[OutputRow]
    passes: Sequence[ReplacedRow]
    operators: Sequence[tuple[str, int, int]]
    more_operators: int

    @classmethod
    def of(cls, variant: VariantReport) -> _Described:
        outputs, operators = output_rows(variant), operator_rows(variant)
        return cls(
            report=variant,
            outputs=outputs[:OUTPUTS_SHOWN],
            more_outputs=outputs[OUTPUTS_SHOWN:],
            passes=list(replaced(variant)),
            operators=operators[:OPS_SHOWN],
            more_operators=max(0, len(operators) - OPS_SHOWN),
        )

    @property
    def more_differing(self) -> int:
        """Values that differ in the outputs that have no row."""
        return sum(row.differing for row in self.more_outputs)


def counted(output: OutputComparison) -> str:
    """What was counted on one output, in words: ``0 of 65,536 values differ``."""
    found = output.distance
    if found is None:
        return f"another {output.mismatch}"
    words = f"{found.differing:,} of {found.elements:,} values differ"
    if found.differing and found.max_abs is not None:
        words += f", by {readable_distance(found.max_abs)} at most"
    if found.nonfinite_differing:
        words += f", {found.nonfinite_differing:,} of them NaN or infinite in only one"
    return words


def _summary(plan: Plan) -> str:
    """How many files change, and how."""
    counts = Counter[str](entry.change for entry in plan.entries)
    changes = ("added", "changed", "deleted", "unchanged")
    return ", ".join(f"{counts[change]} {change}" for change in changes if counts[change])


def _tag(report: Report) -> str | None:
    """The tag that the commit would get; None if the recipe has none."""
    template = report.recipe["target"].get("tag")
    return tag_name(template, source_commit=report.source.commit, key=report.key) if template else None


def _fence(text: str) -> str:
    """What encloses a block of code that may itself hold such blocks, as a card does."""
    return "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])


def output_rows(variant: VariantReport) -> list[OutputRow]:
    """What was counted on each output: those that differ first, equal figures of two levels as one row."""
    found: dict[str, list[OutputRow]] = {}
    for level in variant.verification.levels:
        by_name: dict[str, list[OutputComparison]] = {}
        for output in (output for result in level.inputs for output in result.outputs):
            by_name.setdefault(output.name, []).append(output)
        for name, outputs in by_name.items():
            row = _row(name, level.level, outputs)
            rows = found.setdefault(name, [])
            if rows and replace(rows[-1], levels=row.levels) == row:
                rows[-1] = replace(row, levels=f"{rows[-1].levels}, {row.levels}")
            else:
                rows.append(row)
    return sorted((row for rows in found.values() for row in rows), key=lambda row: row.differing == 0)


def _row(name: str, level: str, outputs: Sequence[OutputComparison]) -> OutputRow:
    distances = [output.distance for output in outputs if output.distance is not None]
    largest = [distance.max_abs for distance in distances if distance.max_abs is not None]
    return OutputRow(
        output=name,
        levels=level,
        inputs=len(outputs),
        values=sum(distance.elements for distance in distances),
        differing=sum(distance.differing for distance in distances),
        nonfinite_differing=sum(distance.nonfinite_differing for distance in distances),
        max_abs=max(largest, default=None),
    )


def operator_rows(variant: VariantReport) -> list[tuple[str, int, int]]:
    """Op type, count before and after: those that change, the largest change first."""
    before, after = variant.before.ops, variant.after.ops
    rows = [(op, before.get(op, 0), after.get(op, 0)) for op in {*before, *after}]
    changed = [row for row in rows if row[1] != row[2]]
    return sorted(changed, key=lambda row: (-abs(row[2] - row[1]), row[0]))
