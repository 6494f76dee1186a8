"""What a rewrite did as text for people: pass by pass, and what is left on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hubpublish.cli.inspection import runtimes_in_words
from hubpublish.cli.output import emit, emit_table, warn
from hubpublish.inspection.models import STOPPING
from hubpublish.inspection.words import copies_in_words
from hubpublish.words import plural, printable

if TYPE_CHECKING:
    from hubpublish.inspection import Finding, Inspection, Totals
    from hubpublish.passes import PassOutcome
    from hubpublish.rewrite import Rewrite

SHOWN: Final = 10  # so many nodes that a pass left alone are listed
NAMED: Final = 5  # so many nodes the warning names; `hubpublish inspect` has the others


def show(done: Rewrite) -> None:
    """Print what every pass did and what was written; with a device, what changed there and what is left."""
    for outcome in done.outcomes:
        _show_outcome(outcome)
    emit(f"Wrote {done.saved.path}" + (f" and {done.saved.data}" if done.saved.data else ""))
    if done.inspection_before is not None and done.inspection is not None:
        _show_device(done.inspection_before, done.inspection)
        _warn_of(done.inspection)


def _show_outcome(outcome: PassOutcome) -> None:
    emit(f"{outcome.name}: {len(outcome.rewritten):,} rewritten, {len(outcome.skipped):,} left alone")
    for skipped in outcome.skipped[:SHOWN]:
        words = f"{skipped.op} {skipped.node} in {skipped.scope}: {skipped.reason}"
        emit(f"  left alone: {printable(words)}")
    if len(outcome.skipped) > SHOWN:
        emit(f"  and {len(outcome.skipped) - SHOWN:,} more; --report has them all")


def _show_device(before: Inspection, after: Inspection) -> None:
    runtime = after.runtimes[0] if len(after.runtimes) == 1 else "the worst of every listed runtime"
    was, now = _figures(before.totals), _figures(after.totals)
    emit()
    emit_table(
        [f"on {after.profile}, {runtime}", "before", "after"], [[what, was[what], now[what]] for what in was]
    )


def _figures(totals: Totals) -> dict[str, str]:
    return {
        "nodes that do not compile, or fail": f"{totals.failing:,}",
        "nodes on the CPU": f"{totals.on_cpu:,}",
        "nodes undecided": f"{totals.undecided:,}",
        "copies from the GPU in a run": copies_in_words(
            totals.copies_from_gpu, totals.bytes_from_gpu, totals
        ),
        "copies to the GPU in a run": copies_in_words(totals.copies_to_gpu, totals.bytes_to_gpu, totals),
    }


def _warn_of(found: Inspection) -> None:
    first: dict[tuple[str, str, str], Finding] = {}
    for each in found.findings:
        if each.problem in STOPPING:
            first.setdefault((each.scope, each.node, each.op), each)
    if not first:
        return
    lines = [_in_words(each, found.runtimes) for each in first.values()]
    keep = "keeps" if found.totals.failing == 1 else "keep"
    more = f"; and {len(lines) - NAMED:,} more" if len(lines) > NAMED else ""
    warn(
        f"{plural(found.totals.failing, 'node')} still {keep} the model from running on {found.profile}: "
        f"{'; '.join(lines[:NAMED])}{more}"
    )


def _in_words(each: Finding, runtimes: tuple[str, ...]) -> str:
    some = runtimes_in_words(each.runtimes, runtimes)
    where = "" if some == "all" else f" in {some}"
    return f"{each.op} {each.node} in {each.scope} {each.what}: {each.happens}{where}"
