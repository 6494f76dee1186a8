from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from hubpublish.errors import UnsupportedModelError
from hubpublish.model import FreshNames, node_label, opset_version, scopes, sort_topologically
from hubpublish.model.scopes import always_given, bodies, graph_attributes
from tests.models.build import assert_runs_same, nodes, parse, random_feeds, rewrite

NESTED = """<ir_version: 8, opset_import: ["": 13, "local": 1]>
    g (int64 n, bool c, float[2] x) => (float[2] y) {
        [call] h = local.Block(n, c, x)
        [loop] y = Loop(n, c, h) <body = body (int64 i, bool ci, float[2] v) => (bool co, float[2] w) {
            co = Identity(ci)
            [inner] w = If(ci) <then_branch = t () => (float[2] a) { [same] a = Relu(v) },
                                else_branch = e () => (float[2] a) { [same] a = Neg(v) }>
        }>
    }
    <domain: "local", opset_import: ["": 12]> Block (n, c, x) => (y) {
        [loop] y = Loop(n, c, x) <body = body (int64 i, bool ci, float[2] v) => (bool co, float[2] w) {
            co = Identity(ci)
            w = If(ci) <then_branch = t () => (float[2] a) { a = Relu(v) },
                        else_branch = e () => (float[2] a) { a = Neg(v) }>
        }>
    }"""


def test_every_scope_is_visited_outer_ones_first() -> None:
    found = [(scope.label, scope.opset) for scope in scopes(ir.from_proto(parse(NESTED)))]
    assert found == [
        ("main", 13),
        ("main/loop.body", 13),
        ("main/loop.body/inner.then_branch", 13),
        ("main/loop.body/inner.else_branch", 13),
        ("local::Block", 12),
        ("local::Block/loop.body", 12),
        ("local::Block/loop.body/w.then_branch", 12),
        ("local::Block/loop.body/w.else_branch", 12),
    ]


def test_scopes_know_their_function() -> None:
    found = [scope.function for scope in scopes(ir.from_proto(parse(NESTED)))]
    assert [function.name if function else None for function in found] == [None] * 4 + ["Block"] * 4


def test_lists_of_graphs_are_scopes() -> None:
    model = parse(
        '<ir_version: 8, opset_import: ["": 13, "c": 1]> g (float[2] x) => (float[2] y) { [op] y = c.Op(x) }'
    )
    bodies = [helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], []) for _ in range(2)]
    model.graph.node[0].attribute.append(helper.make_attribute("bodies", bodies))
    assert [s.label for s in scopes(ir.from_proto(model))] == [
        "main",
        "main/op.bodies[0]",
        "main/op.bodies[1]",
    ]


def test_the_graphs_inside_a_node() -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13, "l": 1]> g (bool c) => (float y) {
        y = If(c) <then_branch = t () => (float a) { a = Neg(c) }, else_branch = e () => (float b) { }> }
        <domain: "l", opset_import: ["": 13]> F <body> (c) => (y) { y = l.Op <body: graph = @body> (c) }""")
    model.graph.node[0].attribute.append(helper.make_attribute("more", [helper.make_graph([], "m", [], [])]))
    made = ir.from_proto(model)
    (node,), (function,) = made.graph, made.functions.values()
    assert [body.name for body in bodies(node)] == ["t", "e", "m"]
    assert [attribute.name for attribute in graph_attributes(node)] == ["then_branch", "else_branch", "more"]
    (reference,) = function
    assert bodies(reference) == []
    assert [attribute.name for attribute in graph_attributes(reference)] == ["body"]


def test_overloads_are_told_apart() -> None:
    model = parse("""<ir_version: 10, opset_import: ["": 13, "l": 1]>
        g (float[2] x) => (float[2] y) { y = l.F(x) }
        <domain: "l", opset_import: ["": 13]> F (a) => (b) { b = Relu(a) }""")
    twin = model.functions.add()
    twin.CopyFrom(model.functions[0])
    twin.overload = "two"
    assert [scope.label for scope in scopes(ir.from_proto(model))] == ["main", "l::F", "l::F:two"]


@pytest.mark.parametrize(
    ("node", "label"),
    [
        (helper.make_node("Split", ["x"], ["a", "b"], name="named"), "named"),
        (helper.make_node("Split", ["x"], ["a", "b"]), "a"),
        (helper.make_node("Split", ["x"], ["", "b"]), "b"),
        (helper.make_node("Split", ["x"], []), "Split"),
    ],
)
def test_a_node_goes_by_its_name_or_first_output(node: onnx.NodeProto, label: str) -> None:
    assert node_label(ir.from_proto(node)) == label


def test_the_two_spellings_of_the_domain() -> None:
    assert opset_version({"": 13}) == opset_version({"ai.onnx": 13, "custom": 2}) == 13
    assert opset_version({"custom": 13}) is None


# Order


def shuffled(text: str) -> onnx.ModelProto:
    """The model of the text, with the nodes of every scope in reverse order."""
    model = parse(text)
    for graph in (model.graph, *model.functions):
        _reverse(graph)
    return model


def _reverse(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    reverse = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(graph.node)]
    del graph.node[:]
    graph.node.extend(reverse)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _reverse(attribute.g)


def out_of_order(graph: ir.Graph) -> Iterator[str]:
    made: set[ir.Value] = {*graph.inputs, *graph.initializers.values()}
    own = {value for node in graph for value in node.outputs}
    for node in graph:
        yield from (value.name or "" for value in node.inputs if value in own and value not in made)
        made.update(node.outputs)


def test_every_scope_is_sorted() -> None:
    proto = shuffled(NESTED)
    model = ir.from_proto(proto)
    assert any(list(out_of_order(scope.graph)) for scope in scopes(model))
    assert sort_topologically(model)
    assert not any(list(out_of_order(scope.graph)) for scope in scopes(model))
    feeds = random_feeds(parse(NESTED))
    assert_runs_same(parse(NESTED), ir.to_proto(model), {**feeds, "n": np.array(3)})


def test_a_body_that_uses_a_value_made_later_outside_is_sorted_with_its_node() -> None:
    model = ir.from_proto(
        shuffled("""<ir_version: 8, opset_import: ["": 13]>
        g (bool c, float[2] x) => (float[2] y) {
            h = Relu(x)
            y = If(c) <then_branch = t () => (float[2] a) { a = Neg(h) },
                       else_branch = e () => (float[2] b) { b = Abs(h) }>
        }""")
    )
    sort_topologically(model)
    assert [node.op_type for node in model.graph] == ["Relu", "If"]


def test_a_sorted_model_is_left_as_it_is() -> None:
    model = ir.from_proto(parse(NESTED))
    before = ir.to_proto(model).SerializeToString()
    assert not sort_topologically(model)
    assert ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x) => (float[2] y) { y = Add(x, z) z = Relu(y) }",
        "g (float[2] x) => (float[2] y) { y = Add(x, y) }",
        """g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, b) b = Neg(a) },
                       else_branch = e () => (float[2] d) { d = Abs(x) }>
        }""",
        """g (bool c, float[2] x) => (float[2] y) {
            z = If(c) <then_branch = t () => (float[2] a) { a = Neg(y) },
                       else_branch = e () => (float[2] d) { d = Abs(x) }>
            y = Relu(z)
        }""",
        """g (float[2] x) => (float[2] y) { y = local.F(x) }
        <domain: "local", opset_import: ["": 13]> F (a) => (b) { b = Add(a, c) c = Relu(b) }""",
    ],
    ids=["two nodes", "itself", "in a body", "through a body", "in a function"],
)
def test_a_cycle_is_refused(text: str) -> None:
    model = ir.from_proto(parse(f'<ir_version: 8, opset_import: ["": 13, "local": 1]> {text}'))
    with pytest.raises(UnsupportedModelError, match="cycle") as caught:
        sort_topologically(model)
    assert caught.value.hint


def graph_given_by_the_caller() -> onnx.ModelProto:
    """A function whose If takes its branches from attributes of the call."""
    model = parse("""<ir_version: 8, opset_import: ["": 13, "local": 1]>
        g (bool c, float[2] x) => (float[2] y) { y = local.F(c, x) }
        <domain: "local", opset_import: ["": 13]> F <then, other> (c, x) => (y) {
            [late] y = Add(h, s) [if] h = If(c) [early] s = Sum(x, x, x)
        }""")
    node = model.functions[0].node[1]
    for name, referred in (("then_branch", "then"), ("else_branch", "other")):
        node.attribute.add(
            name=name, ref_attr_name=referred, type=onnx.AttributeProto.GRAPH, doc_string="kept"
        )
        value = helper.make_tensor("k", onnx.TensorProto.FLOAT, [2], [1, 2])
        body = helper.make_graph(
            [helper.make_node("Constant", [], ["k"], value=value)],
            "b",
            [],
            [helper.make_tensor_value_info("k", onnx.TensorProto.FLOAT, [2])],
        )
        model.graph.node[0].attribute.append(helper.make_attribute(referred, body))
    return model


def test_graphs_that_a_caller_gives_are_no_obstacle_to_sorting() -> None:
    proto = graph_given_by_the_caller()
    result = rewrite(proto)
    model = ir.from_proto(proto)
    sort_topologically(model)
    function = next(iter(model.functions.values()))
    assert [node.name for node in function] == ["if", "early", "late"]
    assert list(nodes(result.model, "If")[0].attribute) == list(proto.functions[0].node[1].attribute)
    assert [attribute.name for attribute in function[0].attributes.values()] == ["then_branch", "else_branch"]


# Names


def test_fresh_names_are_free_in_every_scope() -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13, "local": 1]>
        g (bool c, float[2] n_0, float n_1) => (float[2] y) <float n_2 = {1}> {
            [n_3] y = If(c) <then_branch = t () => (float[2] n_4) { n_4 = Neg(n_0) },
                             else_branch = e () => (float[2] b) <float n_5 = {1}> { [n_6] b = Abs(n_0) }>
            z, n_13 = local.F(y)
        }
        <domain: "local", opset_import: ["": 13]> F (n_7) => (n_8, n_14)
        { n_8 = Relu(n_7) n_14 = Neg(n_7) }""")
    model.graph.node[1].input[0] = "n_9"  # nobody makes it
    names = FreshNames(ir.from_proto(model))
    assert [names.fresh("n") for _ in range(3)] == ["n_10", "n_11", "n_12"]
    assert [names.fresh("m") for _ in range(2)] == ["m_0", "m_1"]
    assert names.fresh("n") == "n_15"


def test_a_fresh_name_is_not_one_of_another_base() -> None:
    names = FreshNames(ir.from_proto(parse(NESTED)))
    assert names.fresh("n_1") == "n_1_0"
    assert names.fresh("n") == "n_0"
    assert names.fresh("n_1") == "n_1_1"


# Attributes of functions


@pytest.mark.parametrize(
    ("call", "declared", "given"),
    [
        ("l.F<ax = 1>(x)", "<ax>", True),
        ("l.F(x)", "<ax>", False),
        ("l.F(x)", "<ax: int = 1>", True),
        ("l.G<ax = 1>(x)", "<ax>", False),  # G passes its own on, which its callers may leave out
    ],
)
def test_whether_an_attribute_is_always_given(call: str, declared: str, given: bool) -> None:
    model = ir.from_proto(
        parse(f"""<ir_version: 8, opset_import: ["": 13, "l": 1]>
        g (float[2,2] x) => (float[2,2] y) {{ y = {call} z = l.F<ax = 0>(x) }}
        <domain: "l", opset_import: ["": 13]> F {declared} (a) => (b) {{ b = Softmax<axis: int = @ax>(a) }}
        <domain: "l", opset_import: ["": 13, "l": 1]> G <ax> (a) => (b)
        {{ b = l.{"F" if "G" in call else "H"}<ax: int = @ax>(a) }}
        <domain: "l", opset_import: ["": 13, "l": 1]> H <ax> (a) => (b) {{ b = Relu(a) }}""")
    )
    assert always_given("ax", model.functions["l", "F", ""], model) is given
