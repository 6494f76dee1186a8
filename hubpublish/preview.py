"""preview.md: what a run would change, for a pull request or a person at a terminal."""

from __future__ import annotations

import difflib
import re
from typing import Final

from hubpublish.card import verdict
from hubpublish.markdown import render_template
from hubpublish.publish import Plan
from hubpublish.report import Report, VariantReport

TEMPLATE: Final = "preview.md.j2"
OPS_SHOWN: Final = 15  # rows of the table of op types


def render_preview(report: Report, plan: Plan, old_card: str, new_card: str) -> str:
    """The preview as Markdown.

    Args:
        report: What was done.
        plan: What a commit would do to the target.
        old_card: The target's card now; empty if it has none.
        new_card: The card that would be published.
    """
    diff = "\n".join(
        difflib.unified_diff(old_card.splitlines(), new_card.splitlines(), "now", "then", lineterm="")
    )
    return render_template(
        TEMPLATE,
        report=report,
        plan=plan,
        card_diff=diff,
        fence=_fence(diff),
        operators=[(variant, operator_rows(variant)) for variant in report.variants],
        verdict=verdict,
    )


def _fence(text: str) -> str:
    """What encloses a block of code that may itself hold such blocks, as a card does."""
    return "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])


def operator_rows(variant: VariantReport) -> list[tuple[str, int, int]]:
    """Op type, count before and after: those that change, the largest change first."""
    before, after = variant.before.ops, variant.after.ops
    rows = [(op, before.get(op, 0), after.get(op, 0)) for op in {*before, *after}]
    changed = [row for row in rows if row[1] != row[2]]
    return sorted(changed, key=lambda row: (-abs(row[2] - row[1]), row[0]))[:OPS_SHOWN]
