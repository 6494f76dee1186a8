"""The gates: what has to hold for a rewrite to pass.

``exact``: every output has the same dtype, shape and bits, at both optimization levels.
``exact_unoptimized``: the same bits with optimizations disabled; at the default level no further
apart than the original's own two levels are on that input. The runtime fuses Conv and Add where it
does not fuse Conv and Sum, so an exact rewrite can differ there.
A tolerance: every bound holds, for every output, at both levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hubpublish.verify.result import Distance, Held, Level, LevelResult, OutputComparison

if TYPE_CHECKING:
    from hubpublish.recipe import Gate

Bounds = dict[str, float]


def bounds_of(gate: Gate) -> Bounds:
    """The bounds of a tolerance; empty for the named gates."""
    if isinstance(gate, str):
        return {}
    return {name: float(bound) for name, bound in gate.model_dump(exclude_none=True).items()}


def why_not_exact(output: OutputComparison) -> str | None:
    """How the output differs, as a sentence; None when it does not."""
    if output.identical:
        return None
    if output.mismatch or output.distance is None:
        return f"output {output.name!r} ({output.dtype} {list(output.shape)}) has another {output.mismatch}"
    distance = output.distance
    text = f"output {output.name!r} differs in {distance.differing} of {distance.elements} values"
    if distance.nonfinite_differing:
        text += f", {distance.nonfinite_differing} of them NaN or infinite in only one"
    return text + (f", by {distance.max_abs:.3g} at most" if distance.max_abs is not None else "")


def why_not_within_own(output: OutputComparison) -> str | None:
    """How the output exceeds the distance between the original's two levels; None when it does not."""
    if output.identical:
        return None
    if output.distance is None or output.own is None:
        return why_not_exact(output)
    if _no_further(output.distance, output.own):
        return None
    own = output.own.max_abs if output.own.max_abs is not None else 0.0
    return f"{why_not_exact(output)}, where the original's own two levels differ by {own:.3g}"


def _no_further(mine: Distance, own: Distance) -> bool:
    if mine.max_abs is None or own.max_abs is None:
        return mine.differing <= own.differing
    return mine.nonfinite_differing <= own.nonfinite_differing and mine.max_abs <= own.max_abs


def why_not_within(output: OutputComparison, bounds: Bounds) -> str | None:
    """Which bound the output exceeds; one for which no bound has a meaning must be identical."""
    if output.identical:
        return None
    distance = output.distance
    if distance is None or distance.nonfinite_differing:
        return why_not_exact(output)
    figures = {name: getattr(distance, name) for name in bounds}
    defined = {name: figure for name, figure in figures.items() if figure is not None}
    if not defined:
        return why_not_exact(output)
    for name, figure in defined.items():
        if figure > bounds[name]:
            return f"output {output.name!r} has {name} {figure:.3g}, more than {bounds[name]:.3g}"
    return None


def violation(gate: Gate, level: Level, outputs: Sequence[OutputComparison]) -> str | None:
    """Why these outputs of one input do not pass the gate at this level; None when they do."""
    bounds = bounds_of(gate)
    for output in outputs:
        if bounds:
            reason = why_not_within(output, bounds)
        elif gate == "exact_unoptimized" and level == "default":
            reason = why_not_within_own(output)
        else:
            reason = why_not_exact(output)
        if reason:
            return reason
    return None


def held(gate: Gate, levels: Sequence[LevelResult]) -> Held | None:
    """The strongest gate that holds for everything that was compared."""
    candidates: list[tuple[Held, Gate]] = [("exact", "exact"), ("exact_unoptimized", "exact_unoptimized")]
    if not isinstance(gate, str):
        candidates.append(("tolerance", gate))
    for name, candidate in candidates:
        if not any(
            violation(candidate, level.level, result.outputs) for level in levels for result in level.inputs
        ):
            return name
    return None
