"""Original and rewritten model on one input at one level: two runs and what to make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hubpublish.verify import compare, gate
from hubpublish.verify.bench import LEVEL_NAMES, Bench
from hubpublish.verify.inputs import InputSet
from hubpublish.verify.kept import Keeper
from hubpublish.verify.result import FailureKind, InputResult, Level, OutputComparison
from hubpublish.verify.runner import Run

if TYPE_CHECKING:
    from hubpublish.recipe import Gate


class Verdict(Exception):  # noqa: N818  not an error
    """A verdict was reached before everything was compared."""

    def __init__(
        self, kind: FailureKind, reason: str, level: Level | None = None, inputs: InputSet | None = None
    ) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind
        self.reason = reason
        self.level = level
        self.inputs = inputs


def failure(bench: Bench, candidate: Path, level: Level, inputs: InputSet, wanted: Gate) -> str | None:
    """Why ``candidate`` does not pass the gate on this input at this level; None when it does."""
    try:
        return gate.violation(wanted, level, one_input(bench, candidate, level, inputs).outputs)
    except Verdict as verdict:
        return verdict.reason


def one_input(
    bench: Bench, rewritten: Path, level: Level, inputs: InputSet, keeper: Keeper | None = None
) -> InputResult:
    """Both models on one input at one level; ``keeper`` may take what came out.

    Raises:
        Verdict: One of them ends in a way that decides, or that leaves it undecided.
    """
    reference = bench.reference(level, inputs)
    if reference.status not in ("ok", "fails"):
        raise _ended(reference, "original", level, inputs)
    with bench.candidate(rewritten, level, inputs) as run:
        if run.status not in ("ok", "fails") or (run.status == "fails" and reference.status == "ok"):
            raise _ended(run, "rewritten", level, inputs)
        if reference.status == "fails" and run.status == "ok":
            text = f"the original model fails on {inputs.label} and the rewritten does not: {reference.error}"
            raise Verdict("rewritten_succeeds_where_original_fails", text, level, inputs)
        if run.status == "fails":
            return InputResult(label=inputs.label, status="both_fail", error=reference.error)
        outputs = compare.outputs(reference.outputs, run.outputs)
        if keeper is not None and keeper.wants(level, inputs):
            keeper.keep(inputs, reference.outputs, run.outputs)
    if level == "default" and not all(output.identical for output in outputs):
        outputs = _with_own(bench, inputs, reference, outputs)
    return InputResult(label=inputs.label, status="compared", outputs=outputs)


def _with_own(
    bench: Bench, inputs: InputSet, reference: Run, outputs: Sequence[OutputComparison]
) -> tuple[OutputComparison, ...]:
    """The comparisons with the distance between the original's own two levels."""
    unoptimized = bench.reference("disabled", inputs)
    if unoptimized.status != "ok":
        return tuple(outputs)
    own = {output.name: output.distance for output in compare.outputs(unoptimized.outputs, reference.outputs)}
    return tuple(
        output if output.identical else output.model_copy(update={"own": own.get(output.name)})
        for output in outputs
    )


def _ended(run: Run, which: str, level: Level, inputs: InputSet) -> Verdict:
    """The verdict for a run that gave no outputs."""
    where = f"on {inputs.label}, {LEVEL_NAMES[level]}"
    error = f": {run.error}" if run.error else ""
    kinds: dict[tuple[str, str], FailureKind] = {
        ("crashed", "original"): "original_crashed",
        ("crashed", "rewritten"): "rewritten_crashed",
        ("does_not_load", "original"): "original_does_not_load",
        ("does_not_load", "rewritten"): "rewritten_does_not_load",
        ("fails", "rewritten"): "rewritten_fails",
        ("timeout", which): "timeout",
        ("out_of_memory", which): "out_of_memory",
    }
    texts = {
        "crashed": f"the {which} model crashes the runtime while {run.phase} ({where}){error}",
        "does_not_load": f"the {which} model does not load ({LEVEL_NAMES[level]}){error}",
        "fails": f"the {which} model fails where the original does not ({where}){error}",
        "timeout": f"the {which} model was stopped after {run.seconds:.0f} s ({where})",
        "out_of_memory": f"the {which} model ran out of memory while {run.phase} ({where}){error}",
    }
    return Verdict(kinds[run.status, which], texts[run.status], level, inputs)
