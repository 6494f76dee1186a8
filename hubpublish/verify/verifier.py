"""The verification itself: both models on every input at both levels, then the gate.

Undecided is not passed: an original that crashes, does not load, fails on every input, or gives
outputs that do not change with its inputs proves nothing about its rewrite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hubpublish.verify import gate, hints, kept
from hubpublish.verify import signature as signatures
from hubpublish.verify.bench import LEVEL_NAMES, Bench, runtime_name
from hubpublish.verify.cache import ReferenceCache
from hubpublish.verify.inputs import InputMaker, InputSet
from hubpublish.verify.pair import Verdict, one_input
from hubpublish.verify.result import (
    LEVELS,
    InputResult,
    Level,
    LevelResult,
    Verification,
)
from hubpublish.verify.runner import PROVIDER, Output, RunLimits
from hubpublish.verify.scratch import scratch
from hubpublish.verify.signature import Signature, UnreadableModel

if TYPE_CHECKING:
    from hubpublish.recipe import VerifySpec


def verify(
    original: Path,
    rewritten: Path,
    *,
    spec: VerifySpec,
    base_dir: Path,
    preprocessor: Path | None = None,
    given: Mapping[str, np.ndarray[Any, Any]] | None = None,
    cache: Path | None = None,
    keep: Path | None = None,
    limits: RunLimits | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Whether ``rewritten`` computes what ``original`` does, as far as ``spec`` asks.

    Args:
        original: The model as it was.
        rewritten: The model as it is now.
        spec: The gate, and what to run on.
        base_dir: Where the paths of images start.
        preprocessor: The ``preprocessor_config.json`` that images go through.
        given: Arrays to feed, by input name, on top of the values in ``spec``.
        cache: A folder for reference outputs; None: none are kept.
        keep: A folder for one input, an image where there is one, and both models' outputs at the
            default level; see `hubpublish.verify.kept`. None: none are kept.
        limits: Of every single run; None: the defaults.
        progress: Told before each run what it is.

    Returns:
        The verification; it is false when the rewrite differs, and when that could not be decided.

    Raises:
        UsageError: A file is missing, or the inputs cannot be made as ``spec`` says.
        SourceError: A file of a model's external data is missing, or lies outside of its folder.
        UnsupportedModelError: Inputs or outputs of a type that cannot be fed or compared.
        VerificationError: Kind ``runner``: child processes do not work here.
    """
    limits = limits or RunLimits()
    with scratch("hubpublish-verify-") as folder:
        verifier = _Verifier(spec, limits, kept.Keeper(keep, progress) if keep else None)
        try:
            before, after = _signatures(original, rewritten, spec.inputs.shapes)
            verifier.notes += _one_shape_only(before, after)
            maker = InputMaker(before, spec.inputs, base_dir, preprocessor, given)
            references = ReferenceCache(cache) if cache else None
            bench = Bench(before, folder, limits, references, progress)
            verifier.run(bench, after.path, maker)
        except Verdict as verdict:
            return verifier.result(verdict)
        return verifier.result(None)


def _signatures(
    original: Path, rewritten: Path, shapes: Mapping[str, Sequence[int]]
) -> tuple[Signature, Signature]:
    """Both signatures, which must be the same, but for shapes that were asked for."""
    try:
        before = signatures.read(original)
    except UnreadableModel as error:
        raise Verdict("original_does_not_load", f"the original model does not load: {error}") from error
    try:
        after = signatures.read(rewritten)
    except UnreadableModel as error:
        raise Verdict("rewritten_does_not_load", f"the rewritten model does not load: {error}") from error
    difference = signatures.mismatch(before, after, shapes)
    if difference:
        raise Verdict("different", difference)
    return before, after


def _one_shape_only(before: Signature, after: Signature) -> list[str]:
    return [
        f"The rewritten model takes `{name}` in the shape {list(shape)} only."
        for name, shape in signatures.narrowed(before, after).items()
    ]


class _Verifier:
    """Collects what is found, until it is decided."""

    def __init__(self, spec: VerifySpec, limits: RunLimits, keeper: kept.Keeper | None) -> None:
        self.spec = spec
        self.limits = limits
        self.keeper = keeper
        self.sets: tuple[InputSet, ...] = ()
        self.levels: list[LevelResult] = []
        self.depends: bool | None = None
        self.notes: list[str] = []
        self.bench: Bench | None = None

    def run(self, bench: Bench, rewritten: Path, maker: InputMaker) -> None:
        """Run and compare; returns when the gate holds.

        Raises:
            Verdict: It does not, or cannot be decided.
        """
        self.bench = bench
        self.sets = maker.sets()
        for level in LEVELS:
            result, violations = self._level(bench, rewritten, level)
            self.levels.append(result)
            if violations:
                self._fail(bench, level, violations)
            if not result.compared:
                raise _all_fail(level, result)
            if level == "disabled":
                self._check_dependence(bench, maker)
                if self.keeper:
                    self.keeper.inputs = kept.chosen(self.sets, result.inputs)

    def _level(
        self, bench: Bench, rewritten: Path, level: Level
    ) -> tuple[LevelResult, list[tuple[InputSet, str]]]:
        """Every input at one level, and which of them violate the gate, and how."""
        results: list[InputResult] = []
        violations: list[tuple[InputSet, str]] = []
        for inputs in self.sets:
            results.append(one_input(bench, rewritten, level, inputs, self.keeper))
            reason = gate.violation(self.spec.gate, level, results[-1].outputs)
            if reason:
                violations.append((inputs, reason))
        return LevelResult(level=level, inputs=tuple(results)), violations

    def _fail(self, bench: Bench, level: Level, violations: Sequence[tuple[InputSet, str]]) -> None:
        """Raise the verdict for a gate that does not hold."""
        inputs, reason = violations[0]
        reference, repeated = bench.reference(level, inputs), bench.again(level, inputs)
        if repeated.status == "ok" and _digests(repeated.outputs) != _digests(reference.outputs):
            text = f"the original model gives other outputs when it is run again on {inputs.label}"
            raise Verdict("original_not_deterministic", text, level, inputs)
        where = f"on {inputs.label}, {LEVEL_NAMES[level]}"
        if self.spec.gate == "exact" and level == "default":
            other = gate.held("exact_unoptimized", self.levels) == "exact_unoptimized"
            text = (
                f"same bits with optimizations disabled, but at the default level {reason} ({inputs.label}); "
                f"gate exact_unoptimized {'holds' if other else 'does not hold either'}"
            )
            raise Verdict("different_default_level", text, level, inputs)
        raise Verdict("different", f"{reason} ({where})", level, inputs)

    def _check_dependence(self, bench: Bench, maker: InputMaker) -> None:
        """Whether the original's outputs change with its inputs at all.

        Raises:
            Verdict: They do not.
        """
        runs = [run for inputs in self.sets if (run := bench.reference("disabled", inputs)).status == "ok"]
        if not any(math.prod(output.shape) for run in runs for output in run.outputs):
            if maker.free:
                text = "every output of the original model is empty: there is nothing to compare"
                raise Verdict("output_independent_of_input", text)
            self.notes.append(
                "Every output is empty for the given values: only dtypes and shapes were compared."
            )
            return
        found = {_digests(run.outputs) for run in runs}
        compared, failed = len(runs), False
        if len(self.sets) == 1:
            for probe in maker.probes(self.sets):
                run = bench.reference("disabled", probe)
                failed |= run.status != "ok"
                if run.status == "ok":
                    compared += 1
                    found.add(_digests(run.outputs))
                if len(found) > 1:
                    break
        if len(found) > 1:
            self.depends = True
        elif compared < 2 or failed:
            self.notes.append(
                "Whether the outputs change with the inputs was not checked: there is only one input."
            )
        else:
            self.depends = False
            text = f"the outputs of the original model are the same for {compared} different inputs"
            raise Verdict("output_independent_of_input", text)

    def result(self, verdict: Verdict | None) -> Verification:
        """Everything that was found."""
        kind = verdict.kind if verdict else None
        return Verification(
            gate=self.spec.gate if isinstance(self.spec.gate, str) else gate.bounds_of(self.spec.gate),
            passed=verdict is None,
            held=gate.held(self.spec.gate, self.levels) if verdict is None else None,
            kind=kind,
            reason=verdict.reason if verdict else None,
            hint=hints.HINTS[kind] if kind else None,
            failed_level=verdict.level if verdict else None,
            failed_input=verdict.inputs.label if verdict and verdict.inputs else None,
            runtime=runtime_name(),
            provider=PROVIDER,
            threads=self.limits.threads,
            levels=tuple(self.levels),
            inputs=tuple(inputs.summary for inputs in self.sets),
            depends_on_input=self.depends,
            notes=tuple(self.notes),
            runs=tuple(self.bench.measurements) if self.bench else (),
        )


def _all_fail(level: Level, result: LevelResult) -> Verdict:
    error = next(each.error for each in result.inputs)
    return Verdict(
        "original_fails",
        f"the original model fails on every input ({LEVEL_NAMES[level]}), and so does the rewritten: {error}",
        level,
    )


def _digests(outputs: Sequence[Output]) -> tuple[tuple[object, ...], ...]:
    """What tells the outputs of two runs apart."""
    return tuple((output.name, output.dtype, output.shape, output.sha256) for output in outputs)
