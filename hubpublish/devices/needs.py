"""What a model asks of a device beyond storage buffers: sizes of tensors, bytes that are alive at once.

Sizes are those of the tensors as the graph has them; what a runtime adds for itself is not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from hubpublish.devices.placement import Placement, is_on_host
from hubpublish.model.scopes import bodies

#: Their output is their first input under another shape: it takes no memory.
VIEWS: Final = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


class TensorSize(BaseModel):
    """A tensor and its bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tensor: str
    bytes: int


class Sizes(BaseModel):
    """Sizes of a model's tensors in bytes, as far as they are known.

    Attributes:
        largest_on_gpu: The largest tensor that a shader binds, or may bind; so much a buffer must hold.
        largest: The largest tensor at all.
        weight_bytes: Initializers, and what is folded when the model is loaded.
        peak_live_bytes: Weights, and the most that the results of nodes take at once when they run in
            the order of the graph. At least so much if sizes are unknown.
        unknown: Tensors of unknown size; they are in none of the figures.
        declared: Tensors whose size is only what the model declares.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    largest_on_gpu: TensorSize | None
    largest: TensorSize | None
    weight_bytes: int
    peak_live_bytes: int
    unknown: int
    declared: int


def measure_sizes(placement: Placement) -> Sizes:
    """Measure the tensors of a model that is placed."""
    loaded, tensors = placement.loaded, placement.loaded.tensors
    bound = dict.fromkeys(
        value
        for node, _ in loaded.live
        if placement.perhaps_on_gpu(node)
        for value in bound_by(node, placement)
    )
    read = [value for node, _ in loaded.live for value in loaded.inputs(node) if value is not None]
    made = [value for node, _ in loaded.live for value in node.outputs if value.name]
    graph = loaded.model.graph
    every = dict.fromkeys([*graph.inputs, *read, *made, *map(loaded.source, graph.outputs)])
    weights = [value for value in every if value in loaded.constants]
    weight_bytes = sum(tensors.nbytes(value) or 0 for value in weights)
    return Sizes(
        largest_on_gpu=_largest(bound, placement),
        largest=_largest(every, placement),
        weight_bytes=weight_bytes,
        peak_live_bytes=weight_bytes + _peak(placement),
        unknown=sum(tensors.nbytes(value) is None for value in every),
        declared=sum(tensors.is_declared(value) for value in every),
    )


def bound_by(node: ir.Node, placement: Placement) -> Iterator[ir.Value]:
    """The tensors that a node on the GPU binds."""
    for index, value in enumerate(placement.loaded.inputs(node)):
        if value is not None and not is_on_host(node, index):
            yield value
    yield from (value for value in node.outputs if value.name)


def _largest(values: dict[ir.Value, None], placement: Placement) -> TensorSize | None:
    sized = [(value, placement.loaded.tensors.nbytes(value)) for value in values]
    known = [(size, value.name or "") for value, size in sized if size is not None]
    if not known:
        return None
    size, name = max(known, key=lambda each: each[0])
    return TensorSize(tensor=name, bytes=size)


def _peak(placement: Placement) -> int:
    """The most that inputs and results of nodes take at once, without weights.

    A body's results are alive while its node runs, all of them, as if nothing in it were freed.
    """
    loaded, graph = placement.loaded, placement.loaded.model.graph
    owner: dict[ir.Value, ir.Value] = {}
    inside: dict[ir.Graph, int] = defaultdict(int)
    main: list[ir.Node] = []
    for node, scope in loaded.live:
        if scope.graph is graph:
            main.append(node)
        else:
            inside[scope.graph] += sum(loaded.tensors.nbytes(value) or 0 for value in node.outputs)
    last: dict[ir.Value, int] = {}
    for step, node in enumerate(main):
        for value in node.outputs:
            is_view = node.op_type in VIEWS and not node.domain and node.inputs[0] is not None
            owner[value] = _owner(loaded.inputs(node)[0], owner) if is_view else value
        for value in _read_by(node, placement):
            last[owner.get(value, value)] = step
    last.update((owner.get(value, value), len(main)) for value in map(loaded.source, graph.outputs))
    return _sweep(main, last, owner, inside, placement)


def _owner(value: ir.Value | None, owner: dict[ir.Value, ir.Value]) -> ir.Value:
    assert value is not None
    return owner.get(value, value)


def _read_by(node: ir.Node, placement: Placement) -> Iterator[ir.Value]:
    """What a node reads, and the graphs in it."""
    loaded = placement.loaded
    yield from (value for value in loaded.inputs(node) if value is not None)
    for body in bodies(node):
        for inner in body.all_nodes():
            yield from (value for value in loaded.inputs(inner) if value is not None)
        yield from map(loaded.source, body.outputs)


def _sweep(
    main: list[ir.Node],
    last: dict[ir.Value, int],
    owner: dict[ir.Value, ir.Value],
    inside: dict[ir.Graph, int],
    placement: Placement,
) -> int:
    nbytes = placement.loaded.tensors.nbytes
    freed: dict[int, list[ir.Value]] = defaultdict(list)
    for value, step in last.items():
        freed[step].append(value)
    inputs = [value for value in placement.loaded.model.graph.inputs if value in last]
    alive = sum(nbytes(value) or 0 for value in inputs)
    counted = set(inputs)
    peak = alive
    for step, node in enumerate(main):
        for value in node.outputs:
            if owner[value] is value and value.name:
                counted.add(value)
                alive += nbytes(value) or 0
                if value not in last:
                    freed[step].append(value)
        peak = max(peak, alive + sum(inside[body] for body in bodies(node)))
        alive -= sum(nbytes(value) or 0 for value in freed[step] if value in counted)
    return peak
