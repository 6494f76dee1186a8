from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from hubpublish.verify.webgpu.half import OUTSIDE, holds_halves, in_float32
from tests.verify.conftest import OnnxFile

from .conftest import Verify

# ONNX's text has halves as their bits: 15360 and 16384 are 1 and 2.
BODIES = """g (float16[1,2] x, bool c) => (float16[1,2] y)
{ k = Constant <value = float16[2] {15360, 16384}> ()
  w = Add (x, k)
  f = Cast <to = 1> (w)
  h = Cast <to = 10> (f)
  y = If (c) <then_branch = t () => (float16[1,2] a) { a = Mul (h, half) },
              else_branch = e () => (float16[1,2] b) { b = Identity (w) }> }"""


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, feeds)
    return np.asarray(result)


@pytest.mark.parametrize("branch", [True, False])
def test_every_tensor_is_widened_and_the_boundary_stays(onnx_file: OnnxFile, branch: bool) -> None:
    path = onnx_file(BODIES, opset=17, half=np.array([3.0], np.float16))
    assert holds_halves(path)
    wide = in_float32(onnx.load(path))
    assert wide is not None
    assert [value.name for value in (*wide.graph.input, *wide.graph.output)] == [
        f"{OUTSIDE}x",
        "c",
        f"{OUTSIDE}y",
    ]
    x, c = np.array([[0.1, 2049.0]], np.float16), np.array(branch)
    result = run(wide, **{f"{OUTSIDE}x": x, "c": c})
    truth = (x.astype(np.float32) + np.float32([1, 2])) * np.float32(3 if branch else 1)
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, truth.astype(np.float16))
    inside = {each.data_type for node in wide.graph.node[1:-1] for each in tensors(node)}
    assert inside == {onnx.TensorProto.FLOAT}
    assert run(onnx.load(path), x=x, c=c).dtype == np.float16


def tensors(node: onnx.NodeProto) -> list[onnx.TensorProto]:
    return [each.t for each in node.attribute if each.HasField("t")]


def test_a_model_in_single_precision_holds_none(onnx_file: OnnxFile) -> None:
    assert not holds_halves(onnx_file("g (float[4] x) => (float[4] y) { y = Neg (x) }"))


def test_functions_of_the_models_own_are_left_alone() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float16[4] x) => (float16[4] y) { y = own.twice (x) }
        <domain: "own", opset_import: ["": 17]> twice (a) => (b) { b = Add (a, a) }"""
    )
    assert in_float32(model) is None


@pytest.mark.webgpu
def test_a_long_sum_is_further_off_than_what_storing_costs(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    random = np.random.default_rng(0)
    path = onnx_file(
        "g (float16[4,4096] x) => (float16[4,8] y) { y = MatMul (x, w) }",
        opset=17,
        w=(random.standard_normal((4096, 8)) / 64).astype(np.float16),
    )
    (output,) = on_gpu(path, path).half
    assert output.name == "y"
    assert output.floor.mean_abs is not None
    assert output.floor.mean_abs < 1e-3  # the last bit of a number around 1, at most
    assert output.times is None or output.times > 2
    assert "on average, the device by" in str(output)


@pytest.mark.webgpu
def test_of_single_precision_nothing_is_measured(onnx_file: OnnxFile, on_gpu: Verify) -> None:
    path = onnx_file("g (float[4] x) => (float[4] y) { y = Neg (x) }")
    assert on_gpu(path, path).half == ()
