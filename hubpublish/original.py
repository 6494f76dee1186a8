"""Why the original fails on the device, and whether the published file still does: from its inspection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hubpublish.inspection import Group, Summary
from hubpublish.passes import PASSES
from hubpublish.passes.removes import Problem
from hubpublish.report import Report, VariantReport
from hubpublish.rows import Row, merged

FAILING: Final = frozenset(
    {Problem.STORAGE_BUFFERS, Problem.FAILS, Problem.EMPTY, Problem.SHADER_F16, Problem.BUFFER}
)


class FailureRow(Row):
    """Nodes for which a model does not run on the device, or not rightly."""

    nodes: int
    op: str
    what: str
    happens: str
    where: str


def in_the_card(report: Report) -> dict[str, object]:
    """What the card's section on the original takes."""
    variants = report.variants
    return {
        "why": list(explanations(report)),
        "failures": merged(row for v in variants for row in failures(v.path, v.inspection_before)),
        "left": merged(row for v in variants for row in failures(v.path, v.inspection)),
        "original_on_cpu": any(v.inspection_before.totals.on_cpu for v in variants),
    }


def failures(path: str, found: Summary) -> Iterator[FailureRow]:
    """A row for each group of nodes that keeps the model from running."""
    for group in found.groups:
        if _fails(group):
            everywhere = group.runtimes == found.runtimes and len(found.runtimes) > 1
            yield FailureRow(
                file=f"`{path}`",
                nodes=group.nodes,
                op=group.op,
                what=f"{group.what} (believed, not measured)" if group.believed else group.what,
                happens=group.happens,
                where="all that were looked at" if everywhere else ", ".join(group.runtimes),
            )


def explanations(report: Report) -> Iterable[str]:
    """What the runtime makes of the original: a sentence for each pass that removed such a failure.

    A pass that narrows nodes removes one only where a node was wider than the device allows.
    """
    for name, pass_class in PASSES.items():
        variant = next((v for v in report.variants if _rewrote(v, name)), None)
        if variant is not None and pass_class.failure:
            before = variant.fit_before
            widths = [width for width in before.widest_by_op if width.op in pass_class.op_types]
            widest = max(widths, key=lambda width: width.slots, default=None)
            if not pass_class.narrows or (widest is not None and widest.exceeds(before.limit)):
                slots, limit = (widest.slots, widest.limit) if widest is not None else (0, None)
                yield pass_class.failure.format(slots=slots, limit=limit or before.limit)


def _rewrote(variant: VariantReport, name: str) -> bool:
    return any(each.name == name and each.rewritten for each in variant.passes)


def _fails(group: Group) -> bool:
    """Whether the model does not run for these nodes; a tensor in several bindings may still fit."""
    if group.problem == Problem.BINDING:
        return "does not compile" in group.happens
    return group.problem in FAILING
