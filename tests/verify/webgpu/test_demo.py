"""The demo model on the device: what the original cannot, its rewrite does, with every node on the GPU."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from hubpublish.demo.config import SMALL, Dtype
from hubpublish.demo.model import build_model
from hubpublish.devices import PROFILES, Device
from hubpublish.inspection import Auto
from hubpublish.rewrite import rewrite
from hubpublish.verify.webgpu import WebGpuVerification

from .conftest import Verify

pytestmark = pytest.mark.webgpu


def verified(folder: Path, dtype: Dtype, on_gpu: Verify) -> WebGpuVerification:
    original, rewritten = folder / "original.onnx", folder / "rewritten.onnx"
    onnx.save(build_model(SMALL, dtype=dtype), original)
    rewrite(original, rewritten, Auto(), Device(PROFILES["webgpu-min"]))
    found = on_gpu(original, rewritten, original=True)
    before, after = found.runs
    assert found.adapter.storage_buffers == 8
    assert before.status == "fails"
    assert "Too many storage buffers in shader. Current: 9, Max is 8" in str(before.error)
    assert (after.status, after.on_cpu, after.copies_to_gpu, after.copies_from_gpu) == ("ok", {}, 0, 0)
    assert after.on_gpu is not None
    assert after.on_gpu > 2000
    return found


def test_in_single_precision_it_is_near_the_cpu(tmp_path: Path, on_gpu: Verify) -> None:
    found = verified(tmp_path, "fp32", on_gpu)
    assert found.runs[-1].max_abs is not None
    assert 0 < found.runs[-1].max_abs < 2e-3  # of logits whose standard deviation is above 1
    assert (found.half, found.accumulations) == ((), ())


def test_in_half_precision_it_is_measured_against_what_storing_halves_costs(
    tmp_path: Path, on_gpu: Verify
) -> None:
    found = verified(tmp_path, "fp16", on_gpu)
    (output,) = found.half
    assert output.floor.mean_abs is not None
    assert 1e-4 < output.floor.mean_abs < 0.02
    assert output.times is not None
    assert output.times > 2  # where halves are added up in half precision
    assert [(each.op, each.terms) for each in found.accumulations[:1]] == [("Conv", 27_648)]
