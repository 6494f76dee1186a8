"""Rewrite one ONNX file: load, apply the passes in order, measure, save. No Hub, no recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from hubpublish.devices import Fit, Profile, measure_fit
from hubpublish.errors import DeviceFitError, UnsupportedModelError, UsageError
from hubpublish.model import GraphStatistics, SavedModel, graph_statistics, load, save
from hubpublish.model.external import came_from
from hubpublish.passes import PassOutcome, RewritePass
from hubpublish.words import plural

NAMED_NODES = 5  # so many nodes an error message names; the details hold all


@dataclass(frozen=True)
class Rewrite:
    """What became of a model.

    Attributes:
        saved: The new files.
        outcomes: What each pass did, in order.
        before, after: The graph's statistics.
        fit_before, fit: How it fits the profile; None if no profile was given.
    """

    saved: SavedModel
    outcomes: tuple[PassOutcome, ...]
    before: GraphStatistics
    after: GraphStatistics
    fit_before: Fit | None
    fit: Fit | None


def rewrite(
    source: Path, target: Path, passes: Sequence[RewritePass[Any]], profile: Profile | None = None
) -> Rewrite:
    """Rewrite ``source`` into ``target``, which is written atomically, also when nothing changed.

    Raises:
        UsageError: The result would be written over the source's external data.
        SourceError: The model or its external data cannot be read.
        UnsupportedModelError: The model is of a kind that would lose something.
        DeviceFitError: The result does not fit ``profile``; then nothing is written.
    """
    model = load(source)
    for written in (target, target.with_name(f"{target.name}_data")):
        if came_from(model, written):
            raise UsageError(
                "the result would replace the data of its source",
                where=str(written),
                hint="name another file to write to",
            )
    before = graph_statistics(model)
    fit_before = measure_fit(model, profile) if profile else None
    outcomes = _applied(passes, model, source)
    fit = measure_fit(model, profile) if profile else None
    if fit is not None and not fit:
        raise does_not_fit(fit, outcomes, source)
    saved = save(model, target)
    return Rewrite(saved, outcomes, before, graph_statistics(model), fit_before, fit)


def _applied(passes: Sequence[RewritePass[Any]], model: ir.Model, source: Path) -> tuple[PassOutcome, ...]:
    try:
        return tuple(each(model) for each in passes)
    except UnsupportedModelError as error:
        error.where = error.where or str(source)  # a pass knows the graph, and not where it came from
        raise


def does_not_fit(fit: Fit, outcomes: Sequence[PassOutcome], source: Path) -> DeviceFitError:
    """The error that names the nodes which are too wide, and why each was left alone if a pass said so."""
    reasons = {(each.scope, each.node): each.reason for outcome in outcomes for each in outcome.skipped}
    unexplained = [width for width in fit.too_wide if (width.scope, width.node) not in reasons]
    lines = [
        f"{width.op} {width.node} in {width.scope} binds {width.slots} of {fit.limit}"
        + (f" ({reason})" if (reason := reasons.get((width.scope, width.node))) else "")
        for width in fit.too_wide
    ]
    named = "; ".join(lines[:NAMED_NODES])
    more = f"; and {len(lines) - NAMED_NODES:,} more" if len(lines) > NAMED_NODES else ""
    missing = sorted({str(width.narrowed_by) for width in fit.too_wide} - {each.name for each in outcomes})
    if missing:
        hint = f"add the pass{'es' if len(missing) > 1 else ''} {', '.join(missing)}"
    elif unexplained:
        hint = "lower the passes' max_inputs and max_outputs"
    else:
        hint = "change the model so that the passes can prove what they need"
    binds = "binds" if len(lines) == 1 else "bind"
    return DeviceFitError(
        f"{plural(len(lines), 'node')} {binds} more storage buffers than {fit.profile} grants: {named}{more}",
        where=str(source),
        hint=f"{hint}, or name a device that grants more",
        details={"nodes": [width.model_dump() for width in fit.too_wide]},
    )
