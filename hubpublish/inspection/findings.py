"""What is wrong with each node of a model on a device."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from hubpublish.devices import Profile, measure_fit
from hubpublish.devices.fit import slots_granted, slots_of
from hubpublish.devices.loaded import load_like_a_runtime
from hubpublish.devices.needs import bound_by, measure_sizes
from hubpublish.devices.placement import Placement, Side, place
from hubpublish.devices.runtimes import Failure, Runtime, all_runtimes
from hubpublish.inspection.by_runtime import fails_on, on_cpu_in
from hubpublish.inspection.groups import group, total
from hubpublish.inspection.models import STOPPING, WASM_BYTES, Finding, Inspection, Totals
from hubpublish.inspection.remedies import Remedies
from hubpublish.model import Scope, graph_statistics, node_label
from hubpublish.model.constants import integer_of
from hubpublish.model.statistics import op_name
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.removes import Problem
from hubpublish.words import plural, readable_binary_bytes

Where = Sequence[Runtime]

OF_TABLES: Final = (Problem.NO_KERNEL, Problem.STORAGE_BUFFERS)  # what a runtime's table says


@dataclass(frozen=True)
class Found:
    """A finding with the tensors that are copied for its node."""

    finding: Finding
    from_gpu: tuple[ir.Value, ...] = ()
    to_gpu: tuple[ir.Value, ...] = ()


def inspect(model: ir.Model, profile: Profile, runtime: Runtime | None = None) -> Inspection:
    """Hold a model against a device and a runtime; without one the worst of the listed runtimes counts.

    Nothing is run, the model is not changed, and the time is linear in its nodes.

    Raises:
        UnsupportedModelError: A graph has a cycle.
    """
    runtimes = (runtime,) if runtime is not None else all_runtimes()
    loaded = load_like_a_runtime(model)
    placement = place(loaded, runtimes)
    inspector = _Inspector(placement, profile, runtimes)
    found = inspector.run()
    return Inspection(
        profile=profile.name,
        runtimes=tuple(each.name for each in runtimes),
        statistics=graph_statistics(model),
        fit=measure_fit(model, profile, runtime, _shaders(model, placement)),
        totals=_totals(placement, runtimes, inspector.nodes),
        groups=group(found, loaded.tensors.nbytes),
        findings=tuple(each.finding for each in found),
        fails_on=fails_on((each.finding for each in found), runtimes),
        on_cpu_in=on_cpu_in(placement, runtimes),
    )


def _shaders(model: ir.Model, placement: Placement) -> dict[ir.Node, tuple[str, ...]] | None:
    """The nodes that may run on the GPU once the model is loaded, and where; None if that was inlined."""
    loaded = placement.loaded
    if loaded.model is not model:
        return None
    return {node: where for node, _ in loaded.live if (where := placement.perhaps_on_gpu(node))}


def _totals(placement: Placement, runtimes: Where, nodes: Mapping[Problem, set[ir.Node]]) -> Totals:
    copies = {side: [copy for copy in placement.copies if copy.to_host is side] for side in (True, False)}
    loaded = placement.loaded
    failing = set().union(*(nodes[problem] for problem in STOPPING))
    sizes = measure_sizes(placement)
    fits = sizes.peak_live_bytes < WASM_BYTES
    return Totals(
        nodes=len(placement.loaded.live),
        on_gpu=sum(node not in failing for node, _ in placement.on(Side.GPU)),
        on_cpu=len(nodes[Problem.NO_KERNEL]),
        undecided=len(nodes[Problem.UNKNOWN]),
        failing=len(failing),
        copies_from_gpu=len(copies[True]),
        copies_to_gpu=len(copies[False]),
        bytes_from_gpu=sum(copy.nbytes or 0 for copy in copies[True]),
        bytes_to_gpu=sum(copy.nbytes or 0 for copy in copies[False]),
        unknown_copies=sum(copy.nbytes is None for copy in placement.copies),
        storage_buffers=max(
            (slots_of(node) for node, _ in loaded.live if _is_one_shader(node, placement, runtimes)),
            default=0,
        ),
        half_precision=any(
            placement.perhaps_on_gpu(node) and _is_half(node, placement) for node, _ in loaded.live
        ),
        largest_on_gpu=sizes.largest_on_gpu,
        largest=sizes.largest,
        weight_bytes=sizes.weight_bytes,
        peak_live_bytes=sizes.peak_live_bytes,
        fits_wasm=None if sizes.unknown and fits else fits,
        unknown_sizes=sizes.unknown,
        declared_sizes=sizes.declared,
    )


def _is_one_shader(node: ir.Node, placement: Placement, runtimes: Where) -> bool:
    """Whether some runtime may run it as a shader that binds all of its tensors."""
    where, op = placement.perhaps_on_gpu(node), op_name(node)
    return any(runtime.name in where and op not in runtime.splits_itself for runtime in runtimes)


def _is_half(node: ir.Node, placement: Placement) -> bool:
    dtype = placement.loaded.tensors.dtype
    return any(dtype(value) == ir.DataType.FLOAT16 for value in bound_by(node, placement))


class _Inspector:
    """Looks at the nodes of one model, one after the other."""

    def __init__(self, placement: Placement, profile: Profile, runtimes: Where) -> None:
        self._placement = placement
        self._nbytes = placement.loaded.tensors.nbytes
        self._profile = profile
        self._runtimes = runtimes
        self._remedies = Remedies(placement)
        self.nodes: dict[Problem, set[ir.Node]] = {problem: set() for problem in Problem}
        self._failing: dict[str, list[tuple[Runtime, Failure]]] = defaultdict(list)
        for runtime in runtimes:
            for failure in runtime.failures:
                self._failing[failure.op].append((runtime, failure))
        self._copied = {
            side: {c.value for c in placement.copies if c.to_host is side} for side in (True, False)
        }

    def run(self) -> list[Found]:
        checks = (self._placed, self._fails, self._slots, self._sizes, self._half)
        made = []
        for node, scope in self._placement.loaded.live:
            for check in checks:
                for found in check(node, functools.partial(self._finding, node, scope)):
                    self.nodes[found.finding.problem].add(node)
                    made.append(found)
        return made

    def _finding(
        self, node: ir.Node, scope: Scope, problem: Problem, where: Where, **rest: object
    ) -> Finding:
        fields = {"dtype": "", **rest}
        return Finding.model_validate(
            {
                "node": node_label(node),
                "op": op_name(node),
                "scope": scope.label,
                "problem": problem,
                "passes": self._remedies.of(problem, node),
                "runtimes": tuple(runtime.name for runtime in where),
                "believed": problem in OF_TABLES and any(each.believed(op_name(node)) for each in where),
                **fields,
            }
        )

    def _named(self, names: Sequence[str]) -> Where:
        return [runtime for runtime in self._runtimes if runtime.name in names]

    def _placed(self, node: ir.Node, finding: Callable[..., Finding]) -> Iterator[Found]:
        """Nodes that do not run on the GPU."""
        its = self._placement.places[node]
        if its.side == Side.GPU:
            return
        failing = {runtime.name for runtime, _ in self._failures(node)}
        where = self._named([name for name in its.runtimes if name not in failing])
        if not where:
            return
        if its.side == Side.UNKNOWN:
            yield Found(finding(Problem.UNKNOWN, where, what=its.reason, happens="may run on the CPU"))
            return
        from_gpu = tuple(v for v in self._placement.loaded.inputs(node) if v in self._copied[True])
        to_gpu = tuple(value for value in node.outputs if value in self._copied[False])
        problem = Problem.NO_KERNEL
        yield Found(
            finding(
                problem,
                where,
                dtype=its.dtype,
                what=its.reason,
                happens="runs on the CPU",
                bytes_from_gpu=total(from_gpu, self._nbytes),
                bytes_to_gpu=total(to_gpu, self._nbytes),
            ),
            from_gpu,
            to_gpu,
        )

    def _failures(self, node: ir.Node) -> list[tuple[Runtime, Failure]]:
        its = self._failing.get(op_name(node), ())
        return [(runtime, failure) for runtime, failure in its if self._is_such(node, failure)]

    def _is_such(self, node: ir.Node, failure: Failure) -> bool:
        if any(integer_of(node, name, 0) != value for name, value in failure.attributes.items()):
            return False
        if failure.output is not None and not (
            len(node.outputs) > failure.output and node.outputs[failure.output].name
        ):
            return False
        shape = self._placement.loaded.tensors.shape
        if failure.threes and not in_threes(node, shape):
            return False
        if failure.empty is None:
            return True
        value = node.inputs[failure.empty] if len(node.inputs) > failure.empty else None
        return value is not None and 0 in (shape(value) or ())

    def _fails(self, node: ir.Node, finding: Callable[..., Finding]) -> Iterator[Found]:
        """Nodes that a runtime takes, and does not run as it should."""
        by_text: dict[tuple[Problem, str], list[Runtime]] = {}
        for runtime, failure in self._failures(node):
            problem = Problem.FAILS if failure.empty is None else Problem.EMPTY
            by_text.setdefault((problem, failure.happens), []).append(runtime)
        for (problem, happens), where in by_text.items():
            what = "is given a tensor without elements" if problem == Problem.EMPTY else "does not work"
            yield Found(finding(problem, where, what=what, happens=happens))

    def _slots(self, node: ir.Node, finding: Callable[..., Finding]) -> Iterator[Found]:
        """Nodes that bind too many tensors."""
        where = self._named(self._placement.perhaps_on_gpu(node))
        slots, limits = slots_of(node), slots_granted(op_name(node), self._profile, where)
        over = {name: limit for name, limit in limits.items() if slots > limit}
        if over:
            limit = min(over.values())
            yield Found(
                finding(
                    Problem.STORAGE_BUFFERS,
                    self._named(list(over)),
                    what=_binds(slots, self._profile.storage_buffers, over),
                    happens="does not compile",
                    amount=slots,
                    allowed=limit,
                )
            )

    def _sizes(self, node: ir.Node, finding: Callable[..., Finding]) -> Iterator[Found]:
        """Nodes with a tensor that is larger than a buffer, or than a binding."""
        where = self._named(self._placement.perhaps_on_gpu(node))
        if not where or not slots_of(node):
            return
        profile = self._profile
        sizes = [self._nbytes(value) or 0 for value in bound_by(node, self._placement)]
        largest = max(sizes, default=0)
        if largest > profile.max_buffer_bytes:
            problem, allowed, happens = Problem.BUFFER, profile.max_buffer_bytes, "cannot be allocated"
        elif largest > profile.max_binding_bytes:
            problem, allowed = Problem.BINDING, profile.max_binding_bytes
            bindings = sum(max(1, -(-size // allowed)) for size in sizes)
            happens = f"takes {plural(bindings, 'binding')}"
            happens += ": does not compile" if bindings > profile.storage_buffers else ", which fit"
        else:
            return
        what = f"{problem} of {readable_binary_bytes(largest)} over {readable_binary_bytes(allowed)}"
        yield Found(finding(problem, where, what=what, happens=happens, amount=largest, allowed=allowed))

    def _half(self, node: ir.Node, finding: Callable[..., Finding]) -> Iterator[Found]:
        """Nodes that compute in half precision where shaders cannot."""
        where = self._named(self._placement.perhaps_on_gpu(node))
        if self._profile.shader_f16 or not where or not slots_of(node):
            return
        if _is_half(node, self._placement):
            what, happens = "shader-f16 is not available", "does not compile"
            yield Found(finding(Problem.SHADER_F16, where, dtype="float16", what=what, happens=happens))


def _binds(slots: int, granted: int, over: Mapping[str, int]) -> str:
    """Why so many are too many: for the device, for runtimes that take fewer than it grants, or both."""
    limit = min(over.values())
    why = [f"{granted} granted"] if slots > granted else []
    if limit < granted:
        names = [name for name, its in over.items() if its == limit]
        why.append(f"{' and '.join(names)} take{'s' if len(names) == 1 else ''} only {limit}")
    return ", ".join([f"binds {slots}", *why])


def in_threes(node: ir.Node, shape: Callable[[ir.Value], Dims | None]) -> bool:
    """Whether a convolution's weights certainly are as `Failure.threes` says."""
    weights = node.inputs[1] if len(node.inputs) > 1 else None
    lengths = shape(weights) if weights is not None else None
    if lengths is None or None in lengths[:2] or integer_of(node, "group", 1) != 1:
        return False
    outputs, inputs, *kernel = (length or 0 for length in lengths)
    return (
        inputs > 3 and inputs % 3 == 0 and inputs % 4 > 0 and outputs % 4 == 0 and max(kernel, default=0) > 1
    )
