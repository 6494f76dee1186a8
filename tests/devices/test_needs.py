from __future__ import annotations

import onnx

from hubpublish.devices.needs import Sizes, TensorSize, measure_sizes
from tests.devices.models import placed


def sizes(body: str, *, opset: int = 17, imports: str = "") -> Sizes:
    text = f'<ir_version: 9, opset_import: ["": {opset}{imports}]>\n{body}'
    return measure_sizes(placed(onnx.parser.parse_model(text)))


def test_the_peak_is_of_what_is_alive_at_once() -> None:
    # x and a, then a and b, then b and y: 400 bytes each
    found = sizes("g (float[100] x) => (float y) { a = Relu (x) b = Sin (a) y = Cos (b) }")
    assert (found.weight_bytes, found.peak_live_bytes) == (0, 800)
    found = sizes("g (float[100] x) => (float y) { a = Relu (x) b = Sin (a) c = Cos (b) y = Add (a, c) }")
    assert found.peak_live_bytes == 1200


def test_a_view_takes_no_memory() -> None:
    text = """g (float[100] x) => (float y, float z) {
      s = Constant <value = int64[2] {10, 10}> () a = Relu (x) b = Reshape (a, s)
      y = ReduceMax <keepdims = 0> (b) z = ReduceMax <keepdims = 0> (x) }"""
    assert sizes(text).peak_live_bytes == 800 + 4 + 16  # and the shape itself


def test_outputs_live_to_the_end() -> None:
    found = sizes(
        "g (float[100] x) => (float y, float z) { y = Relu (x) a = Sin (x) b = Cos (a) z = Tan (b) }"
    )
    assert found.peak_live_bytes == 1200


def test_weights_and_what_is_folded_count_once() -> None:
    text = """g (float[100] x) => (float y) <float[100] w = {1}>
    { a = Add (x, w) b = Mul (a, w) y = Relu (b) }"""
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 17]>\n{text.replace("{1}", "{" + ",".join(["1"] * 100) + "}")}'
    )
    found = measure_sizes(placed(model))
    assert found.weight_bytes == 400
    assert found.peak_live_bytes == 400 + 800


def test_the_largest_is_told_apart_from_the_largest_on_the_gpu() -> None:
    text = """g (float[10] x) => (float y) {
      n = Constant <value = int64[1] {100}> () s = Concat <axis = 0> (x, x) a = Sum (x, x)
      b = Tile (a, n) c = Cast <to = 7> (b) d = Abs (c) e = Cast <to = 1> (d) y = Relu (e) }"""
    found = sizes(text)
    assert found.largest == TensorSize(tensor="c", bytes=8000)
    assert found.largest_on_gpu == TensorSize(tensor="c", bytes=8000)  # its Cast has a kernel
    text = "g (float[10] x, int64[1000] i) => (float y, int64 j) { j = Abs (i) y = Relu (x) }"
    found = sizes(text)
    assert (found.largest.bytes if found.largest else 0, found.largest_on_gpu) == (
        8000,
        TensorSize(tensor="x", bytes=40),
    )


def test_what_is_not_known_is_said() -> None:
    found = sizes("g (float[N] x) => (float y) { a = Relu (x) y = Sin (a) }")
    assert (found.unknown, found.declared, found.peak_live_bytes, found.largest) == (3, 0, 0, None)


def test_what_is_only_declared_is_told_apart() -> None:
    text = """g (float[4] x) => (float[8] y) { y = my.Op (x) }"""
    found = sizes(text, imports=', "my": 1')
    assert (found.unknown, found.declared) == (0, 1)
    assert found.largest == TensorSize(tensor="y", bytes=32)


def test_what_is_inside_a_body_counts_while_it_runs() -> None:
    text = """g (bool c, float[100] x) => (float[100] y) {
      y = If (c) <then_branch = t () => (float[100] p) { q = Sin (x) p = Cos (q) },
                  else_branch = e () => (float[100] r) { r = Tan (x) }> }"""
    assert sizes(text).peak_live_bytes == 1 + 400 + 400 + 800 + 400
