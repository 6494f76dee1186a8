"""Runs models on the device: the probe that finds it, and runs that are compared with the CPU's."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx

from hubpublish.verify import compare
from hubpublish.verify.bench import runtime_name
from hubpublish.verify.runner import Feed, Output, Run, RunLimits, WebGpu, run
from hubpublish.verify.webgpu import system
from hubpublish.verify.webgpu.limit import Cap, cap
from hubpublish.verify.webgpu.result import Adapter, Role, WebGpuRun, in_short
from hubpublish.verify.webgpu.session import OPTIMIZED, PROVIDER

PROBED: Final = 64  # outputs of the Split that asks an adapter for its limit
TOO_MANY: Final = re.compile(r"Too many storage buffers in shader\. Current: \d+, Max is (\d+)")


@dataclass(frozen=True)
class Device:
    """A device that was seen to work.

    Attributes:
        webgpu: What a run there takes.
        adapter: What it is.
    """

    webgpu: WebGpu
    adapter: Adapter


def find_device(storage_buffers: int | None, cache: Path, limits: RunLimits) -> Device:
    """Run a small model, which tells the storage buffers that a shader really gets.

    Args:
        storage_buffers: The most it shall get; None: what the adapter grants.
        cache: Where what lowers the limit is kept.
        limits: Of the run.

    Raises:
        UsageError: ``no_webgpu_device``.
    """
    lowered = cap(storage_buffers, cache) if storage_buffers is not None else Cap({})
    webgpu = WebGpu(system.library(), {**system.environment(), **lowered.environment})
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.onnx"
        probe.write_bytes(_probe().SerializeToString())
        made = run(probe, "default", [_zeros(Path(folder))], Path(folder), limits, webgpu=webgpu)
    found = TOO_MANY.search(made.error or "")
    if made.status != "ok" and not found:
        ended = f"the process that looked for it ended: {made.status}"
        raise system.no_device(in_short(made.error) if made.error else ended)
    if not (made.webgpu or {}).get("nodes", {}).get(PROVIDER):
        raise system.no_device("a model that it has kernels for ran on the CPU")
    granted = int(found[1]) if found else None
    why_not = lowered.why_not
    if why_not is None and storage_buffers is not None and (granted is None or granted > storage_buffers):
        why_not = "the driver does not take it from a Vulkan layer"
    adapter = Adapter(
        names=tuple((made.webgpu or {}).get("adapters", ())),
        runtime=f"{runtime_name()} with {system.plugin_name()}",
        storage_buffers=granted,
        asked=storage_buffers,
        not_lowered=why_not,
    )
    return Device(webgpu, adapter)


def run_on(
    device: Device,
    model: Path,
    role: Role,
    feeds: Sequence[Feed],
    reference: Sequence[Output],
    folder: Path,
    limits: RunLimits,
) -> tuple[WebGpuRun, tuple[Output, ...]]:
    """One run of a model, compared with what came out on the CPU; and its outputs, in ``folder``.

    Args:
        device: Where to run it.
        model: The ONNX file.
        role: Which of the two it is.
        feeds: Every input; none: the model is loaded and not run.
        reference: The outputs on the CPU, in the same order.
        folder: An empty one, for the outputs.
        limits: Of the run.
    """
    made = run(model, "default", feeds, folder, limits, webgpu=device.webgpu, load_only=not feeds)
    status = "assigned" if made.status == "ok" and not feeds else made.status
    nodes = (made.webgpu or {}).get("nodes")
    copies = copies_in(folder / OPTIMIZED)
    found = WebGpuRun(
        model=role,
        status=status,
        error=made.error,
        on_gpu=sum(nodes.get(PROVIDER, {}).values()) if nodes is not None else None,
        on_cpu=_on_cpu(made),
        copies_to_gpu=copies["MemcpyFromHost"],
        copies_from_gpu=copies["MemcpyToHost"],
        outputs=compare.outputs(reference, made.outputs) if status == "ok" else (),
        seconds=made.seconds,
        peak_bytes=made.peak_bytes,
    )
    return found, tuple(made.outputs)


def _on_cpu(made: Run) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for provider, ops in (made.webgpu or {}).get("nodes", {}).items():
        if provider != PROVIDER:
            counts.update(ops)
    return dict(sorted(counts.items()))


def copies_in(optimized: Path) -> Counter[str]:
    """The copies between host and device of a model as the runtime wrote it, in bodies too."""
    if not optimized.exists():
        return Counter()
    model = onnx.load(optimized, load_external_data=False)
    return Counter(node.op_type for node in _nodes(model.graph) if node.op_type.startswith("Memcpy"))


def _nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _nodes(body)


def _probe() -> onnx.ModelProto:
    parts = [f"part_{number}" for number in range(PROBED)]
    outputs = ", ".join(f"float[1] {part}" for part in parts)
    text = f"probe (float[{PROBED}] x) => ({outputs}) {{ {', '.join(parts)} = Split <axis = 0> (x) }}"
    model: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
    return model


def _zeros(folder: Path) -> Feed:
    file = folder / "zeros.bin"
    file.write_bytes(bytes(4 * PROBED))
    return Feed("x", "float32", onnx.TensorProto.FLOAT, "float32", (PROBED,), file)
