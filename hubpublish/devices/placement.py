"""Where each node runs: on the GPU or on the CPU, and which tensors are copied between them.

A node runs on the GPU if the runtime has a kernel for it: for the operator as of its opset, with the
element types that the node has. Of what is left, a runtime may keep on the CPU what is computed from
shapes. What has a kernel on neither side and is defined by other operators is replaced by those, and an
operator that runs with its channels last gets Transposes around it: where that is not followed, it is
not known where the node runs. A tensor that is made on one side and read on the other is copied once in
each graph and direction, by a Memcpy node; graph inputs and outputs go to where they are used and are not
counted, nor are constants, of which both sides get one.
Source: ONNX Runtime's kernel lookup, ``GetCpuPreferredNodes`` and ``MemcpyTransformer``; compared with
``get_provider_graph_assignment_info`` and the Memcpy nodes of the native plugin 0.4.0.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import onnx_ir as ir

from hubpublish.devices.fit import host_inputs_of
from hubpublish.devices.loaded import Loaded
from hubpublish.devices.runtimes import Kernel, Runtime, Signature, parameters_of
from hubpublish.devices.tensors import constrained, type_name
from hubpublish.model import Scope
from hubpublish.model.scopes import bodies
from hubpublish.model.statistics import op_name

HOST_OUTPUTS: Final = frozenset({"Shape"})  # its kernel leaves its result on the host
SMALL: Final = 100  # elements of an initializer that may be on either side
NO_PARAMETERS: Final = Signature(inputs=(), outputs=())
HALVES: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


class Side(StrEnum):
    """Where a node runs; UNKNOWN if that depends on what is not known."""

    GPU = "gpu"
    CPU = "cpu"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Place:
    """Where a node runs, and why if it is not the GPU.

    Attributes:
        reason: Such as ``no kernel for int64 Clip``.
        dtype: The element type for which there is no kernel; "" if there is none for any.
        runtimes: The runtimes where it is so.
    """

    side: Side
    reason: str = ""
    dtype: str = ""
    runtimes: tuple[str, ...] = ()


ON_GPU: Final = Place(Side.GPU)


@dataclass(frozen=True)
class Copy:
    """A tensor that is copied: once, whoever reads it."""

    value: ir.Value
    to_host: bool
    nbytes: int | None


@dataclass
class Placement:
    """Where the nodes of a model run.

    Attributes:
        runtimes: Those that were asked; the worst of them counts.
        places: By node that is left once the model is loaded.
        copies: In the order of the graphs.
    """

    loaded: Loaded
    runtimes: tuple[str, ...]
    places: dict[ir.Node, Place] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)

    def on(self, side: Side) -> list[tuple[ir.Node, Scope]]:
        """The nodes of a side, in the order of the graphs."""
        return [(node, scope) for node, scope in self.loaded.live if self.places[node].side == side]

    def perhaps_on_gpu(self, node: ir.Node) -> tuple[str, ...]:
        """The runtimes that run a node on the GPU, or of which that is not known.

        What the GPU must grant is asked of these: the worst runtime for copies leaves a node on the CPU, and
        the worst one for the device does not.
        """
        its = self.places[node]
        return tuple(name for name in self.runtimes if its.side != Side.CPU or name not in its.runtimes)


def place(loaded: Loaded, runtimes: Sequence[Runtime]) -> Placement:
    """Where each node runs; with several runtimes, on the GPU only where all of them run it there."""
    placement = Placement(loaded, tuple(runtime.name for runtime in runtimes))
    by_graph: dict[ir.Graph, list[ir.Node]] = defaultdict(list)
    for node, scope in loaded.live:
        placement.places[node] = _place(node, scope, loaded, runtimes)
        by_graph[scope.graph].append(node)
    keeping = tuple(runtime.name for runtime in runtimes if runtime.shape_arithmetic_on_cpu)
    for graph, nodes in by_graph.items():
        if keeping:
            _keep_shape_arithmetic(graph, nodes, placement, keeping)
        placement.copies += _copies(graph, nodes, placement)
    return placement


def _place(node: ir.Node, scope: Scope, loaded: Loaded, runtimes: Sequence[Runtime]) -> Place:
    if node.op_identifier() in loaded.model.functions:
        reason = "is a function of the model that was not looked into"
        return Place(Side.UNKNOWN, reason, runtimes=tuple(runtime.name for runtime in runtimes))
    op = op_name(node)
    asked: dict[tuple[int, ...], Place] = {}  # by identity: most runtimes have the same kernels
    found = []
    for runtime in runtimes:
        key = (id(runtime.kernels.get(op, ())), id(runtime.kernels.get("Transpose", ())), runtime.first_opset)
        if key not in asked:
            asked[key] = _place_on(node, scope, loaded, runtime)
        found.append((runtime.name, asked[key]))
    for side in (Side.CPU, Side.UNKNOWN):
        such = [(name, its) for name, its in found if its.side == side]
        if such:
            return replace(such[0][1], runtimes=tuple(name for name, _ in such))
    return ON_GPU


def _place_on(node: ir.Node, scope: Scope, loaded: Loaded, runtime: Runtime) -> Place:
    op, opset = op_name(node), loaded.model.graph.opset_imports.get("")
    if opset is not None and opset < runtime.first_opset:
        return Place(Side.CPU, f"no kernels for models of opset {opset}")
    since, signature = parameters_of(node.op_type, node.domain, scope.opset or 1) or (
        *(1, runtime.signatures.get(op, NO_PARAMETERS)),
    )
    its = _kernel_for(node, since, signature, runtime.kernels.get(op, ()), loaded)
    if its.side == Side.CPU and signature.of_others:
        on_cpu = _kernel_for(node, since, signature, runtime.cpu_kernels.get(op, ()), loaded)
        if on_cpu.side == Side.CPU:
            return Place(Side.UNKNOWN, f"{op} is replaced by other operators, which were not looked into")
    if its.side == Side.GPU and op in runtime.changes_layout:
        transposed, _ = parameters_of("Transpose", "", scope.opset or 1) or (1, NO_PARAMETERS)
        kernels = runtime.kernels.get("Transpose", ())
        if not any(kernel.first <= transposed <= kernel.last for kernel in kernels):
            reason = f"the Transposes around {op} have no kernel as of opset {transposed}"
            return Place(Side.UNKNOWN, reason)
    return its


def _kernel_for(
    node: ir.Node, since: int, signature: Signature, kernels: tuple[Kernel, ...], loaded: Loaded
) -> Place:
    op = op_name(node)
    if not kernels:
        return Place(Side.CPU, f"no kernel for {op}")
    of_version = [kernel for kernel in kernels if kernel.first <= since <= kernel.last]
    if not of_version:
        return Place(Side.CPU, f"no kernel for {op} as of opset {since}")
    answers = [_types_that_differ(node, signature, kernel.types, loaded) for kernel in of_version]
    if any(not wrong and not unknown for wrong, unknown in answers):
        return ON_GPU
    if any(not wrong for wrong, _ in answers):
        return Place(Side.UNKNOWN, f"the element type of {op} is not known")
    dtype = answers[0][0][0]
    return Place(Side.CPU, f"no kernel for {dtype} {op}", dtype)


def _types_that_differ(
    node: ir.Node, signature: Signature, types: dict[str, frozenset[str]], loaded: Loaded
) -> tuple[list[str], bool]:
    """Element types that a kernel does not take, and whether others are unknown."""
    wrong, unknown = [], False
    for name, accepted in types.items():
        values = constrained(signature, name, node)
        found = [type_name(value, loaded.tensors) for value in values]
        wrong += [each for each in found if each and each not in accepted]
        # What shares a type parameter is of one type, but for what a body gives.
        unknown = unknown or ("" in found if any(bodies(node)) else bool(found) and not any(found))
    return wrong, unknown


def is_on_host(node: ir.Node, index: int) -> bool:
    """Whether a kernel on the GPU reads this input on the host."""
    return index in host_inputs_of(node)


def _keep_shape_arithmetic(
    graph: ir.Graph, nodes: Sequence[ir.Node], placement: Placement, runtimes: tuple[str, ...]
) -> None:
    """Move to the CPU what only depends on results on the host, on small constants and on graph inputs."""
    loaded, places = placement.loaded, placement.places
    order = {node: number for number, node in enumerate(nodes)}
    readers: dict[ir.Value, list[ir.Node]] = defaultdict(list)
    for node in nodes:
        for value in loaded.inputs(node):
            if value is not None:
                readers[value].append(node)
    hosted: set[ir.Value] = set()
    queue: list[int] = []

    def give(values: Iterable[ir.Value]) -> None:
        for value in values:
            hosted.add(value)
            for reader in readers[value]:
                heapq.heappush(queue, order[reader])

    for node in nodes:
        if places[node].side == Side.GPU and op_name(node) in HOST_OUTPUTS:
            give(node.outputs)
    seen: set[int] = set()
    while queue:
        number = heapq.heappop(queue)
        if number in seen:
            continue
        seen.add(number)
        node = nodes[number]
        if places[node].side != Side.GPU:
            give(node.outputs)
        elif _belongs_on_cpu(node, hosted, graph, loaded):
            places[node] = Place(Side.CPU, "is computed from a shape", runtimes=runtimes)
            give(node.outputs)


def _belongs_on_cpu(node: ir.Node, hosted: set[ir.Value], graph: ir.Graph, loaded: Loaded) -> bool:
    for index, value in enumerate(loaded.inputs(node)):
        if value is None:
            continue
        if loaded.tensors.dtype(value) in HALVES:
            return False
        small = value in loaded.constants and _elements(loaded, value) <= SMALL
        if small or (value.is_graph_input() and value.graph is graph):
            continue
        if value not in hosted or is_on_host(node, index):
            return False
    return True


def _elements(loaded: Loaded, value: ir.Value) -> int:
    count = 1
    for length in loaded.tensors.shape(value) or (SMALL + 1,):
        count *= SMALL + 1 if length is None else length
    return count


def _copies(graph: ir.Graph, nodes: Sequence[ir.Node], placement: Placement) -> list[Copy]:
    """The copies that a graph needs, as ONNX Runtime's MemcpyTransformer makes them."""
    loaded = placement.loaded
    # Dictionaries, not sets: the order must be the same in every run.
    read: dict[Side, dict[ir.Value, None]] = {Side.GPU: {}, Side.CPU: {}}
    made: dict[Side, dict[ir.Value, None]] = {Side.GPU: {}, Side.CPU: {}}
    for node in nodes:
        if placement.places[node].side == Side.UNKNOWN:
            continue  # what it needs is not known, and not guessed
        on_gpu = placement.places[node].side == Side.GPU
        for index, value in enumerate(loaded.inputs(node)):
            if value is not None and value not in loaded.constants:
                side = Side.GPU if on_gpu and not is_on_host(node, index) else Side.CPU
                read[side][value] = None
        side = Side.GPU if on_gpu and op_name(node) not in HOST_OUTPUTS else Side.CPU
        made[side].update((value, None) for value in node.outputs if value.name)
    made_here = {**made[Side.GPU], **made[Side.CPU]}
    both = [value for value in read[Side.GPU] if value in read[Side.CPU] and value not in made_here]
    copied = [
        *((value, False) for value in both),
        *((value, False) for value in made[Side.CPU] if value in read[Side.GPU]),
        *((value, True) for value in made[Side.GPU] if value in read[Side.CPU]),
    ]
    return [Copy(value, to_host, loaded.tensors.nbytes(value)) for value, to_host in copied]
