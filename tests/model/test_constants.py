from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from hubpublish.model import constant_of
from hubpublish.model.constants import behind_identities, constant_tensor_of, is_onnx
from tests.models.build import parse


def constant(body: str, *, inputs: str = "float x", initializers: str = "", ir_version: int = 8) -> object:
    """What is constant of the value ``k`` of a graph with this body, as a list."""
    model = ir.from_proto(
        parse(f"""<ir_version: {ir_version}, opset_import: ["": 13, "c": 1]>
        g ({inputs}) => (int64[n] k) {f"<{initializers}>" if initializers else ""} {{ {body} }}""")
    )
    found = constant_of(model.graph.outputs[0])
    return None if found is None else (str(found.dtype), found.tolist())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("k = Constant<value = int64[2] {1, 2}>()", ("int64", [1, 2])),
        ("k = Constant<value = int32[2] {1, 2}>()", ("int32", [1, 2])),
        ("k = Constant<value = int64 {3}>()", ("int64", 3)),
        ("k = Constant<value_int = 3>()", ("int64", 3)),
        ("k = Constant<value_ints = [3, -1]>()", ("int64", [3, -1])),
        ("k = Constant<value_ints: ints = []>()", ("int64", [])),
        ("k = Constant<value_float = 0.5>()", ("float32", 0.5)),
        ("k = Constant<value_floats = [0.5, 2.0]>()", ("float32", [0.5, 2.0])),
        ("a = Constant<value_int = 3>() b = Identity(a) k = Identity(b)", ("int64", 3)),
        ('k = Constant<value_string = "s">()', None),
        ('k = Constant<value_strings = ["s"]>()', None),
        ('k = Constant<value = string[1] {"s"}>()', None),
        ("k = Constant()", None),
        ("k = Constant<value_int = 1, value_ints = [1]>()", None),
        ("k = Constant<value = 1.5>()", None),
        ("k = Constant<value_int = 1.5>()", None),
        ("k = Constant<value_ints = 3>()", None),
        ('k = Constant<value_float = "s">()', None),
        ("k, l = Constant<value_int = 3>()", None),
        ("k = c.Constant<value_int = 3>()", None),
        ("a = Constant<value_int = 3>() k = c.Identity(a)", None),
        ("a = Constant<value_int = 3>() k = Neg(a)", None),
        ("k = Shape(x)", None),
        ("k = Identity(nobody)", None),
    ],
)
def test_forms_of_constants(body: str, expected: object) -> None:
    assert constant(body) == expected


def test_initializers_are_constant_unless_a_caller_may_override_them() -> None:
    assert constant("k = Identity(w)", initializers="int64[1] w = {4}") == ("int64", [4])
    for ir_version in (3, 4, 8):  # in IR version 3 every initializer is an input
        text = {"inputs": "int64[1] w = {4}", "ir_version": ir_version}
        assert constant("k = Identity(w)", **text) is None  # type: ignore[arg-type]


def test_an_initializer_may_be_an_output_itself() -> None:
    assert constant("z = Neg(x)", initializers="int64[1] k = {4}") == ("int64", [4])


def test_an_attribute_that_the_caller_of_a_function_gives_is_not_constant() -> None:
    model = ir.from_proto(
        parse("""<ir_version: 8, opset_import: ["": 13, "l": 1]>
        g (float x) => (float y) { y = l.F<v = 1>(x) }
        <domain: "l", opset_import: ["": 13]> F <v> (a) => (b) { b = Constant<value_int: int = @v>() }""")
    )
    assert constant_of(model.functions["l", "F", ""].outputs[0]) is None


def test_inputs_of_bodies_and_functions_are_not_constant() -> None:
    model = ir.from_proto(
        parse("""<ir_version: 8, opset_import: ["": 13, "l": 1]>
        g (int64 n, bool c) => (float y) { y = l.F(n) z = Loop(n, c) <body = b (int64 i, bool ci) => (bool co)
            { co = Identity(ci) }> }
        <domain: "l", opset_import: ["": 13]> F (a) => (b) { b = Relu(a) }""")
    )
    body = model.graph[1].attributes["body"].as_graph()
    for value in (*body.inputs, *model.functions["l", "F", ""].inputs, *model.graph.inputs):
        assert constant_of(value) is None
    assert constant_of(None) is None


def test_a_constant_of_an_outer_scope_is_constant_in_a_body_where_no_other_has_its_name() -> None:
    model = ir.from_proto(
        parse("""<ir_version: 8, opset_import: ["": 13]>
        g (bool c) => (int64 y) <int64 w = {7}> {
            v = Constant<value_int = 5>()
            y = If(c) <then_branch = t () => (int64 a) { a = Add(v, w) },
                       else_branch = e () => (int64 b) <int64 w = {8}> { b = Add(w, w) }>
        }""")
    )
    branches = [attribute.as_graph() for attribute in model.graph[1].attributes.values()]
    values = [[constant_of(value) for value in branch[0].inputs] for branch in branches]
    assert [[int(each) for each in row if each is not None] for row in values] == [[5, 7], [8, 8]]


def test_a_ring_of_identities_ends() -> None:
    model = ir.from_proto(
        parse("""<ir_version: 8, opset_import: ["": 13]> g (float x) => (float a)
        { a = Identity(b) b = Identity(a) }""")
    )
    assert behind_identities(model.graph.outputs[0]) is None
    assert constant_of(model.graph.outputs[0]) is None


def test_the_tensor_is_given_without_its_data_being_read() -> None:
    value = ir.Value(name="w")
    tensor = ir.ExternalTensor("nowhere", 0, 8, ir.DataType.INT64, shape=ir.Shape([1]), name="w")
    ir.Graph([], [], nodes=[], initializers=[value])
    value.const_value = tensor
    assert constant_tensor_of(value) is tensor


def test_is_onnx_sees_the_domain() -> None:
    assert is_onnx(ir.Node("", "Add", []), "Sub", "Add")
    assert is_onnx(ir.Node("ai.onnx", "Add", []), "Add")
    assert not is_onnx(ir.Node("c", "Add", []), "Add")
    assert not is_onnx(None, "Add")
    assert np.dtype("int64") == constant_of_dtype()


def constant_of_dtype() -> np.dtype[np.generic]:
    node = ir.Node("", "Constant", [], [ir.AttrInt64("value_int", 1)], outputs=[ir.Value(name="k")])
    found = constant_of(node.outputs[0])
    assert found is not None
    return found.dtype
