"""What half precision costs a model: its weights computed in float32, against the CPU and against the device.

ONNX Runtime's CPU execution provider stores halves and computes most of them in float32, so its distance to
the same weights computed in float32 throughout is the floor: what storing them costs. A device that adds up
in half precision is further off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hubpublish.verify import compare, cut
from hubpublish.verify.runner import Feed, Output, RunLimits, run
from hubpublish.verify.webgpu.result import HalfOutput

TYPES: Final = ("to", "dtype", "output_datatype")  # attributes that hold an element type
HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT
OUTSIDE: Final = "hubpublish.half/"  # before the names of inputs and outputs that stay in half precision


def measure(
    model: Path,
    feeds: Sequence[Feed],
    on_cpu: Sequence[Output],
    on_device: Sequence[Output],
    folder: Path,
    limits: RunLimits,
) -> tuple[HalfOutput, ...]:
    """Compare both sides with the model computed in float32 on the CPU.

    Args:
        model: The ONNX file.
        feeds: Every input.
        on_cpu: What came out on the CPU execution provider.
        on_device: What came out on the device, in the same order.
        folder: An empty one, for the model in float32 and its outputs.
        limits: Of the run.

    Returns:
        One for each output of floating point; none if the model has functions of its own, or does not run in
        float32.
    """
    wide = in_float32(onnx.load(model))
    if wide is None:
        return ()
    onnx.save(wide, folder / "float32.onnx", save_as_external_data=True, location="float32.weights")
    outside = {value.name for value in wide.graph.input if value.name.startswith(OUTSIDE)}
    given = [
        replace(feed, name=OUTSIDE + feed.name) if OUTSIDE + feed.name in outside else feed for feed in feeds
    ]
    results = folder / "outputs"
    results.mkdir()
    made = run(folder / "float32.onnx", "default", given, results, limits)
    if made.status != "ok":
        return ()
    truth = {output.name.removeprefix(OUTSIDE): output for output in made.outputs}
    compared = (
        _compared(truth.get(cpu.name), cpu, device) for cpu, device in zip(on_cpu, on_device, strict=True)
    )
    return tuple(each for each in compared if each is not None)


def _compared(truth: Output | None, on_cpu: Output, on_device: Output) -> HalfOutput | None:
    if truth is None:
        return None
    floor, distance = (compare.output(truth, side).distance for side in (on_cpu, on_device))
    if floor is None or distance is None or floor.mean_abs is None:
        return None
    return HalfOutput(name=on_cpu.name, floor=floor, distance=distance)


def holds_halves(model: Path) -> bool:
    """Whether any tensor of a model is in half precision, as far as weights and Casts show it."""
    return any(_halves(graph) for graph in _graphs(cut.load(model).graph))


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with every tensor of halves in float32; inputs and outputs keep their types.

    Returns:
        None if the model has functions of its own.
    """
    if model.functions:
        return None
    main, *bodies = _graphs(model.graph)
    for graph in (main, *bodies):
        _widen(graph)
    for body in bodies:
        for value in (*body.input, *body.output):
            _widen_value(value)
    _keep_boundary(main)
    return model


def _keep_boundary(graph: onnx.GraphProto) -> None:
    """Cast at the inputs and outputs that are halves; those with a default become float32."""
    first, last = [], []
    initializers = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if _is_half(value) and value.name not in initializers:
            first.append(helper.make_node("Cast", [OUTSIDE + value.name], [value.name], to=FLOAT))
            value.name = OUTSIDE + value.name
        else:
            _widen_value(value)
    for value in graph.output:
        if _is_half(value):
            last.append(helper.make_node("Cast", [value.name], [OUTSIDE + value.name], to=HALF))
            value.name = OUTSIDE + value.name
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(body)


def _halves(graph: onnx.GraphProto) -> bool:
    tensors = (*graph.initializer, *(each.t for node in graph.node for each in node.attribute))
    casts = (each.i for node in graph.node for each in node.attribute if each.name in TYPES)
    return any(tensor.data_type == HALF for tensor in tensors) or HALF in casts


def _widen(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.name in TYPES and attribute.i == HALF:
                attribute.i = FLOAT
    # What is declared inside would have to be changed as well; nobody needs it.
    del graph.value_info[:]


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == HALF:
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_value(value: onnx.ValueInfoProto) -> None:
    if _is_half(value):
        value.type.tensor_type.elem_type = FLOAT


def _is_half(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == HALF)
