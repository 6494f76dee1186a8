"""Rewrite one ONNX file: load, apply the passes in order, measure, save. No Hub, no recipe."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from hubpublish.devices import Device
from hubpublish.errors import HubpublishError, UsageError
from hubpublish.inspection import Auto, Inspection, inspect
from hubpublish.misfit import require_fit, require_sizes
from hubpublish.model import GraphStatistics, SavedModel, graph_statistics, load, save
from hubpublish.model.external import came_from
from hubpublish.passes import PassOutcome, RewritePass

Passes = Sequence[RewritePass[Any]]


@dataclass(frozen=True)
class Rewrite:
    """What became of a model.

    Attributes:
        saved: The new files.
        passes: What was applied, in order.
        outcomes: What each pass did.
        before, after: The graph's statistics.
        inspection_before, inspection: What stands in the way on the device; None if none was given.
    """

    saved: SavedModel
    passes: tuple[RewritePass[Any], ...]
    outcomes: tuple[PassOutcome, ...]
    before: GraphStatistics
    after: GraphStatistics
    inspection_before: Inspection | None
    inspection: Inspection | None


def rewrite(source: Path, target: Path, passes: Passes | Auto, device: Device | None = None) -> Rewrite:
    """Rewrite ``source`` into ``target``, which is written atomically, also when nothing changed.

    Args:
        source: The model.
        target: Where to write the result; external data goes beside it.
        passes: What to apply, in order, or that it is chosen for the device.
        device: What the result must fit; None: anything will do.

    Raises:
        UsageError: The result would be written over the source's external data.
        SourceError: The model or its external data cannot be read.
        UnsupportedModelError: The model is of a kind that would lose something.
        HubpublishError: Its constants cannot be computed on this machine, or take too long.
        DeviceFitError: The result does not fit ``device``; then nothing is written.
    """
    model = load(source)
    for written in (target, target.with_name(f"{target.name}_data")):
        if came_from(model, written):
            raise UsageError(
                "the result would replace the data of its source",
                where=str(written),
                hint="name another file to write to",
            )
    with _uncollected():
        seen_before = inspect(model, device.profile, device.runtime) if device else None
        before = graph_statistics(model)
        chosen = _chosen(passes, seen_before)
        outcomes = _applied(chosen, model, source)
        seen = inspect(model, device.profile, device.runtime) if device else None
    if device is not None and seen is not None:
        require_fit(seen.fit, outcomes, source)
        if device.enforce_sizes:
            require_sizes(seen, source)
    saved = save(model, target)
    return Rewrite(saved, chosen, outcomes, before, graph_statistics(model), seen_before, seen)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collections: little of a graph becomes garbage, and each looks at all of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _chosen(passes: Passes | Auto, found: Inspection | None) -> tuple[RewritePass[Any], ...]:
    if not isinstance(passes, Auto):
        return tuple(passes)
    if found is None:
        raise UsageError("passes are chosen for a device, and none is named", hint="name one with --device")
    return passes.choose(found)


def _applied(passes: Passes, model: ir.Model, source: Path) -> tuple[PassOutcome, ...]:
    try:
        return tuple(each(model) for each in passes)
    except HubpublishError as error:
        error.where = error.where or str(source)  # a pass knows the graph, and not where it came from
        raise
