from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from pydantic import ValidationError

from hubpublish.model import GraphStatistics, graph_statistics
from tests.models.build import parse
from tests.models.rich import rich_model


def test_everything_is_counted_in_every_scope() -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13, "l": 1, "custom": 1]>
        g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}, int64[3] i = {1, 2, 3}> {
            k = Constant<value = float[4] {1, 2, 3, 4}>()
            m = Constant<value_ints = [1, 2]>()
            p = custom.Constant<value = float[4] {1, 2, 3, 4}>()
            h = If(c) <then_branch = t () => (float[2] a) <float[1] v = {1}> { a = Add(x, v) },
                       else_branch = e () => (float[2] b) { b = Add(x, x) }>
            q = l.F(h)
            y = l.F(q)
        }
        <domain: "l", opset_import: ["": 13]> F (a) => (b)
        { d = Constant<value = float[1] {1}>() b = Add(a, d) }""")
    found = graph_statistics(ir.from_proto(model))
    assert found.ops == {"Add": 3, "Constant": 3, "l::F": 2, "If": 1, "custom::Constant": 1}
    assert list(found.ops) == ["Add", "Constant", "l::F", "If", "custom::Constant"]
    assert found.nodes == 10
    assert found.initializers == 3
    assert found.initializer_bytes == 8 + 24 + 4
    assert found.constant_bytes == 16 + 4
    assert (found.opset, found.ir_version) == (13, 8)


def test_bytes_are_those_in_the_file_for_every_type() -> None:
    model = parse('<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    model.graph.initializer.extend(
        [
            helper.make_tensor("i4", TensorProto.INT4, [3], b"\0\0", raw=True),
            helper.make_tensor("bf", TensorProto.BFLOAT16, [3], b"\0" * 6, raw=True),
            helper.make_tensor("e", TensorProto.FLOAT, [0], []),
        ]
    )
    assert graph_statistics(ir.from_proto(model)).initializer_bytes == 2 + 6


def test_a_model_without_onnx_operators_has_no_opset() -> None:
    model = parse('<ir_version: 8, opset_import: ["c": 1]> g (float[2] x) => (float[2] y) { y = c.Op(x) }')
    assert graph_statistics(ir.from_proto(model)).opset is None


BRANCHES = """y = If(c) <
    then_branch = t () => (float[2] a) <float16[1] w = {1}> { a = Relu(x) },
    else_branch = e () => (float[2] b) { b = Neg(x) }>"""


@pytest.mark.parametrize(
    ("body", "half"),
    [
        ("y = Relu(x)", False),
        ("h = Cast<to = 10>(x) y = Cast<to = 1>(h)", True),
        ("k = Constant<value = float16[1] {1}>() y = Relu(x)", True),
        (BRANCHES, True),
    ],
)
def test_half_precision_is_seen_wherever_it_is(body: str, half: bool) -> None:
    model = parse(
        f'<ir_version: 8, opset_import: ["": 13]> g (bool c, float[2] x) => (float[2] y) {{ {body} }}'
    )
    assert graph_statistics(ir.from_proto(model)).half_precision is half


def test_any_model_can_be_counted() -> None:
    assert graph_statistics(ir.from_proto(rich_model())).nodes > 0


def test_statistics_are_frozen_and_strict() -> None:
    found = graph_statistics(ir.from_proto(rich_model()))
    assert GraphStatistics.model_validate_json(found.model_dump_json()) == found
    with pytest.raises(ValidationError):
        found.nodes = 3
