"""Questions about a value that its neighbours answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir

Answers = dict[ir.Value, bool]


def reaches(
    value: ir.Value,
    known: Answers,
    found: Callable[[ir.Value], bool],
    further: Callable[[ir.Value], Iterable[ir.Value]],
) -> bool:
    """Whether something is found at a value, or at one that is reached from it.

    Args:
        value: The value.
        known: Answers so far, to which those on the way are added, so that each value is asked once.
        found: Whether it is found at a value.
        further: The values that are reached from one at once; no cycle may come of that.
    """
    pending = [value]
    while pending:  # a stack, as chains may be longer than Python's is deep
        current = pending[-1]
        if current in known:
            pending.pop()
        elif found(current):
            known[current] = True
        else:
            reached = list(further(current))
            missing = [each for each in reached if each not in known]
            pending += missing
            if not missing:
                known[current] = any(known[each] for each in reached)
    return known[value]
