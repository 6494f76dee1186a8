"""The verification on WebGPU: the rewritten model runs there, and its results are near the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hubpublish.verify import gate
from hubpublish.verify import signature as signatures
from hubpublish.verify.bench import Bench
from hubpublish.verify.cache import ReferenceCache
from hubpublish.verify.inputs import InputMaker
from hubpublish.verify.runner import Output, RunLimits
from hubpublish.verify.scratch import scratch
from hubpublish.verify.webgpu import half, layers
from hubpublish.verify.webgpu.bench import Device, find_device, run_on
from hubpublish.verify.webgpu.result import Kind, Role, WebGpuRun, WebGpuVerification, in_short

if TYPE_CHECKING:
    from hubpublish.recipe import InputSpec, WebGpuSpec

HINTS: Mapping[Kind, str] = {
    "webgpu_fails": "`hubpublish inspect` says what stands in the way of a model, and which pass may help",
    "webgpu_on_cpu": "no node of the model has a kernel on WebGPU; see `hubpublish inspect`",
    "webgpu_wrong": "no bounds allow that: the model computes something else there; see `hubpublish inspect`",
    "webgpu_different": "widen the bounds only if you know why the results may differ so much",
}


def verify_webgpu(
    original: Path,
    rewritten: Path,
    *,
    spec: WebGpuSpec,
    inputs: InputSpec,
    base_dir: Path,
    cache: Path,
    preprocessor: Path | None = None,
    given: Mapping[str, np.ndarray[Any, Any]] | None = None,
    limits: RunLimits | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> WebGpuVerification:
    """Run the rewritten model on WebGPU, and the original too if ``spec`` asks for it.

    The distance is to the original's outputs on the CPU execution provider at its default level, on the first
    input: a software device is slow, and its results are not bits to compare.

    Args:
        original: The model as it was.
        rewritten: The model as it is now.
        spec: What the device shall grant, and how far the results may be.
        inputs: What to run on; see `hubpublish.verify.verify`, likewise the arguments not named here.
        base_dir: Likewise.
        cache: A folder for reference outputs, and for what lowers the limit of the device.
        preprocessor: Likewise.
        given: Likewise.
        limits: Likewise.
        progress: Likewise.

    Raises:
        UsageError: ``no_webgpu_device``; or the inputs cannot be made.
        VerificationError: Kind ``runner``; or the original does not run on the CPU.
    """
    limits = limits or RunLimits()
    progress("looking for a WebGPU device")
    device = find_device(spec.storage_buffers, cache, limits)
    progress(f"WebGPU device: {device.adapter}")
    with scratch("hubpublish-webgpu-") as folder:
        before = signatures.read(original)
        bench = Bench(before, folder, limits, ReferenceCache(cache / "references"), progress)
        (first, *_) = InputMaker(before, inputs, base_dir, preprocessor, given).sets()
        feeds = () if spec.assign_only else bench.feeds(first)
        reference = () if spec.assign_only else bench.reference("default", first).outputs
        models: dict[Role, Path] = {"original": original} if spec.original else {}
        models["rewritten"] = rewritten
        runs: list[WebGpuRun] = []
        outputs: Sequence[Output] = ()
        for role, model in models.items():
            progress(f"{'running' if feeds else 'loading'} the {role} model on WebGPU")
            run, outputs = run_on(device, model, role, feeds, reference, bench.new_folder(), limits)
            runs.append(run)
        found: dict[str, object] = {"accumulations": layers.accumulations(rewritten)}
        if runs[-1].status == "ok" and half.holds_halves(original):
            progress("computing the original in float32 on the CPU")
            found["half"] = half.measure(original, feeds, reference, outputs, bench.new_folder(), limits)
        bounds = gate.bounds_of(spec.bounds) if spec.bounds else {}
        result = _judged(device, tuple(runs), bounds, None if spec.assign_only else first.label)
        if result.kind == "webgpu_different":
            progress("looking for the first node that differs")
            found["culprit"] = layers.first_difference(device, rewritten, feeds, bounds, bench)
    return result.model_copy(update=found)


def _judged(
    device: Device, runs: tuple[WebGpuRun, ...], bounds: gate.Bounds, label: str | None
) -> WebGpuVerification:
    kind, reason = _why_not(runs[-1], bounds)
    return WebGpuVerification(
        passed=kind is None,
        kind=kind,
        reason=reason,
        hint=HINTS[kind] if kind else None,
        adapter=device.adapter,
        bounds=bounds,
        input=label,
        runs=runs,
    )


def _why_not(run: WebGpuRun, bounds: gate.Bounds) -> tuple[Kind | None, str | None]:
    if not run.ran:
        why = in_short(run.error or run.status)
        return "webgpu_fails", f"the rewritten model does not run on WebGPU: {why}"
    if not run.on_gpu:
        return "webgpu_on_cpu", "no node of the rewritten model runs on the GPU"
    for output in run.outputs:
        if output.mismatch or (output.distance and output.distance.nonfinite_differing):
            return "webgpu_wrong", f"on WebGPU {gate.why_not_exact(output)}"
        if bounds and (violation := gate.why_not_within(output, bounds)):
            return "webgpu_different", f"on WebGPU {violation}"
    return None, None
