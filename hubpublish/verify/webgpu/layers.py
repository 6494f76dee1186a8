"""Which node of a model is the first whose result on WebGPU is far from the CPU's, and which round most.

Values inside are made outputs of the model, some at a time, and compared on both. As an output a value cannot
be fused away, so a difference that a fusion makes may not show; the node found is where to look first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from hubpublish.verify import compare, cut
from hubpublish.verify.bench import Bench
from hubpublish.verify.runner import Feed, Output, run
from hubpublish.verify.webgpu.bench import Device
from hubpublish.verify.webgpu.result import Accumulation

AT_ONCE: Final = 16  # values that are looked at in one run
SHOWN: Final = 8  # nodes that are named for what they add up
TINY: Final = float(np.finfo(np.float32).tiny)  # stands for the size of what is zero throughout
FEWEST_TERMS: Final = 256  # below, half precision adds up well enough


def first_difference(
    device: Device, model: Path, feeds: Sequence[Feed], bounds: Mapping[str, float], bench: Bench
) -> str | None:
    """The first node whose result is relatively further off than the bounds allow for the outputs.

    Takes about log16(nodes) runs on each side.

    Args:
        device: Where to run.
        model: The model; its nodes are sorted.
        feeds: Every input.
        bounds: Largest distances of the outputs.
        bench: Whose limits and folders to use.

    Returns:
        The node's op type and name; None if no value inside shows a difference, or a run fails.
    """
    return _Search(device, model, feeds, bench).find(min(bounds.values()))


@dataclass(frozen=True)
class _Search:
    device: Device
    model: Path
    feeds: Sequence[Feed]
    bench: Bench

    def find(self, bound: float) -> str | None:
        proto = cut.load(self.model)
        nodes = [*_depending(proto.graph)]
        distances = self._distances(proto, [value.name for value in proto.graph.output])
        scales = [scale for _, scale in distances.values()]
        if not scales:
            return None
        allowed = bound / (max(scales) or TINY)
        low, high = 0, len(nodes) - 1  # the answer lies between, both included
        while low < high:
            step = -(-(high - low) // AT_ONCE)
            tried = [*range(low, high, step)]
            found = self._distances(proto, [nodes[index].output[0] for index in tried])
            if not found:
                return None
            far = (index for index in tried if _relative(found.get(nodes[index].output[0])) > allowed)
            first = next(far, high)
            low, high = max((index + 1 for index in tried if index < first), default=low), first
        return f"{nodes[high].op_type} {_label(nodes[high])}"

    def _distances(self, proto: onnx.ModelProto, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """By name, the largest difference of a value, and the largest value itself; none if a run fails."""
        folder = self.bench.new_folder()
        exposed = folder / "exposed.onnx"
        exposed.write_bytes(cut.exposing(proto, names).SerializeToString())
        sides = []
        for webgpu in (None, self.device.webgpu):
            made = run(
                exposed,
                "default",
                self.feeds,
                self.bench.new_folder(),
                self.bench.limits,
                external_folder=self.model.parent,
                webgpu=webgpu,
            )
            if made.status != "ok":
                return {}
            sides.append({output.name: output for output in made.outputs})
        compared = {name: compare.output(sides[0][name], sides[1][name]) for name in names}
        return {
            name: (float(each.distance.max_abs), _largest(sides[0][name]))
            for name, each in compared.items()
            if each.distance is not None and each.distance.max_abs is not None
        }


def _relative(found: tuple[float, float] | None) -> float:
    distance, scale = found or (0.0, 1.0)
    return distance / (scale or TINY)


def _largest(output: Output) -> float:
    if output.file is None or not output.file.stat().st_size:
        return 0.0
    array = np.fromfile(output.file, compare.numpy_type(output.dtype)).astype(np.float64)
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def _depending(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes that depend on an input and have an output, in order."""
    known = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if known & cut.reads(node):
            known |= {name for name in node.output if name}
            if node.output and node.output[0]:
                yield node


def accumulations(model: Path) -> tuple[Accumulation, ...]:
    """The nodes with weights in half precision whose results are sums of most products, largest first.

    Each rounds its sum after every product on a device that computes in half precision: the error grows with
    the square root of their number.
    """
    graph = cut.load(model).graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]]
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            weights[node.output[0]] = node.attribute[0].t
    found = [
        Accumulation(node=_label(node), op=node.op_type, terms=terms)
        for node in graph.node
        if (terms := _terms(node, weights)) >= FEWEST_TERMS
    ]
    return tuple(sorted(found, key=lambda each: (-each.terms, each.node))[:SHOWN])


def _label(node: onnx.NodeProto) -> str:
    return node.name or next(filter(None, node.output), "")


def _terms(node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto]) -> int:
    weight = weights.get(node.input[1]) if len(node.input) > 1 else None
    if weight is None or weight.data_type != onnx.TensorProto.FLOAT16:
        return 0
    if node.op_type == "Conv":
        return int(np.prod(weight.dims[1:]))
    if node.op_type == "MatMul" and len(weight.dims) > 1:
        return int(weight.dims[-2])
    if node.op_type == "Gemm":
        transposed = any(each.name == "transB" and each.i for each in node.attribute)
        return int(weight.dims[1 if transposed else 0])
    return 0
