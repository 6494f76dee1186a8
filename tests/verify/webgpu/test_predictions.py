"""Where the nodes of whole models run and what is copied: as predicted, and as the device's runtime has it."""

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
from hubpublish.inspection import Auto, inspect
from hubpublish.verify.webgpu.bench import Device
from tests.real.conftest import real_file
from tests.real.files import FILES
from tests.verify.webgpu.many import Model, counted, open_all, predicted

pytestmark = pytest.mark.webgpu

#: Of the demo's model: dtype, rewritten or not; nodes on the CPU, copies from the GPU and to it.
DEMO = [
    ("fp32", False, 340, 100, 100),
    ("fp32", True, 0, 0, 0),
    ("fp16", False, 340, 100, 100),
    ("fp16", True, 0, 0, 0),
]


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
    ops, copies = assert_alike(proto, webgpu_device, native)
    assert (len(ops), copies["MemcpyToHost"], copies["MemcpyFromHost"]) == (on_cpu, from_gpu, to_gpu)


@pytest.mark.real
@pytest.mark.parametrize("name", FILES)
def test_of_files_that_others_made_are_real(
    name: str, real_file: Callable[[str], Path], webgpu_device: Device, native: Runtime
) -> None:
    assert_alike(onnx.load(real_file(name)), webgpu_device, native)


def assert_alike(proto: onnx.ModelProto, device: Device, native: Runtime) -> tuple[list[str], Counter[str]]:
    """Operators on the CPU and copies; the same as predicted, by their operators and by `inspect`."""
    (real,) = open_all([Model("", proto, copies=True)], device)
    assert real.error is None
    ops, copies = counted(predicted(proto, native))
    assert Counter(ops) == Counter(real.on_cpu)
    assert copies == real.copies
    totals = inspect(ir.from_proto(proto), PROFILES["webgpu-min"], native).totals
    assert totals.on_cpu == len(real.on_cpu)
    assert totals.copies_from_gpu == real.copies["MemcpyToHost"]
    assert totals.copies_to_gpu == real.copies["MemcpyFromHost"]
    return real.on_cpu, real.copies
