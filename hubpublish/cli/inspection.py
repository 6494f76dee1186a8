"""An inspection as text for people, 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hubpublish.cli.output import emit, emit_table
from hubpublish.passes.removes import Problem
from hubpublish.words import plural, readable_binary_bytes, shortened

if TYPE_CHECKING:
    from hubpublish.inspection import Group, Inspection, Totals

WIDTH: Final = 100
NODES_SHOWN: Final = 10  # so many groups are shown with their first node
MOST_OF_OPERATOR, MOST_OF_NAME = 40, 400  # characters; names are anybody's, and JSON has them whole

ON_CPU: Final = (Problem.NO_KERNEL, Problem.UNKNOWN)
SECTIONS: Final = (
    (
        (Problem.STORAGE_BUFFERS, Problem.FAILS, Problem.EMPTY, Problem.SHADER_F16),
        "Keeps the model from running",
    ),
    ((Problem.BUFFER, Problem.BINDING), "Larger than the device grants by default"),
    (ON_CPU, "Runs on the CPU"),
)


def show(found: Inspection) -> None:
    """Print what was found: counts, what is wrong in groups, and the totals."""
    statistics = found.statistics
    where = found.runtimes[0] if len(found.runtimes) == 1 else "the worst of every listed runtime"
    emit(
        f"{plural(statistics.nodes, 'node')}, opset {statistics.opset}; {found.profile}, {where}",
        style="bold",
    )
    for line in _operators(statistics.ops):
        emit(line)
    for problems, title in SECTIONS:
        groups = [group for group in found.groups if group.problem in problems]
        if groups:
            emit()
            emit(title, style="bold")
            _show_groups(groups, found)
    emit()
    emit("Totals, once the model is loaded", style="bold")
    for line in _totals(found.totals):
        emit(line)
    emit()
    for line in _verdict(found):
        emit(line)


def _operators(ops: dict[str, int]) -> list[str]:
    counts = ", ".join(f"{_operator(op)} {count:,}" for op, count in ops.items())
    return textwrap.wrap(counts, WIDTH, break_long_words=False)


def _operator(op: str) -> str:
    return shortened(op, MOST_OF_OPERATOR)


def _show_groups(groups: list[Group], found: Inspection) -> None:
    if groups[0].problem in ON_CPU:
        emit_table(
            ["nodes", "what is wrong", "copied from the GPU", "to the GPU", "removed by"],
            [
                [
                    f"{group.nodes:,}",
                    _what(group),
                    _bytes(group.bytes_from_gpu),
                    _bytes(group.bytes_to_gpu),
                    " or ".join(group.passes) or "-",
                ]
                for group in groups
            ],
        )
    else:
        emit_table(
            ["nodes", "operator", "what is wrong", "what happens", "removed by"],
            [
                [
                    f"{group.nodes:,}",
                    _operator(group.op),
                    _what(group),
                    group.happens,
                    " or ".join(group.passes) or "-",
                ]
                for group in groups
            ],
        )
    for group in groups[:NODES_SHOWN]:
        only = "" if len(group.runtimes) == len(found.runtimes) else f" (in {', '.join(group.runtimes)})"
        others = f" and {group.nodes - 1:,} more" if group.nodes > 1 else ""
        emit(f"  {_operator(group.op)}{only}: {shortened(group.first, MOST_OF_NAME)}{others}")


def _what(group: Group) -> str:
    return shortened(group.what, WIDTH) + (" *" if group.believed else "")


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else readable_binary_bytes(count) if count else "-"


def _totals(totals: Totals) -> Iterator[str]:
    sides = f"{totals.on_gpu:,} on the GPU, {totals.on_cpu:,} on the CPU"
    undecided = f", {totals.undecided:,} undecided" if totals.undecided else ""
    yield f"{plural(totals.nodes, 'node')} left: {sides}{undecided}"
    from_gpu, to_gpu = map(readable_binary_bytes, (totals.bytes_from_gpu, totals.bytes_to_gpu))
    copies = (
        f"{totals.copies_from_gpu:,} from the GPU ({from_gpu}), {totals.copies_to_gpu:,} to it ({to_gpu})"
    )
    yield f"Copies in a run: {copies}"
    if totals.unknown_copies:
        yield f"  without the bytes of {totals.unknown_copies:,} of unknown size"
    if totals.largest is not None:
        largest = readable_binary_bytes(totals.largest.bytes)
        yield f"Largest tensor: {largest} ({shortened(totals.largest.tensor, MOST_OF_NAME)})"
    at_least = "at least " if totals.unknown_sizes else ""
    peak, weights = map(readable_binary_bytes, (totals.peak_live_bytes, totals.weight_bytes))
    wasm = {True: "below", False: "above", None: "perhaps above"}[totals.fits_wasm]
    yield f"Alive at once: {at_least}{peak}, {weights} of it weights; {wasm} WebAssembly's 4 GiB"
    if totals.unknown_sizes:
        yield f"  without {plural(totals.unknown_sizes, 'tensor')} of unknown size"
    if totals.declared_sizes:
        yield f"  with {plural(totals.declared_sizes, 'tensor')} whose size is only declared, not proved"


def _verdict(found: Inspection) -> Iterator[str]:
    fit, over = found.fit, len(found.fit.too_wide) + len(found.fit.cannot_run)
    if over:
        yield (
            f"More storage buffers than {fit.granted_by} grants: {plural(over, 'node')}; "
            f"passes can narrow {len(fit.too_wide):,}."
        )
    else:
        yield f"Every node fits the {fit.limit} storage buffers of {fit.profile}."
    if found.passes:
        yield f"Passes that remove some of it: {', '.join(found.passes)}"
        yield "`hubpublish rewrite --pass auto` applies them, and those that make any file smaller."
    if any(group.believed for group in found.groups):
        yield "* believed of one of the runtimes, and not measured there"
