"""Where the nodes of whole models run and what is copied: as predicted, and as it really is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import onnx
import onnx_ir as ir
import pytest

from hubpublish.demo.config import SMALL
from hubpublish.demo.model import build_model
from hubpublish.devices import PROFILES, Runtime
from hubpublish.devices.placement import Side
from hubpublish.inspection import Auto, inspect
from hubpublish.passes.removes import Problem
from hubpublish.verify.webgpu.bench import Device
from tests.real.conftest import real_file
from tests.real.files import FILES
from tests.verify.webgpu.many import Model, Real, named, open_all, predicted

pytestmark = pytest.mark.webgpu

__all__ = ["real_file"]  # a fixture

#: Of the demo's model: dtype, rewritten or not; nodes on the CPU, copies from the GPU and to it.
DEMO = [
    ("fp32", False, 340, 100, 100),
    ("fp32", True, 0, 0, 0),
    ("fp16", False, 340, 100, 100),
    ("fp16", True, 0, 0, 0),
]
#: Nodes on the CPU that the runtime adds and takes away by what is not followed; none copies anything. A
#: Gather puts the shape of what has its channels last in the order that the model expects, and the shape
#: of a Reshape that is put together from lengths of its input becomes a constant.
BESIDES = {"silero-vad": {"Gather": 4}, "nudenet": {"Gather": 1, "Concat": -2, "Unsqueeze": -2}}


@pytest.mark.parametrize(("dtype", "rewritten", "on_cpu", "from_gpu", "to_gpu"), DEMO)
def test_of_the_demos_model_are_real(
    dtype: Literal["fp32", "fp16"],
    rewritten: bool,
    on_cpu: int,
    from_gpu: int,
    to_gpu: int,
    webgpu_device: Device,
    native: Runtime,
) -> None:
    proto = build_model(SMALL, dtype=dtype)
    if rewritten:
        model = ir.from_proto(proto)
        for each in Auto().choose(inspect(model, PROFILES["webgpu-min"])):
            each(model)
        proto = ir.to_proto(model)
    (real,) = open_all([Model(dtype, proto, copies=True)], webgpu_device)
    assert_alike(proto, real, native, Counter())
    assert len(real.on_cpu) == on_cpu
    assert (real.copies["MemcpyToHost"], real.copies["MemcpyFromHost"]) == (from_gpu, to_gpu)


@pytest.mark.real
@pytest.mark.parametrize("name", FILES)
def test_of_files_that_others_made_are_real(
    name: str, real_file: Callable[[str], Path], webgpu_device: Device, native: Runtime
) -> None:
    proto = named(onnx.load(real_file(name)))
    (real,) = open_all([Model(name, proto, copies=True)], webgpu_device)
    assert_alike(proto, real, native, Counter(BESIDES.get(name, {})))
    sides = {node.name or "": place.side for node, place in predicted(proto, native).places.items()}
    known = sides.keys() & real.sides.keys()
    assert {node: sides[node] for node in known} == {node: real.sides[node] for node in known}


def assert_alike(proto: onnx.ModelProto, real: Real, native: Runtime, besides: Counter[str]) -> None:
    """Operators on the CPU and copies are as `inspect` says; ``besides``: how many more there are."""
    assert real.error is None
    found = inspect(ir.from_proto(proto), PROFILES["webgpu-min"], native)
    assert found.totals.undecided == 0
    said = Counter(each.op for each in found.findings if each.problem == Problem.NO_KERNEL)
    said.update(besides)
    assert said == Counter(real.on_cpu)
    assert found.totals.on_cpu == len(real.on_cpu) - besides.total()
    assert found.totals.copies_from_gpu == real.copies["MemcpyToHost"]
    assert found.totals.copies_to_gpu == real.copies["MemcpyFromHost"]
    assert Side.GPU in real.sides.values()
