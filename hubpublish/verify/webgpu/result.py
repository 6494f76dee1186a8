"""What a verification on WebGPU found, as data. Durations and memory do not repeat and are not serialized."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hubpublish.errors import VerificationError
from hubpublish.verify.result import Distance, OutputComparison
from hubpublish.words import plural, readable_distance

Role = Literal["original", "rewritten"]
Kind = Literal["webgpu_fails", "webgpu_on_cpu", "webgpu_wrong", "webgpu_different"]


def in_short(error: str) -> str:
    """What a runtime's error says is wrong: where in its source it was found comes before."""
    return error.rpartition(" was false. ")[2]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Adapter(_Frozen):
    """The device that was used.

    Attributes:
        names: The Vulkan devices that there are; the one that was used, if it is one. Empty without Vulkan.
        runtime: Runtime and plugin with their versions.
        storage_buffers: What it was seen to grant a shader; None: more than were tried.
        asked: What it was asked to grant at most; None: its own limit.
        not_lowered: Why it grants more than it was asked to; None if it does not.
    """

    names: tuple[str, ...]
    runtime: str
    storage_buffers: int | None
    asked: int | None
    not_lowered: str | None = None

    def __str__(self) -> str:
        name = " or ".join(self.names) or "an unnamed adapter"
        limit = (
            f"{self.storage_buffers} storage buffers"
            if self.storage_buffers
            else "more than 64 storage buffers"
        )
        lowered = f" (not lowered to {self.asked}: {self.not_lowered})" if self.not_lowered else ""
        return f"{name} with {limit}{lowered}"


class WebGpuRun(_Frozen):
    """One model on the device.

    Attributes:
        model: Which one.
        status: ``ok``, ``assigned`` (it was loaded and not run), or how the run ended.
        error: The runtime's own words.
        on_gpu: Nodes on the GPU, once the runtime has optimized the model; None if it was not loaded.
        on_cpu: Nodes on the CPU, by op type.
        copies_to_gpu, copies_from_gpu: Tensors that are copied in each run.
        outputs: Each output against the original's on the CPU, at the runtime's default level.
    """

    model: Role
    status: str
    error: str | None = None
    on_gpu: int | None = None
    on_cpu: dict[str, int] = {}
    copies_to_gpu: int = 0
    copies_from_gpu: int = 0
    outputs: tuple[OutputComparison, ...] = ()
    seconds: float = Field(default=0.0, exclude=True)
    peak_bytes: int | None = Field(default=None, exclude=True)

    def __str__(self) -> str:
        if not self.ran:
            return f"{self.status}: {in_short(self.error)}" if self.error else self.status
        on_cpu = sum(self.on_cpu.values())
        ops = f" ({', '.join(f'{count} {op}' for op, count in self.on_cpu.items())})" if on_cpu else ""
        copies = f"{self.copies_to_gpu} copies to the GPU and {self.copies_from_gpu} from it in a run"
        words = [f"{plural(self.on_gpu or 0, 'node')} on the GPU, {on_cpu:,} on the CPU{ops}", copies]
        return "; ".join([*words, *map(_against_the_cpu, self.outputs)])

    @property
    def nodes(self) -> int:
        """Nodes on the GPU and on the CPU."""
        return (self.on_gpu or 0) + sum(self.on_cpu.values())

    @property
    def max_abs(self) -> float | None:
        """The largest distance of any output to the CPU's; None where it is not defined."""
        distances = [output.distance.max_abs for output in self.outputs if output.distance is not None]
        return max((each for each in distances if each is not None), default=None)

    @property
    def nonfinite(self) -> int:
        """Values that are NaN or infinite on one side and not the same on the other."""
        return sum(output.distance.nonfinite_differing for output in self.outputs if output.distance)

    @property
    def ran(self) -> bool:
        """Whether it did what was asked of it."""
        return self.status in ("ok", "assigned")


def _against_the_cpu(output: OutputComparison) -> str:
    found = output.distance
    if found is None:
        return f"{output.name!r} is not to be compared with the CPU's: another {output.mismatch}"
    if found.identical:
        return f"{output.name!r} equals the CPU's"
    if found.max_abs is None:
        return f"{output.name!r} differs from the CPU's in {found.differing:,} of {found.elements:,} values"
    words = f"{output.name!r} differs from the CPU's by {readable_distance(found.max_abs)} at most"
    verb = "is" if found.nonfinite_differing == 1 else "are"
    nonfinite = f", and {plural(found.nonfinite_differing, 'value')} {verb} NaN or infinite in only one"
    return words + (nonfinite if found.nonfinite_differing else "")


class Accumulation(_Frozen):
    """A node that adds up many products in half precision, which is what such a device rounds most.

    ``terms`` is how many each element of its result is the sum of.
    """

    node: str
    op: str
    terms: int


class HalfOutput(_Frozen):
    """An output of a model in half precision, against the same weights computed in float32 on the CPU.

    Attributes:
        name: The output's name.
        floor: The distance of the CPU, which stores halves and computes in float32: what storing them costs.
        distance: That of the device.
    """

    name: str
    floor: Distance
    distance: Distance

    @property
    def times(self) -> float | None:
        """How many times as far off the device is, on average; None where storing halves costs nothing."""
        if not self.floor.mean_abs or self.distance.mean_abs is None:
            return None
        return self.distance.mean_abs / self.floor.mean_abs

    def __str__(self) -> str:
        floor, device = (readable_distance(each.mean_abs) for each in (self.floor, self.distance))
        times = f", {self.times:.1f} times as much" if self.times is not None else ""
        return f"storing halves moves {self.name!r} by {floor} on average, the device by {device}{times}"


class WebGpuVerification(_Frozen):
    """Whether the rewritten model runs on the device, and near enough to the CPU.

    Attributes:
        passed: Whether the rewritten model runs there, and holds the bounds.
        kind, reason, hint: Why not.
        adapter: Where.
        bounds: The largest distances that were allowed; empty: they were only measured.
        input: Label of the input that it was run on; None: nothing was run.
        runs: The original, if it was asked for, and the rewritten model.
        culprit: The first node whose result is too far from the CPU's; None: not looked for, or not found.
        half: How far half precision takes each output of such a model, on the CPU and on the device.
        accumulations: Its nodes that add up most.
    """

    passed: bool
    kind: Kind | None = None
    reason: str | None = None
    hint: str | None = None
    adapter: Adapter
    bounds: dict[str, float] = {}
    input: str | None = None
    runs: tuple[WebGpuRun, ...] = ()
    culprit: str | None = None
    half: tuple[HalfOutput, ...] = ()
    accumulations: tuple[Accumulation, ...] = ()

    def __bool__(self) -> bool:
        return self.passed


def webgpu_error(result: WebGpuVerification) -> VerificationError:
    """The error for a model that did not pass."""
    return VerificationError(
        result.reason or "the rewritten model was not proved to run on WebGPU",
        hint=result.hint,
        kind=result.kind,
        details={"webgpu": result.model_dump(mode="json")},
    )
