"""Which types a value may have: followed through scopes, and only where something is certain."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from tests.models.build import parse

FLOAT = frozenset({"tensor(float)"})
INT64 = frozenset({"tensor(int64)"})
STRING = frozenset({"tensor(string)"})

INPUTS = "float[2] x, int64[2] i, string[2] s, bool c, int64 n"


def types_of(body: str, functions: str = "", name: str = "y") -> tuple[Types, ir.Value]:
    model = ir.from_proto(
        parse(f"""<ir_version: 10, opset_import: ["": 17, "other": 1, "local": 1]>
        g ({INPUTS}) => (float[A] y) {{ {body} }} {functions}""")
    )
    graphs = [*model.graphs(), *(function.graph for function in model.functions.values())]
    (value,) = {
        value
        for graph in graphs
        for node in ir.traversal.RecursiveGraphIterator(graph)
        for value in node.outputs
        if value.name == name
    }
    return Types(model, Proofs(model)), value


LOOP = """body = b (int64 k, bool d, float v) => (bool e, float w, float scan) {
    e = Identity(d)  w = Identity(v)  scan = Identity(STATE) }"""
SCAN = """num_scan_inputs=1, body = b (float v, float a) => (float w, float z) {
    w = Identity(v)  z = Cast<to=7>(a) }"""
BRANCHES = """then_branch = a () => (float p) { p = Identity(i) },
    else_branch = b () => (float q) { q = Identity(i) }"""

INTEGERS = [
    ("y = Identity(i)", ""),
    ("y = Cast<to=7>(x)", ""),
    ("y = Shape(s)", ""),
    ("t = Shape(x)  u = Identity(t)  y = Reshape(u, t)", ""),
    ("y = Constant<value_ints=[1]>()", ""),
    ("t, y = TopK(x, n)", ""),
    (f"y = If(c) <{BRANCHES}>", ""),
    (f"y, t = Loop(n, c, i) <{LOOP.replace('STATE', 'v')}>", ""),
    (f"t, y = Loop(n, c, x) <{LOOP.replace('STATE', 'k')}>", ""),
    (f"t, y = Loop(n, c, i) <{LOOP.replace('STATE', 'v')}>", ""),
    (f"t, y = Scan(i, x) <{SCAN}>", ""),
    (f"y, t = Scan(i, x) <{SCAN}>", ""),
]


@pytest.mark.parametrize(("body", "functions"), INTEGERS)
def test_integers_are_found(body: str, functions: str) -> None:
    types, value = types_of(body, functions)
    assert types.other_than(value, FLOAT)
    assert not types.other_than(value, INT64)
    assert types.never(value, STRING)
    assert not types.never(value, INT64)


@pytest.mark.parametrize(
    "body",
    [
        "y = other.Relu(x)",
        "y = local.f(x)",
        "t = Cast<to=99>(x)  y = Identity(t)",
        "y = SequenceAt(t, n)",
    ],
)
def test_what_is_not_known_is_neither(body: str) -> None:
    function = """<domain: "local", opset_import: ["": 17]> f (a) => (b) { b = Identity(a) }"""
    types, value = types_of(body, function)
    for names in (FLOAT, INT64, STRING):
        assert not types.other_than(value, names)
        assert not types.never(value, names)


def test_inputs_of_functions_are_what_is_given() -> None:
    function = (
        """<domain: "local", opset_import: ["": 17]> f (a) => (b) { r = Identity(a)  b = Identity(r) }"""
    )
    types, value = types_of("y = local.f(i)", function, "r")
    assert types.other_than(value, FLOAT)
    types, value = types_of("t = local.f(i)  y = local.f(x)", function, "r")
    assert types.other_than(value, FLOAT)
    assert types.never(value, STRING)
    types, value = types_of("t = local.f(s)  y = local.f(x)", function, "r")
    assert not types.never(value, STRING)
    types, value = types_of("t = local.f()  y = local.f(x)", function, "r")
    assert not types.never(value, STRING)


def test_strings_are_never_overlooked() -> None:
    for body in ("y = Identity(s)", "t = Concat<axis=0>(s, s)  y = Reshape(t, i)"):
        types, value = types_of(body)
        assert not types.never(value, STRING)
    types, value = types_of("t = other.Text(x)  y = Relu(t)")
    assert types.never(value, STRING)


def test_a_declared_type_is_a_claim() -> None:
    types, value = types_of("y = other.Any(x)")
    assert not types.other_than(value, INT64)
