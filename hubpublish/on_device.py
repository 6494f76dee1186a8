"""What an inspection says of a model before and after, in the words of the card and the preview."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hubpublish.inspection import Group, Requirements, Totals
from hubpublish.inspection.words import alive_in_words, copies_in_words, largest_in_words
from hubpublish.markdown import code
from hubpublish.report import Report, VariantReport
from hubpublish.rows import Row, merged
from hubpublish.verify.webgpu import WebGpuRun
from hubpublish.verify.webgpu.result import in_short
from hubpublish.words import plural, readable_binary_bytes, readable_distance

FAILURE_SHOWN: Final = 160  # characters of an error that a cell shows


class DeviceRow(Row):
    """One figure of a model on the device, before and after."""

    what: str
    before: str
    after: str


class ObstacleRow(Row):
    """What still stands in the way of nodes of the result."""

    nodes: int
    op: str
    what: str
    happens: str


def device_rows(variant: VariantReport) -> Iterator[DeviceRow]:
    """Where the nodes run, what is copied, and how large things are."""
    before, after = _figures(variant.inspection_before.totals), _figures(variant.inspection.totals)
    for what, figure in before.items():
        yield DeviceRow(file=f"`{variant.path}`", what=what, before=figure, after=after[what])


def obstacle_rows(variant: VariantReport) -> Iterator[ObstacleRow]:
    """What the inspection still finds, what keeps a model from running first."""
    for each in variant.inspection.groups:
        yield ObstacleRow(
            file=f"`{variant.path}`", nodes=each.nodes, op=each.op, what=_what(each), happens=each.happens
        )


def runtimes_in_words(report: Report) -> str:
    """Which runtime the figures are of."""
    first = report.variants[0].inspection
    return f"the worst of {', '.join(first.runtimes)}" if len(first.runtimes) > 1 else first.runtimes[0]


def needs_in_words(needs: Requirements) -> str:
    """What a file asks of a device."""
    limits = needs.requiredLimits
    words = [f"{plural(limits.maxStorageBuffersPerShaderStage, 'storage buffer')} per shader"]
    if limits.maxStorageBufferBindingSize is not None:
        words.append(f"tensors of up to {readable_binary_bytes(limits.maxStorageBufferBindingSize)}")
    if needs.unknownSizes:
        words.append(f"{plural(needs.unknownSizes, 'tensor')} of unknown size")
    if needs.declaredSizes:
        words.append(f"{plural(needs.declaredSizes, 'tensor')} of a size that is only declared")
    words += [f"the feature `{feature}`" for feature in needs.requiredFeatures]
    if needs.failsOn:
        words.append(f"a runtime other than {' or '.join(needs.failsOn)}")
    return ", ".join(words)


class WebGpuRow(Row):
    """What came of a model on a WebGPU device."""

    model: str
    outcome: str
    on_cpu: str
    copies: str
    distance: str


def on_webgpu(report: Report) -> dict[str, object]:
    """What the template of that name takes, and which files were not run there."""
    variants = report.variants
    return {
        "webgpu_rows": merged(row for variant in variants for row in webgpu_rows(variant)),
        "webgpu_files": [variant.path for variant in variants if variant.webgpu],
        "not_on_webgpu": [variant.path for variant in variants if not variant.webgpu],
        "adapters": list(dict.fromkeys(variant.webgpu.adapter for variant in variants if variant.webgpu)),
    }


def webgpu_rows(variant: VariantReport) -> Iterator[WebGpuRow]:
    """A row for each model that was run there."""
    for run in variant.webgpu.runs if variant.webgpu is not None else ():
        loaded = run.on_gpu is not None
        ops = ", ".join(f"{count} {op}" for op, count in run.on_cpu.items())
        yield WebGpuRow(
            file=f"`{variant.path}`",
            model="this file" if run.model == "rewritten" else "the original",
            outcome={"ok": "runs", "assigned": "loads; it was not run"}.get(run.status, _failure(run)),
            on_cpu=f"{sum(run.on_cpu.values()):,} of {run.nodes:,}{f' ({ops})' if ops else ''}"
            if loaded
            else "–",
            copies=f"{run.copies_to_gpu} to the GPU, {run.copies_from_gpu} from it" if loaded else "–",
            distance=_distance(run) if run.status == "ok" else "–",
        )


def _distance(run: WebGpuRun) -> str:
    if mismatches := [f"another {output.mismatch}" for output in run.outputs if output.mismatch]:
        return "; ".join(mismatches)
    nonfinite = f"; {run.nonfinite:,} values NaN or infinite in only one" if run.nonfinite else ""
    return readable_distance(run.max_abs) + nonfinite


def _failure(run: WebGpuRun) -> str:
    words = in_short(run.error or run.status)
    return f"fails: {code(words[-FAILURE_SHOWN:])}"


def _what(group: Group) -> str:
    return f"{group.what} (believed, not measured)" if group.believed else group.what


def _figures(totals: Totals) -> dict[str, str]:
    undecided = f", {totals.undecided:,} undecided" if totals.undecided else ""
    return {
        "Nodes, once constants are folded": f"{totals.nodes:,}",
        "of them that do not compile, or fail": f"{totals.failing:,}",
        "of them on the CPU": f"{totals.on_cpu:,}{undecided}",
        "Copies from the GPU in a run": copies_in_words(
            totals.copies_from_gpu, totals.bytes_from_gpu, totals
        ),
        "Copies to the GPU in a run": copies_in_words(totals.copies_to_gpu, totals.bytes_to_gpu, totals),
        "Largest tensor": largest_in_words(totals),
        "Alive at once": alive_in_words(totals),
    }
