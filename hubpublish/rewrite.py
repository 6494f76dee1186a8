"""Rewrite one ONNX file: load, apply the passes in order, measure, save. No Hub, no recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubpublish.devices import Fit, Profile, measure_fit
from hubpublish.errors import DeviceFitError
from hubpublish.model import GraphStatistics, SavedModel, graph_statistics, load, save
from hubpublish.passes import PassOutcome, RewritePass

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
        SourceError: The model or its external data cannot be read.
        UnsupportedModelError: The model is of a kind that would lose something.
        DeviceFitError: The result does not fit ``profile``; then nothing is written.
    """
    model = load(source)
    before = graph_statistics(model)
    fit_before = measure_fit(model, profile) if profile else None
    outcomes = tuple(each(model) for each in passes)
    fit = measure_fit(model, profile) if profile else None
    if fit is not None and not fit:
        raise does_not_fit(fit, outcomes, source)
    saved = save(model, target)
    return Rewrite(saved, outcomes, before, graph_statistics(model), fit_before, fit)


def does_not_fit(fit: Fit, outcomes: Sequence[PassOutcome], source: Path) -> DeviceFitError:
    """The error that names the nodes which are too wide, and why each was left alone if a pass said so."""
    reasons = {(each.scope, each.node): each.reason for outcome in outcomes for each in outcome.skipped}
    lines = [
        f"{width.op} {width.node} in {width.scope} binds {width.slots} of {fit.limit}"
        + (f" ({reason})" if (reason := reasons.get((width.scope, width.node))) else "")
        for width in fit.too_wide
    ]
    named = "; ".join(lines[:NAMED_NODES])
    more = f"; and {len(lines) - NAMED_NODES} more" if len(lines) > NAMED_NODES else ""
    missing = sorted({str(width.narrowed_by) for width in fit.too_wide} - {each.name for each in outcomes})
    hint = f"add the pass {', '.join(missing)}" if missing else "lower the passes' max_inputs and max_outputs"
    return DeviceFitError(
        f"{len(lines)} nodes bind more storage buffers than {fit.profile} grants: {named}{more}",
        where=str(source),
        hint=f"{hint}, or name a device that grants more",
        details={"nodes": [width.model_dump() for width in fit.too_wide]},
    )
