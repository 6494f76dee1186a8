"""What of a model is so in one runtime and not in another: for an app that knows which one it loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hubpublish.devices.placement import Placement, Side, place
from hubpublish.devices.runtimes import Runtime
from hubpublish.inspection.models import Finding
from hubpublish.passes.removes import Problem


def fails_on(findings: Iterable[Finding], runtimes: Sequence[Runtime]) -> tuple[str, ...]:
    """The runtimes in which a node fails or computes wrong values, whatever the device grants."""
    by_name = {runtime.name: runtime for runtime in runtimes}
    failing = {name for finding in findings for name in _failing_in(finding, by_name)}
    return tuple(name for name in by_name if name in failing)


def _failing_in(finding: Finding, runtimes: dict[str, Runtime]) -> Iterator[str]:
    if finding.problem in (Problem.FAILS, Problem.EMPTY):
        yield from finding.runtimes
    elif finding.problem == Problem.STORAGE_BUFFERS:
        # Too many for the device is for the device to say; only some runtimes take fewer than it grants.
        for name in finding.runtimes:
            limit = runtimes[name].limits.get(finding.op)
            if limit is not None and (finding.amount or 0) > limit.storage_buffers:
                yield name


def on_cpu_in(placement: Placement, runtimes: Sequence[Runtime]) -> dict[str, int]:
    """How many nodes run on the CPU, by runtime; without those that run none there.

    Each runtime is asked alone: with several, a node that one of them leaves on the CPU takes others along.
    """
    alone = {
        runtime.name: placement if len(runtimes) == 1 else place(placement.loaded, (runtime,))
        for runtime in runtimes
    }
    counts = {name: len(its.on(Side.CPU)) for name, its in alone.items()}
    return {name: count for name, count in counts.items() if count}
