"""An inspection as text for people, 100 columns wide where no runtimes must be listed."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hubpublish.cli.output import emit, emit_table
from hubpublish.inspection.models import STOPPING
from hubpublish.inspection.words import alive_in_words, copies_in_words, largest_in_words
from hubpublish.passes.removes import Problem
from hubpublish.words import plural, readable_binary_bytes, shortened

if TYPE_CHECKING:
    from hubpublish.inspection import Group, Inspection, Totals
    from hubpublish.single import FileInspection

    Column = tuple[str, Callable[[Group], str]]

WIDTH: Final = 100
NODES_SHOWN: Final = 10  # so many groups are shown with their first node
MOST_OF_OPERATOR, MOST_OF_NAME = 40, 400  # characters; names are anybody's, and JSON has them whole

ON_CPU: Final = (Problem.NO_KERNEL,)
SECTIONS: Final = (
    (STOPPING, "Keeps the model from running"),
    ((Problem.BUFFER, Problem.BINDING), "Larger than the device grants by default"),
    (ON_CPU, "Runs on the CPU"),
    ((Problem.UNKNOWN,), "Undecided"),
)


def show(found: FileInspection) -> None:
    """Print what was found: counts, what is wrong in groups, the totals, and what to do next."""
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
    for line in _totals(found):
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
    columns = _columns(groups, found)
    emit_table([title for title, _ in columns], [[cell(group) for _, cell in columns] for group in groups])
    for group in groups[:NODES_SHOWN]:
        others = f" and {group.nodes - 1:,} more" if group.nodes > 1 else ""
        emit(f"  {_operator(group.op)}: {shortened(group.first, MOST_OF_NAME)}{others}")


def _columns(groups: list[Group], found: Inspection) -> list[Column]:
    columns: list[Column] = [("nodes", lambda group: f"{group.nodes:,}")]
    if groups[0].problem in ON_CPU:
        columns += [
            ("what is wrong", _what),
            ("copied from the GPU", lambda group: _bytes(group.bytes_from_gpu)),
            ("to the GPU", lambda group: _bytes(group.bytes_to_gpu)),
        ]
    else:
        columns += [
            ("operator", lambda group: _operator(group.op)),
            ("what is wrong", _what),
            ("what happens", lambda group: group.happens),
        ]
    if any(len(group.runtimes) < len(found.runtimes) for group in groups):
        columns.append(("in", lambda group: runtimes_in_words(group.runtimes, found.runtimes)))
    return [*columns, ("may be removed by", lambda group: " or ".join(group.passes) or "-")]


def runtimes_in_words(some: tuple[str, ...], every: tuple[str, ...]) -> str:
    """Which of the runtimes these are; three and more in a row as ``web-1.22 to web-1.24``."""
    if len(some) == len(every):
        return "all"
    runs: list[list[str]] = []
    for name in some:
        if runs and every.index(runs[-1][-1]) + 1 == every.index(name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _what(group: Group) -> str:
    return shortened(group.what, WIDTH) + (" *" if group.believed else "")


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else readable_binary_bytes(count) if count else "-"


def _totals(found: Inspection) -> Iterator[str]:
    totals = found.totals
    yield f"{plural(totals.nodes, 'node')} left: {', '.join(_sides(found))}"
    twice = totals.on_gpu + totals.failing + totals.on_cpu + totals.undecided - totals.nodes
    if twice > 0:
        yield f"  {twice:,} of them counted twice: what becomes of them is not the same in all runtimes"
    yield f"Copies in a run: {_copies(totals)}"
    if totals.unknown_copies:
        yield f"  without the bytes of {totals.unknown_copies:,} of unknown size"
    name = f" ({shortened(totals.largest.tensor, MOST_OF_NAME)})" if totals.largest is not None else ""
    yield f"Largest tensor: {largest_in_words(totals)}{name}"
    yield f"Alive at once: {alive_in_words(totals)}"
    if totals.unknown_sizes:
        yield f"  without {plural(totals.unknown_sizes, 'tensor')} of unknown size"
    if totals.declared_sizes:
        yield f"  with {plural(totals.declared_sizes, 'tensor')} whose size is only declared, not proved"


def _sides(found: Inspection) -> Iterator[str]:
    totals = found.totals
    yield f"{totals.on_gpu:,} {'runs' if totals.on_gpu == 1 else 'run'} on the GPU"
    if totals.failing:
        one = totals.failing == 1
        stopping = [group for group in found.groups if group.problem in STOPPING]
        if all(group.happens == "does not compile" for group in stopping):
            yield f"{totals.failing:,} {'does' if one else 'do'} not compile there"
        else:
            yield f"{totals.failing:,} {'fails' if one else 'fail'} or {'does' if one else 'do'} not compile"
    yield f"{totals.on_cpu:,} on the CPU"
    if totals.undecided:
        yield f"{totals.undecided:,} undecided"


def _copies(totals: Totals) -> str:
    from_gpu = copies_in_words(totals.copies_from_gpu, totals.bytes_from_gpu, totals)
    to_gpu = copies_in_words(totals.copies_to_gpu, totals.bytes_to_gpu, totals)
    return f"from the GPU {from_gpu}, to it {to_gpu}"


def _verdict(found: FileInspection) -> Iterator[str]:
    fit, over = found.fit, len(found.fit.too_wide) + len(found.fit.cannot_run)
    if over:
        yield (
            f"More storage buffers than {fit.granted_by} grants: {plural(over, 'node')}; "
            f"there are passes that may narrow {len(fit.too_wide):,}."
        )
    else:
        yield f"Every node fits the {fit.limit} storage buffers of {fit.profile}."
    if found.passes:
        yield f"Passes that may remove some of it: {', '.join(found.passes)}"
        if found.refused is None:
            yield f"`{_rewrite_command(found)}` tries them, and those that make any file smaller."
        else:
            yield f"But `hubpublish rewrite` refuses this model, so none can be tried: {found.refused}"
    if any(group.believed for group in found.groups):
        yield "* believed of one of the runtimes, and not measured there"


def _rewrite_command(found: FileInspection) -> str:
    """What to type to have the passes tried on this file, for what it was held against."""
    same = Path(found.file).resolve() == Path("out.onnx").resolve()
    out = "rewritten.onnx" if same else "out.onnx"
    words = ["hubpublish", "rewrite", found.file, out, "--pass", "auto", "--device", found.profile]
    return shlex.join([*words, "--runtime", *found.runtimes] if len(found.runtimes) == 1 else words)
