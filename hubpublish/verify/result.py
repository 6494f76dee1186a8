"""What a verification found, as data: gate, levels, inputs, distances. JSON in and out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hubpublish.errors import VerificationError

Level = Literal["disabled", "default"]
LEVELS: tuple[Level, ...] = ("disabled", "default")
"""``disabled`` is ORT_DISABLE_ALL; ``default`` is ORT_ENABLE_ALL, what the runtime does when not told."""

Held = Literal["exact", "exact_unoptimized", "tolerance"]

FailureKind = Literal[
    "different",
    "different_default_level",
    "original_crashed",
    "original_does_not_load",
    "original_fails",
    "original_not_deterministic",
    "output_independent_of_input",
    "rewritten_crashed",
    "rewritten_does_not_load",
    "rewritten_fails",
    "rewritten_succeeds_where_original_fails",
    "timeout",
    "out_of_memory",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Distance(_Frozen):
    """How far apart two tensors of one dtype and shape are.

    Figures are over the elements that are finite in both, in float64; None where undefined (strings,
    packed integers, no finite element, a constant tensor's correlation, complex values' sigmoid).

    Attributes:
        elements: How many there are.
        differing: How many have different bits; payloads of NaN and the sign of zero count.
        nonfinite_differing: How many are non-finite in one and not the same in the other.
        max_abs: Largest absolute difference.
        mean_abs: Mean absolute difference.
        mean_sigmoid: Mean absolute difference of the sigmoids; for floating-point tensors.
        correlation: Pearson's.
    """

    elements: int
    differing: int
    nonfinite_differing: int = 0
    max_abs: float | None = None
    mean_abs: float | None = None
    mean_sigmoid: float | None = None
    correlation: float | None = None

    @property
    def identical(self) -> bool:
        """Whether every element has the same bits."""
        return self.differing == 0


class OutputComparison(_Frozen):
    """One output of both models, for one input, at one level.

    Attributes:
        name: The output's name; an element of a sequence or map is ``name[0]``, ``name['key']``.
        dtype: As ONNX names it, with the bits spelled out: ``float32``, ``bfloat16``, ``int4``, ``string``.
        shape: Of the original's.
        identical: Same dtype, same shape, same bits.
        distance: Between original and rewritten; None when dtype or shape differ.
        own: Between the original's two levels, measured where an output differs at the default level.
        mismatch: What differs when it is not the values.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    identical: bool
    distance: Distance | None = None
    own: Distance | None = None
    mismatch: str | None = None


class InputResult(_Frozen):
    """Both models on one input. ``both_fail``: the runtime reports an error for either, as it must."""

    label: str
    status: Literal["compared", "both_fail"]
    outputs: tuple[OutputComparison, ...] = ()
    error: str | None = None


class LevelResult(_Frozen):
    """One optimization level: every input that was run at it."""

    level: Level
    inputs: tuple[InputResult, ...]

    @property
    def compared(self) -> bool:
        """Whether the outputs of at least one input were compared."""
        return any(result.status == "compared" for result in self.inputs)

    @property
    def identical(self) -> bool:
        """Whether every output that was compared has the same bits."""
        return all(output.identical for result in self.inputs for output in result.outputs)


class TensorSummary(_Frozen):
    """A tensor that was fed: the SHA-256 is of its bytes, in C order."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str


class InputSummary(_Frozen):
    """One set of inputs: ``noise 0``, ``image cat.png``, ``values``."""

    label: str
    tensors: tuple[TensorSummary, ...]


class RunMeasurement(_Frozen):
    """One run of the runtime in its own process.

    Attributes:
        seconds: Of the whole process, its start included.
        peak_bytes: Largest resident memory of the process; None where the system does not tell.
        cached: The outputs came from the cache: nothing was run.
    """

    model: Literal["original", "rewritten"]
    level: Level
    input: str
    status: str
    seconds: float
    peak_bytes: int | None
    cached: bool = False


class Verification(_Frozen):
    """Whether the rewritten model computes what the original does. True when the gate held.

    Attributes:
        gate: The gate that was asked for; a tolerance as its figures.
        held: The strongest gate that holds; None when none does or it is undecided.
        kind: Why it did not pass, as a word; None when it passed.
        reason: The same as a sentence.
        hint: What to do about it.
        failed_level: Where it was decided, when a run or a comparison decided it.
        failed_input: Likewise; the input's label.
        threads: Of one operator; the bits of a result can depend on it.
        depends_on_input: Whether the original's outputs change with the inputs; None: not checked.
        notes: What was not checked, and why.
        runs: Not serialized: durations and memory do not repeat.
    """

    gate: Literal["exact", "exact_unoptimized"] | dict[str, float]
    passed: bool
    held: Held | None = None
    kind: FailureKind | None = None
    reason: str | None = None
    hint: str | None = None
    failed_level: Level | None = None
    failed_input: str | None = None
    runtime: str
    provider: str
    threads: int
    levels: tuple[LevelResult, ...] = ()
    inputs: tuple[InputSummary, ...] = ()
    depends_on_input: bool | None = None
    notes: tuple[str, ...] = ()
    runs: tuple[RunMeasurement, ...] = Field(default=(), exclude=True)

    def __bool__(self) -> bool:
        return self.passed


def verification_error(result: Verification) -> VerificationError:
    """The error for a verification that did not pass; its ``kind`` is the result's."""
    return VerificationError(
        result.reason or "the rewritten model was not proved equal",
        hint=result.hint,
        kind=result.kind,
        details={"verification": result.model_dump(mode="json")},
    )
