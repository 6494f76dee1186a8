"""The errors for results that do not fit their device: which nodes, why, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hubpublish.devices import Fit
from hubpublish.errors import DeviceFitError
from hubpublish.inspection import Inspection
from hubpublish.passes import PassOutcome
from hubpublish.passes.removes import Problem
from hubpublish.words import plural

NAMED_NODES: Final = 5  # so many nodes an error message names; the details hold all


def require_fit(fit: Fit, outcomes: Sequence[PassOutcome], source: Path) -> None:
    """Check that every node fits the storage buffers of a device, if a pass can narrow it at all.

    Raises:
        DeviceFitError: It names the nodes which are too wide, and why each was left alone if a pass said so.
    """
    if fit:
        return
    reasons = {
        (outcome.name, each.scope, each.node): each.reason for outcome in outcomes for each in outcome.skipped
    }
    why = [reasons.get((str(width.narrowed_by), width.scope, width.node)) for width in fit.too_wide]
    lines = [
        f"{width.op} {width.node} in {width.scope} binds {width.slots}, {width.limit or fit.limit} granted"
        + (f" ({width.narrowed_by} left it alone: {reason})" if reason else "")
        for width, reason in zip(fit.too_wide, why, strict=True)
    ]
    missing = sorted({str(width.narrowed_by) for width in fit.too_wide} - {each.name for each in outcomes})
    if missing:
        hint = f"add the pass{'es' if len(missing) > 1 else ''} {', '.join(missing)}"
    elif None in why:
        hint = "lower the passes' max_inputs and max_outputs"
    else:
        hint = "export the model in another way, so that these reasons are gone"
    binds = "binds" if len(lines) == 1 else "bind"
    raise DeviceFitError(
        f"{plural(len(lines), 'node')} {binds} more storage buffers than {fit.granted_by} grants: "
        + _named(lines),
        where=str(source),
        hint=f"{hint}, or name a device{' or runtime' * (fit.granted_by != fit.profile)} that grants more",
        details={"nodes": [width.model_dump() for width in fit.too_wide]},
    )


def require_sizes(found: Inspection, source: Path) -> None:
    """Check that every tensor on the GPU certainly fits one binding, and one buffer, of the device.

    Raises:
        DeviceFitError: ``too_large``, which names the nodes; ``sizes_unknown``: it cannot be told.
    """
    large = [each for each in found.findings if each.problem in (Problem.BUFFER, Problem.BINDING)]
    if large:
        lines = [f"{each.op} {each.node} in {each.scope}: {each.what}" for each in large]
        needs = "needs" if len(lines) == 1 else "need"
        raise DeviceFitError(
            f"{plural(len(lines), 'node')} {needs} larger tensors than {found.profile} grants: "
            + _named(lines),
            where=str(source),
            hint="name a device that grants more, or take enforce_sizes out of the recipe",
            kind="too_large",
            details={"nodes": [each.model_dump(mode="json") for each in large]},
        )
    totals = found.totals
    if totals.unknown_sizes or totals.declared_sizes:
        uncertain = plural(totals.unknown_sizes + totals.declared_sizes, "tensor")
        raise DeviceFitError(
            f"the size of {uncertain} is not known, or only declared by the model, "
            f"so it is not known whether they fit {found.profile}",
            where=str(source),
            hint="give the model static shapes, or take enforce_sizes out of the recipe",
            kind="sizes_unknown",
        )


def _named(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - NAMED_NODES:,} more" if len(lines) > NAMED_NODES else ""
    return "; ".join(lines[:NAMED_NODES]) + more
