"""Whether there is any float16 in a model whose values cannot be followed one by one."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from hubpublish.passes.half.search import may_have_halves
from tests.models.build import parse

HEAD = '<ir_version: 8, opset_import: ["": 17, "l": 1, "other": 1]>'
FUNCTION = '<domain: "l", opset_import: ["": 17]>'


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("g (float[2] x) => (float[2] y) { y = Relu(x) }", False),
        ("g (float16[2] x) => (float16[2] y) { y = Relu(x) }", True),
        ("g (seq(float16[2]) x) => (int64 y) { y = SequenceLength(x) }", True),
        ("g (optional(seq(float[2])) x) => (bool y) { y = OptionalHasElement(x) }", False),
        ("g (float[2] x) => (float[2] y) { h = Cast<to = 10>(x)  y = Cast<to = 1>(h) }", True),
        ("g (float[2] x) => (float[2] y) { h = Cast<to = 7>(x)  y = Cast<to = 1>(h) }", False),
        ("g (float[2] x) => (float[2] y) <float16 k = {1}> { h = CastLike(x, k)  y = CastLike(h, x) }", True),
        ("g (int8[2] x, float s) => (float[2] y) { h = DequantizeLinear<output_dtype = 10>(x, s) "
         "y = Cast<to = 1>(h) }", True),
        ("g () => (float16 y) { y = Constant<value = float16 {1}>() }", True),
        ("g (bool c) => (float y) { y = If(c) <then_branch = t () => (float a) { h = "
         "Constant<value = float16 {1}>() a = Cast<to = 1>(h) }, else_branch = e () => (float b) "
         "{ b = Constant<value = float {1}>() }> }", True),
        ("g (float[2] x) => (float[2] y) { y = other.Op(x) }", False),  # as declared; the runtime checks it
        ("g (float[2] x) => (float[2] y) { h = other.Op(x)  y = other.Op(h) }", True),
        ("g (float[2] x) => (float[2] y) { y = l.F<t = 1>(x) } " + FUNCTION +
         " F (x) => (y) { h = Neg(x)  y = Relu(h) }", False),
        ("g (float[2] x) => (float[2] y) { y = l.F<t = 1>(x) } " + FUNCTION +
         " F <t> (x) => (y) { y = Cast<to: int = @t>(x) }", True),
    ],
)  # fmt: skip
def test_may_have_halves(text: str, half: bool) -> None:
    model = ir.from_proto(parse(f"{HEAD} {text}"))
    assert may_have_halves(model) is half
