from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from hubpublish.model.dead import remove_dead
from tests.models.build import parse


def after(text: str, *doomed: str) -> onnx.GraphProto:
    """The graph without what is dead of the nodes that make these values."""
    model = ir.from_proto(parse(f'<ir_version: 8, opset_import: ["": 17]> {text}'))
    graphs = [model.graph]
    for node in model.graph:
        graphs += [
            each.as_graph() for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH
        ]
    nodes = [node for graph in graphs for node in graph if node.outputs[0].name in doomed]
    assert len(nodes) == len(doomed)
    before = sum(len(graph) for graph in graphs)
    removed = remove_dead(nodes)
    assert removed == before - sum(len(graph) for graph in graphs)
    return ir.to_proto(model).graph


def ops(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def test_what_only_they_used_goes_with_them() -> None:
    graph = after(
        """g (float[2] x) => (float[2] y) <int64[1] axes = {0}> {
            k = Constant<value_ints = [0]>() k2 = Identity(k) u = Unsqueeze(x, axes) s = Squeeze(u, k2)
            y = Neg(x) }""",
        *("u", "s"),
    )
    assert ops(graph) == ["Neg"]
    assert not graph.initializer


def test_the_order_in_which_they_are_given_does_not_matter() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) c = Add(b, b) y = Abs(x) }"
    assert ops(after(text, "a", "b", "c")) == ["Abs"]
    assert ops(after(text, "c")) == ["Neg", "Neg", "Abs"]  # others are not for this to judge


@pytest.mark.parametrize("use", ["y = Add(x, u)", "u2 = Neg(u) y = Abs(x)"])
def test_what_is_used_stays(use: str) -> None:
    text = f"g (float[1,2] x) => (float y) <int64[1] axes = {{0}}> {{ u = Unsqueeze(x, axes) {use} }}"
    graph = after(text, "u")
    assert "Unsqueeze" in ops(graph)
    assert len(graph.initializer) == 1


def test_one_used_output_is_a_use_of_the_node() -> None:
    text = "g (float[4] x) => (float[2] y) { a, b = Split<axis = 0>(x) y = Neg(b) }"
    assert ops(after(text, "a")) == ["Split", "Neg"]


def test_an_output_of_the_graph_is_a_use() -> None:
    text = "g (float[4] x) => (float[2] y, float[2] b) { a, b = Split<axis = 0>(x) y = Neg(b) }"
    assert ops(after(text, "a")) == ["Split", "Neg"]


def test_what_a_body_uses_is_used() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        a = Neg(x) k = Constant<value_floats = [1.0, 2.0]>() b = Add(x, k)
        y = If(c) <then_branch = t () => (float[2] p) { p = Abs(a) },
                   else_branch = e () => (float[2] q) { r = Abs(k) q = Abs(x) }> }"""
    assert ops(after(text, "a", "b")) == ["Neg", "Constant", "If"]
    assert ops(after(text, "a", "b", "r")) == ["Neg", "If"]


def test_a_node_with_a_body_stays() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        a = If(c) <then_branch = t () => (float[2] p) { p = Abs(x) },
                   else_branch = e () => (float[2] q) { q = Neg(x) }>
        y = Neg(x) }"""
    assert ops(after(text, "a")) == ["If", "Neg"]


def test_shared_constants_stay_as_long_as_one_use_is_left() -> None:
    text = """g (float[2] x) => (float[1,2] y) <int64[1] axes = {0}> {
        a = Unsqueeze(x, axes) b = Unsqueeze(x, axes) y = Unsqueeze(x, axes) }"""
    graph = after(text, "a", "b")
    assert ops(graph) == ["Unsqueeze"]
    assert [each.name for each in graph.initializer] == ["axes"]


def test_an_initializer_that_is_an_input_stays() -> None:
    graph = after(
        "g (float[2] x, int64[1] axes = {0}) => (float[2] y) { a = Unsqueeze(x, axes) y = Neg(x) }", "a"
    )
    assert ops(graph) == ["Neg"]
    assert [each.name for each in graph.initializer] == ["axes"]
    assert [each.name for each in graph.input] == ["x", "axes"]


def test_an_initializer_that_an_annotation_names_stays() -> None:
    model = parse(
        """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) <int64[1] axes = {0}>
        { a = Unsqueeze(x, axes) y = Neg(x) }"""
    )
    annotation = model.graph.quantization_annotation.add(tensor_name="y")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="axes")
    found = ir.from_proto(model)
    assert remove_dead([found.graph[0]]) == 1
    assert list(found.graph.initializers) == ["axes"]


def test_what_may_fail_and_was_not_given_stays() -> None:
    text = """g (float[M] x, float[N] z) => (float y) {
        m = MatMul(x, z) s = Shape(m) f = ConstantOfShape(s) y = Neg(x) }"""
    assert ops(after(text, "f")) == ["MatMul", "Shape", "Neg"]


def test_nothing_to_remove() -> None:
    assert remove_dead([]) == 0
