from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hubpublish.errors import UsageError
from hubpublish.recipe import Tolerance
from hubpublish.verify import RunLimits
from hubpublish.verify.webgpu import webgpu_error
from hubpublish.verify.webgpu.bench import Device, find_device
from hubpublish.verify.webgpu.layers import accumulations
from tests.errors import error_of
from tests.verify.conftest import OnnxFile

from .conftest import Verify

pytestmark = pytest.mark.webgpu

PARTS = ", ".join(f"p{number}" for number in range(9))
WIDE = f"g (float[9,4] x) => (float[9,4] y) {{ {PARTS} = Split <axis = 0, num_outputs = 9> (x) " \
       f"n = Neg (p0) y = Concat <axis = 0> (n, {', '.join(f'p{n}' for n in range(1, 9))}) }}"  # fmt: skip
NARROW = """g (float[9,4] x) => (float[9,4] y)
{ sizes = Constant <value_ints = [1, 8]> () p, q = Split <axis = 0> (x, sizes) n = Neg (p)
  y = Concat <axis = 0> (n, q) }"""


def test_the_device_is_real_and_grants_what_was_asked(webgpu_device: Device) -> None:
    adapter = webgpu_device.adapter
    assert (adapter.storage_buffers, adapter.asked, adapter.not_lowered) == (8, 8, None)
    assert adapter.names
    assert "onnxruntime-ep-webgpu" in adapter.runtime
    assert str(adapter).endswith("with 8 storage buffers")


def test_a_wide_split_fails_and_its_rewrite_runs(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    found = on_gpu(onnx_file(WIDE), onnx_file(NARROW), original=True, bounds=Tolerance(max_abs=0.0))
    original, rewritten = found.runs
    assert found
    assert (original.model, original.status) == ("original", "fails")
    assert "Too many storage buffers in shader. Current: 9, Max is 8" in str(original.error)
    assert (rewritten.status, rewritten.on_cpu) == ("ok", {})
    assert rewritten.on_gpu
    assert [output.identical for output in rewritten.outputs] == [True]
    assert found.input == "noise 0"


def test_a_rewrite_that_does_not_run_has_not_passed(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    found = on_gpu(onnx_file(NARROW), onnx_file(WIDE))
    assert not found
    assert found.kind == "webgpu_fails"
    error = webgpu_error(found)
    assert (error.exit_code, error.kind) == (5, "webgpu_fails")
    assert "Too many storage buffers" in error.what
    assert "inspect" in str(error.hint)


def test_what_is_on_the_cpu_is_counted_with_its_copies(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    text = "g (float[4] x) => (float[4] y) { n = Neg (x) s = Sum (n, n, x) y = Relu (s) }"
    path = onnx_file(text, opset=17)
    (run,) = on_gpu(path, path).runs
    assert run.on_cpu == {"Sum": 1}
    assert run.on_gpu == 2
    assert (run.copies_from_gpu, run.copies_to_gpu) == (1, 2)
    assert "2 nodes on the GPU, 1 on the CPU (1 Sum); 2 copies to the GPU and 1 from it" in str(run)


def test_a_model_that_is_all_on_the_cpu_has_not_passed(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    path = onnx_file("g (float[4] x) => (float[4] y) { y = Round (x) }", opset=17)
    found = on_gpu(path, path)
    assert (found.passed, found.kind) == (False, "webgpu_on_cpu")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "g (float[4] x) => (float[4] y) { z = Sub (x, x) n = Div (z, z) y = Add (n, x) }",
            "output 'y' differs in 4 of 4 values, 4 of them NaN or infinite in only one",
        ),
        (
            "g (float[4] x) => (float[1,4] y) "
            "{ s = Constant <value_ints = [1, 4]> () n = Neg (x) y = Reshape (n, s) }",
            "output 'y' (float32 [4]) has another shape [1, 4]",
        ),
        ("g (float[4] x) => (float[4] z) { z = Neg (x) }", "has another set of elements: y, z"),
    ],
)
def test_what_no_bounds_can_allow_has_not_passed(
    onnx_file: OnnxFile, on_gpu: Verify, text: str, why: str
) -> None:
    original = onnx_file("g (float[4] x) => (float[4] y) { y = Neg (x) }")
    for spec in ({}, {"bounds": Tolerance(max_abs=1e9)}):
        found = on_gpu(original, onnx_file(text), **spec)
        assert (found.passed, found.kind) == (False, "webgpu_wrong")
        assert why in str(found.reason)


def test_assignment_alone_runs_nothing(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    found = on_gpu(onnx_file(WIDE), onnx_file(NARROW), original=True, assign_only=True)
    assert found
    assert [run.status for run in found.runs] == ["assigned", "assigned"]
    assert [run.outputs for run in found.runs] == [(), ()]
    assert found.input is None


def test_the_node_that_rounds_is_found(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    weights = np.random.default_rng(0).standard_normal((4096, 8)).astype(np.float16)
    path = onnx_file(
        """g (float[1,4096] x) => (float[1,8] y)
        { n = Neg (x) a = Abs (n) h = Cast <to = 10> (a) [product] m = MatMul (h, w) r = Relu (m)
          f = Cast <to = 1> (r) y = Neg (f) }""",
        opset=17,
        w=weights,
    )
    found = on_gpu(path, path, bounds=Tolerance(max_abs=1e-3))
    assert (found.passed, found.kind, found.culprit) == (False, "webgpu_different", "MatMul product")
    assert [(each.node, each.op, each.terms) for each in found.accumulations] == [("product", "MatMul", 4096)]
    assert not on_gpu(path, path).kind  # without bounds it is only measured


def test_what_adds_up_most_comes_first(onnx_file: OnnxFile) -> None:
    half = np.float16
    path = onnx_file(
        """g (float16[1,64,8,8] x, float16[1,512] v) => (float16[1,8,6,6] c, float16[1,4] y, float16[1,4] z)
        { c = Conv (x, kernel) same = Identity (w) y = MatMul (v, same) z = Gemm <transB = 1> (v, t) }""",
        opset=17,
        kernel=np.ones((8, 64, 3, 3), half),
        w=np.ones((512, 4), half),
        t=np.ones((4, 512), half),
    )
    assert [(each.op, each.terms) for each in accumulations(path)] == [
        ("Conv", 576),
        ("MatMul", 512),
        ("Gemm", 512),
    ]


def test_without_a_driver_there_is_no_silent_fall_back(
    webgpu_device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", str(tmp_path / "none.json"))
    error = error_of(UsageError, lambda: find_device(8, tmp_path, RunLimits()))
    assert error.kind == "no_webgpu_device"
    assert "there is no WebGPU device to verify on" in error.what
