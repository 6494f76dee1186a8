"""Every operator of the native kernel table, in small models, on the device that the table is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from hubpublish.devices import PROFILES, Runtime
from hubpublish.devices.placement import Side
from hubpublish.inspection import inspect
from hubpublish.passes.removes import Problem
from hubpublish.verify.webgpu.bench import Device
from tests.verify.webgpu import microsoft
from tests.verify.webgpu.many import Model, Real, named, open_all, predicted
from tests.verify.webgpu.retargeted import (
    OLDEST,
    OneNode,
    allowed_types,
    histories,
    node_tests,
    one_node_models,
    retargeted,
)

pytestmark = pytest.mark.webgpu

MICROSOFT = "com.microsoft::"
MICROSOFT_TYPES = ("float", "float16", "double", "bfloat16")
#: Of the runtime's own, in ONNX's domain.
WITHOUT_DOMAIN = frozenset({"SimplifiedLayerNormalization"})


@pytest.fixture(scope="module")
def models(native: Runtime) -> list[OneNode]:
    """For each operator that a table or ONNX's tests know."""
    contributed = [
        OneNode(_table_name(op), 1, {"T": dtype}, microsoft.model(op, dtype))
        for op in microsoft.MODELS
        for dtype in MICROSOFT_TYPES
    ]
    return [*one_node_models(frozenset(native.kernels)), *contributed]


@pytest.fixture(scope="module")
def real(models: list[OneNode], webgpu_device: Device) -> list[Real]:
    """What became of those models."""
    return open_all([Model(str(each), each.proto) for each in models], webgpu_device)


def _table_name(op: str) -> str:
    return op if op in WITHOUT_DOMAIN else f"{MICROSOFT}{op}"


def test_every_kernel_of_the_table_was_tried(
    models: list[OneNode], real: list[Real], native: Runtime
) -> None:
    """With each version of its operator and each element type that ONNX allows."""
    tried = {
        (model.op, model.since, *types)
        for model, its in zip(models, real, strict=True)
        if Side.GPU in its.sides.values()
        for types in model.types.items()
    }
    ops = {op for op, *_ in tried}
    assert native.kernels.keys() - ops == set()
    assert sorted(each for each in _claims(native) if each not in tried) == []


def _claims(runtime: Runtime) -> Iterator[tuple[str, int, str, str]]:
    """Every version and element type for which the table has a kernel and ONNX an operator."""
    for op, kernels in runtime.kernels.items():
        versions = histories().get(op, [])
        newest = {schema.since_version for schema in versions if schema.since_version <= OLDEST}
        for schema in versions:
            if schema.since_version < max(newest, default=OLDEST):
                continue  # no model that runs on the GPU has it
            allowed = allowed_types(schema)
            for kernel in kernels:
                if kernel.first <= schema.since_version <= kernel.last:
                    for name, dtypes in kernel.types.items():
                        for dtype in dtypes.intersection(allowed.get(name, ())):
                            yield op, schema.since_version, name, dtype


def test_nodes_are_where_the_table_says(models: list[OneNode], real: list[Real], native: Runtime) -> None:
    opened = [
        (model, its)
        for model, its in zip(models, real, strict=True)
        if its.error is None or its.has_no_kernel
    ]
    different = {str(model): found for model, its in opened if (found := _difference(model, its, native))}
    assert different == {}
    sides = [Side.GPU if Side.GPU in its.sides.values() else Side.CPU for _, its in opened]
    assert min(sides.count(Side.GPU), sides.count(Side.CPU)) > 1000  # or nothing was tried
    cpu_only = {"NonZero", "Mod", "Sum", "Mean", "Round", "Sign", "OneHot", "IsNaN", "Or", "Xor", "LRN"}
    assert cpu_only <= {model.op for model, its in opened if its.sides.get("n0") == Side.CPU}


def _difference(model: OneNode, its: Real, native: Runtime) -> str:
    """What is otherwise than predicted; "" if nothing is."""
    placed = {node.name: place for node, place in predicted(model.proto, native).places.items()}.get("n0")
    name = next((name for name in its.sides if name == "n0" or name.startswith("n0_token")), None)
    side = Side.CPU if its.has_no_kernel else its.sides.get(name or "")
    if placed is None:  # folded
        return f"is on the {side}" if side else ""
    if placed.side == Side.UNKNOWN:
        return "" if "replaced" in placed.reason or "Transposes" in placed.reason else placed.reason
    return "" if side == placed.side else f"{placed.side} ({placed.reason}) is {side or its.nodes}"


def test_what_is_not_followed_is_undecided_only_where_it_may_happen(
    models: list[OneNode], real: list[Real], native: Runtime
) -> None:
    """Some nodes that are replaced, and some whose Transposes are on the CPU, were really there."""
    replaced, transposed = set(), set()
    for model, its in zip(models, real, strict=True):
        for node, place in predicted(model.proto, native).places.items():
            if node.name == "n0" and place.side == Side.UNKNOWN and its.error is None:
                if "replaced" in place.reason and "n0" not in its.sides:
                    replaced.add(model.op)
                if "Transposes" in place.reason and its.sides.get("Transpose") == Side.CPU:
                    transposed.add(model.op)
    assert replaced >= {"CastLike", "Mish", "HardSwish", "GroupNormalization", "LogSoftmax"}
    assert transposed >= {"Conv", "AveragePool", "DepthToSpace"}


@pytest.fixture(scope="module")
def runs(native: Runtime, webgpu_device: Device) -> list[tuple[str, Model, Real, Any]]:
    """Nodes on the GPU that are run: operator, model, what became of it, and what ONNX says comes out."""
    chosen: dict[tuple[object, ...], tuple[str, Model, Any]] = {}
    for op in sorted(native.kernels.keys() & node_tests().keys()):
        for test in node_tests()[op]:
            ((inputs, outputs), *_) = test.data_sets
            feeds = [np.asarray(each) if isinstance(each, np.generic) else each for each in inputs]
            if not all(isinstance(each, np.ndarray) and each.dtype.kind in "fiub" for each in feeds):
                continue
            proto = _newest_on_gpu(op, test.model, native)
            (node,) = proto.graph.node
            attributes = tuple(sorted((a.name, a.type == a.INT and a.i) for a in node.attribute))
            empty = any(each.size == 0 for each in feeds)
            key = (op, attributes, tuple(map(bool, node.input)), tuple(node.output), feeds[0].dtype, empty)
            chosen.setdefault(key, (op, Model(test.name, proto, feeds), outputs))
    for op in sorted(microsoft.MODELS.keys() - microsoft.NOT_RUN):
        for dtype in ("float", "float16"):
            proto = microsoft.model(op, dtype)
            model = Model(f"{op} {dtype}", proto, microsoft.feeds(proto))
            chosen[op, dtype] = (_table_name(op), model, None)
    its = open_all([model for _, model, _ in chosen.values()], webgpu_device)
    return [
        (op, model, real, outputs)
        for (op, model, outputs), real in zip(chosen.values(), its, strict=True)
        if any(on_gpu for on_gpu, *_ in real.nodes)
    ]


def _newest_on_gpu(op: str, proto: onnx.ModelProto, native: Runtime) -> onnx.ModelProto:
    """A test as of the newest opset of which there is a kernel, or as it is."""
    older = [each.proto for each in retargeted(op, proto, ()) if each.proto.graph.input == proto.graph.input]
    for each in (named(proto), *reversed(older)):
        if predicted(each, native).on(Side.GPU):
            return each
    return named(proto)


def test_what_fails_was_predicted_and_what_was_predicted_fails(
    runs: list[tuple[str, Model, Real, Any]], native: Runtime
) -> None:
    """For want of storage buffers too: the device grants eight."""
    problems = {Problem.FAILS, Problem.EMPTY, Problem.STORAGE_BUFFERS}
    wrong = {}
    for _, model, real, _ in runs:
        found = inspect(ir.from_proto(model.proto), PROFILES["webgpu-min"], native).findings
        expected = any(each.problem in problems for each in found)
        if expected != (real.fails is not None):
            wrong[model.name] = (expected, real.fails)
        elif any(each.problem == Problem.STORAGE_BUFFERS for each in found):
            assert "Too many storage buffers" in str(real.fails)
    assert wrong == {}
    assert {op for op, _, real, _ in runs if real.fails} >= {"Resize", "MaxPool", "BatchNormalization"}


def test_what_comes_out_is_what_comes_out_of_the_cpu(runs: list[tuple[str, Model, Real, Any]]) -> None:
    """Or what ONNX says, where the CPU has no kernel or is itself further from that."""
    wrong, compared = [], set()
    for op, model, real, said in runs:
        half = any(each.dtype == np.float16 for each in model.feeds or ())
        references = [each for each in (real.on_the_cpu, said) if each is not None]
        if real.outputs is not None and references:
            compared.add(op)
            if not any(_all_close(real.outputs, each, half) for each in references):
                wrong.append(model.name)
    assert wrong == []
    assert len(compared) > 110


def _all_close(got: Sequence[Any], wanted: Sequence[Any], half: bool) -> bool:
    return len(got) == len(wanted) and all(_close(*each, half) for each in zip(got, wanted, strict=True))


def _close(got: Any, wanted: Any, half: bool) -> bool:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    rtol, atol = (2e-2, 2e-2) if half else (1e-3, 1e-5)
    return np.allclose(got.astype(float), wanted.astype(float), rtol=rtol, atol=atol, equal_nan=True)


#: Input and output channels, kernel, groups; the second half is near the first and right.
CONVOLUTIONS = [
    *((30, 16, (3, 3), 1), (6, 8, (3, 3), 1), (9, 4, (1, 2), 1), (15, 16, (5, 5), 1), (21, 12, (2, 2), 1)),
    *((3, 16, (3, 3), 1), (12, 16, (3, 3), 1), (30, 16, (1, 1), 1), (30, 15, (3, 3), 1), (30, 32, (3, 3), 2)),
]


def test_convolutions_that_compute_wrong_values_are_known(webgpu_device: Device, native: Runtime) -> None:
    models = []
    for op, dtype in (("Conv", "float"), ("Conv", "float16"), ("com.microsoft.FusedConv", "float")):
        for inputs, outputs, (high, wide), group in CONVOLUTIONS:
            weights = f"{dtype}[{outputs},{inputs // group},{high},{wide}] w"
            text = f"g ({dtype}[1,{inputs},8,8] x, {weights}) => (y) {{ y = {op} <group = {group}> (x, w) }}"
            head = '<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]>'
            proto = onnx.parser.parse_model(f"{head} {text}")
            models.append(Model(text, proto, microsoft.feeds(proto)))
    wrong, said = set(), set()
    for model, real in zip(models, open_all(models, webgpu_device), strict=True):
        assert real.outputs is not None
        assert real.on_the_cpu is not None
        if not np.allclose(real.outputs[0].astype(float), real.on_the_cpu[0].astype(float), atol=1):
            wrong.add(model.name)
        found = inspect(ir.from_proto(model.proto), PROFILES["webgpu-desktop"], native).findings
        if any(each.happens == "computes wrong values" for each in found):
            said.add(model.name)
    assert wrong == said
    assert len(said) == len(models) // 2
