"""Finds what made a rewritten model differ: the pass, then the node, then a small model that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from hubpublish.model import load, save
from hubpublish.passes import PassOutcome, RewritePass, Rewritten
from hubpublish.verify import minimal, pair
from hubpublish.verify import signature as signatures
from hubpublish.verify.bench import Bench
from hubpublish.verify.cache import ReferenceCache
from hubpublish.verify.inputs import InputMaker, InputSet
from hubpublish.verify.result import Level, Verification
from hubpublish.verify.runner import RunLimits
from hubpublish.verify.scratch import scratch

if TYPE_CHECKING:
    from hubpublish.recipe import VerifySpec

Build = Callable[[int, int | None], Path]
"""``build(index, limit)``: the model after the passes 0 to ``index``, of which the last has rewritten only
the first ``limit`` nodes (None: all). Every call writes a file of its own."""

BISECTABLE = (
    "different",
    "different_default_level",
    "rewritten_crashed",
    "rewritten_does_not_load",
    "rewritten_fails",
    "rewritten_succeeds_where_original_fails",
)


class Culprit(BaseModel):
    """What made the rewritten model differ.

    Attributes:
        pass_name: The pass after which the models differ first.
        node: The node whose replacement makes the difference; None: the pass's preparation of the
            graph, or writing the model, does.
        op, scope: The node's.
        reason: How the models differ with the node rewritten.
        minimal: ``before.onnx`` and ``after.onnx`` are only the part around the node and show the
            difference; otherwise they are the whole models, under ``before/`` and ``after/``.
        before, after, inputs: The files: the model without and with the rewrite of that node, and
            what to feed, as ``.npz``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pass_name: str
    node: str | None
    op: str | None
    scope: str | None
    reason: str
    minimal: bool
    before: Path
    after: Path
    inputs: Path

    def __str__(self) -> str:
        if self.node is None:
            return f"pass {self.pass_name} as a whole, not one node of it"
        return f"pass {self.pass_name}, its rewrite of {self.op} {self.node} in {self.scope}"


def builder(original: Path, passes: Sequence[RewritePass[Any]], folder: Path) -> Build:
    """A ``build`` that applies ``passes`` to ``original`` and writes into ``folder``."""

    def build(index: int, limit: int | None) -> Path:
        model = load(original)
        for earlier in passes[:index]:
            earlier(model)
        last = passes[index]
        type(last)(last.options, limit=limit)(model)
        return save(model, folder / f"{index}-{'all' if limit is None else limit}" / original.name).path

    return build


def bisect(
    result: Verification,
    original: Path,
    build: Build,
    outcomes: Sequence[PassOutcome],
    *,
    spec: VerifySpec,
    base_dir: Path,
    out: Path,
    preprocessor: Path | None = None,
    given: Mapping[str, np.ndarray[Any, Any]] | None = None,
    cache: Path | None = None,
    limits: RunLimits | None = None,
    progress: Callable[[str], None] | None = None,
) -> Culprit | None:
    """Find the node whose rewrite made ``result`` fail, and write the smallest models that show it.

    Takes about log2(passes) + log2(nodes rewritten) runs of the whole model.

    Args:
        result: The verification that did not pass.
        original: The original model.
        build: Makes the models in between.
        outcomes: What each pass did, in order, when all of them ran.
        spec: As it was given to ``verify``; likewise the arguments not named here.
        base_dir: Likewise.
        out: A folder for the files; made if it is not there.
        preprocessor: Likewise.
        given: Likewise.
        cache: Likewise.
        limits: Likewise.
        progress: Told before each run what it is.

    Returns:
        The culprit; None when the failure is not the rewrite's, or does not show again.
    """
    if result.kind not in BISECTABLE or result.failed_level is None or not outcomes:
        return None
    before = signatures.read(original)
    sets = InputMaker(before, spec.inputs, base_dir, preprocessor, given).sets()
    inputs = next((each for each in sets if each.label == result.failed_input), sets[0])
    out.mkdir(parents=True, exist_ok=True)
    with scratch("hubpublish-bisect-") as folder:
        references = ReferenceCache(cache) if cache else None
        bench = Bench(before, folder, limits or RunLimits(), references, progress)
        search = _Search(bench, result.failed_level, inputs, spec)
        found = search.find(original, build, outcomes)
        if found is None:
            return None
        evidence = minimal.write(
            found.before, found.after, bench, result.failed_level, inputs, spec.gate, out
        )
        return Culprit(
            pass_name=found.pass_name,
            node=found.site.node if found.site else None,
            op=found.site.op if found.site else None,
            scope=found.site.scope if found.site else None,
            reason=found.reason,
            minimal=evidence.minimal,
            before=evidence.before,
            after=evidence.after,
            inputs=evidence.inputs,
        )


@dataclass(frozen=True)
class _Found:
    """Two models of which only the second fails, and what is between them."""

    before: Path
    after: Path
    pass_name: str
    site: Rewritten | None
    reason: str


@dataclass(frozen=True)
class _Search:
    """Two binary searches: for a pass, then for a node."""

    bench: Bench
    level: Level
    inputs: InputSet
    spec: VerifySpec

    def failure(self, model: Path) -> str | None:
        return pair.failure(self.bench, model, self.level, self.inputs, self.spec.gate)

    def find(self, original: Path, build: Build, outcomes: Sequence[PassOutcome]) -> _Found | None:
        index, last, reason = self._first(0, len(outcomes) - 1, lambda number: build(number, None))
        if reason is None:
            return None
        name, sites = outcomes[index].name, outcomes[index].rewritten
        before = build(index, 0)
        prepared = self.failure(before)
        if prepared or not sites:
            return _Found(build(index - 1, None) if index else original, last, name, None, prepared or reason)
        number, after, reason = self._first(1, len(sites), lambda number: build(index, number))
        if reason is None:  # it takes all of them and what the limit keeps from happening
            return None
        if number > 1:
            before = build(index, number - 1)
        return _Found(before, after, name, sites[number - 1], reason)

    def _first(self, low: int, high: int, build: Callable[[int], Path]) -> tuple[int, Path, str | None]:
        """The smallest number whose model fails, given that ``high``'s does; its model, and how it fails."""
        model = build(high)
        reason = self.failure(model)
        while reason and low < high:
            middle = (low + high) // 2
            candidate = build(middle)
            found = self.failure(candidate)
            if found:
                high, model, reason = middle, candidate, found
            else:
                low = middle + 1
        return high, model, reason
