"""What is certain of a value, and above all: which claims prove nothing."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from hubpublish.passes.proofs.certain import Certain, Dims
from hubpublish.passes.proofs.facts import Proofs
from tests.models.build import parse


def certain(text: str | onnx.ModelProto, name: str = "y") -> Certain:
    """What is certain of the value called ``name``, in whichever scope it is."""
    model = ir.from_proto(parse(text) if isinstance(text, str) else text)
    graphs = [*model.graphs(), *(function.graph for function in model.functions.values())]
    (value,) = {
        value
        for graph in graphs
        for node in ir.traversal.RecursiveGraphIterator(graph)
        for value in node.outputs
        if value.name == name
    }
    return Proofs(model).of(value)


def shape(text: str, name: str = "y") -> Dims | None:
    return certain(text, name).shape


def graph(body: str, inputs: str = "float[2,3] x", initializers: str = "", opset: int = 17) -> str:
    return f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1]>
    g ({inputs}) => (float[A, B] y) <{initializers}> {{ {body} }}"""


def test_lengths_of_inputs_are_enforced_by_the_runtime() -> None:
    assert shape(graph("y = Relu(x)")) == (2, 3)


def test_negative_lengths_are_free() -> None:
    model = parse(graph("y = Relu(x)"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -2
    assert certain(model).shape == (None, 3)


@pytest.mark.parametrize(
    "node",
    [
        "MaxPool<kernel_shape=[1], auto_pad=3>(x)",
        'MaxPool<kernel_shape=[1], ceil_mode="x">(x)',
        "Resize<coordinate_transformation_mode=1>(x, , s)",
        'Shape<start="x">(x)',
        'Cast<to="x">(x)',
        "Cast<to=99>(x)",
        "Where(x)",
        "Relu<alpha=1>(x)",
        "PRelu(x)",
        "Slice(x, s)",
        "Einsum(x)",
    ],
)
def test_of_nodes_that_no_runtime_takes_nothing_is_certain(node: str) -> None:
    found = certain(graph(f"y = {node}", initializers="float[2] s = {1, 1}"))
    assert found.dtype is None
    assert found.values is None
    assert found.shape is None or "99" in node


def test_names_of_lengths_are_not() -> None:
    assert shape(graph("y = Relu(x)", "float[N, 3] x")) == (None, 3)
    assert shape(graph("y = Add(x, z)", "float[N, 1] x, float[N, M] z")) == (None, None)


def test_input_without_shape() -> None:
    assert shape(graph("y = Relu(x)", "float x")) in (None, ())
    model = parse(graph("y = Relu(x)"))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert certain(model).shape is None


def test_value_info_is_a_claim() -> None:
    text = graph("t = Reshape(x, s)  y = Relu(t)", "float[N] x, int64[2] s", "float[7, 7] t, float[7, 7] y")
    assert shape(text) == (None, None)


def test_declared_outputs_are_a_claim() -> None:
    text = graph("y = NonZero(x)").replace("float[A, B] y", "int64[2, 5] y")
    assert shape(text) in (None, (2, None))


def test_nodes_of_other_domains_are_not_known() -> None:
    assert shape(graph("t = other.Relu(x)  y = Relu(t)", initializers="float[2, 3] t")) is None


def test_outputs_of_bodies_are_a_claim() -> None:
    branches = """then_branch = a () => (float[2,3] p) { p = Relu(u) },
    else_branch = b () => (float[2,3] q) { q = Relu(u) }"""
    text = graph(f"u = Reshape(x, s)  y = If(c) <{branches}>", "float[N] x, bool c, int64[2] s")
    assert shape(text) is None
    assert shape(text, "p") == (None, None)


def test_bodies_see_what_is_certain_around_them() -> None:
    branches = (
        "then_branch = a () => (float p) { p = Relu(x) }, else_branch = b () => (float q) { q = Exp(x) }"
    )
    assert shape(graph(f"y = If(c) <{branches}>", "float[2,3] x, bool c"), "p") == (2, 3)


def test_inputs_of_bodies_are_a_claim() -> None:
    body = """body = b (int64 i, bool k, float[2,3] state) => (bool kk, float[2,3] next) {
        kk = Identity(k)  next = Relu(state)
    }"""
    text = graph(f"y = Loop(n, c, x) <{body}>", "float[N, 3] x, int64 n, bool c")
    assert shape(text, "next") is None


def test_inputs_and_attributes_of_functions_are_the_callers() -> None:
    text = """<ir_version: 10, opset_import: ["": 17, "local": 1]>
    g (float[2,3] x) => (float[A,B] y) { y = local.f<axis=1>(x) }
    <domain: "local", opset_import: ["": 17]>
    f <axis> (a) => (e) {
        b = Relu(a)
        k = Constant<value = int64[4] {4, 1, 1, 2}>()
        d = Reshape(a, k)
        e = Concat<axis: int = @axis>(d, d)
        m = Relu(d)
    }"""
    assert shape(text, "b") is None
    assert shape(text, "m") == (4, 1, 1, 2)
    assert shape(text, "e") is None
    assert shape(text, "y") is None


def test_an_attribute_of_the_function_is_not_its_default() -> None:
    text = """<ir_version: 10, opset_import: ["": 17, "local": 1]>
    g (float[2,3] x) => (float[A,B] y) { y = local.f<perm=[1,0,2]>(x) }
    <domain: "local", opset_import: ["": 17]>
    f <perm> (a) => (e) {
        k = Constant<value = int64[3] {1, 2, 3}>()
        b = Reshape(a, k)
        e = Transpose<perm: ints = @perm>(b)
    }"""
    assert shape(text, "b") == (1, 2, 3)
    assert shape(text, "e") is None


def test_a_function_that_takes_an_operators_name_is_not_the_operator() -> None:
    text = """<ir_version: 10, opset_import: ["": 17]>
    g (float[2,3] x) => (float[A,B] y) { y = Relu(x) }
    <domain: "", opset_import: ["": 17]>
    Relu (a) => (b) { b = NonZero(a) }"""
    assert shape(text) is None


def test_initializers_and_constants() -> None:
    assert shape(graph("y = Reshape(x, s)", "float[N] x", "int64[2] s = {2, 3}")) == (2, 3)
    assert shape(graph("s = Constant<value_ints=[2,3]>()  y = Reshape(x, s)", "float[N] x")) == (2, 3)
    assert shape(graph("s = Constant<value=int64[2] {2,3}>()  t = Identity(s)  y = Reshape(x, t)")) == (2, 3)


def test_an_initializer_that_a_caller_may_override_has_only_its_shape() -> None:
    text = graph("y = Reshape(x, s)", "float[N] x, int64[2] s = {2, 3}")
    assert shape(text) == (None, None)
    assert shape(graph("t = Identity(s)  y = Shape(t)", "int64[2] s = {2, 3}")) == (1,)
    assert certain(graph("y = Identity(s)", "int64[2] s = {2, 3}")).values is None


def test_large_constants_are_not_read() -> None:
    for length, read in ((5000, False), (5, True)):
        model = parse(graph("y = Identity(w)"))
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(length, np.float32), "w"))
        loaded = ir.from_proto(model)
        known = Proofs(loaded).of(loaded.graph.initializers["w"])
        assert known.shape == (length,)
        assert (known.values is not None) == read


def test_shapes_that_the_graph_computes() -> None:
    text = graph(
        """
        s = Shape(x)
        h = Gather(s, one)  w = Gather(s, two)
        half = Div(h, two)
        a = Unsqueeze(half, zero)  b = Unsqueeze(w, zero)  c = Concat<axis=0>(minus, b, a)
        y = Reshape(x, c)
        """,
        "float[3, 8, 5] x",
        "int64 one = {1}, int64 two = {2}, int64[1] zero = {0}, int64[1] minus = {-1}",
    )
    assert shape(text) == (6, 5, 4)


def test_pads_as_the_exporter_computes_them() -> None:
    text = graph(
        """
        zeros = ConstantOfShape<value=int64[1] {0}>(four)
        all = Concat<axis=0>(given, zeros)
        pairs = Reshape(all, rows)
        back = Slice(pairs, last, far, first, last)
        across = Transpose<perm=[1,0]>(back)
        flat = Reshape(across, last)
        pads = Cast<to=7>(flat)
        y = Pad<mode="constant">(x, pads)
        """,
        "float[1, 2, 5, 7] x",
        """int64[1] four = {4}, int64[4] given = {1, 2, 3, 4}, int64[2] rows = {-1, 2}, int64[1] last = {-1},
        int64[1] far = {-9223372036854775807}, int64[1] first = {0}""",
    )
    assert shape(text) == (1, 2, 5 + 3 + 4, 7 + 1 + 2)


def test_expand_as_the_exporter_computes_it() -> None:
    text = graph(
        """
        ones = ConstantOfShape<value=int64[1] {1}>(two)
        scaled = Mul(ones, minus)
        same = Equal(target, scaled)
        lengths = Where(same, ones, target)
        y = Expand(x, lengths)
        """,
        "float[1, 3] x",
        "int64[1] two = {2}, int64 minus = {-1}, int64[2] target = {4, -1}",
    )
    assert shape(text) == (4, 3)


@pytest.mark.parametrize("first", ["x", "t", "y"])
def test_what_is_certain_does_not_depend_on_what_was_asked_before(first: str) -> None:
    text = graph("t = Relu(x)  y = Reshape(t, s)", "float16[4096] x", "int64[2] s = {64, 64}")
    model = ir.from_proto(parse(text))
    values = {
        value.name: value for value in (*model.graph.inputs, *(node.outputs[0] for node in model.graph))
    }
    proofs = Proofs(model)
    proofs.of(values[first])
    known = proofs.of(values["y"])
    assert (known.dtype, known.shape) == (ir.DataType.FLOAT16, (64, 64))


def test_a_reshape_to_given_lengths_needs_no_input() -> None:
    text = graph(
        "t = other.Op(x)  u = Reshape(t, s)  y = Add(u, h)",
        "float[N] x, float16[1] h",
        "int64[2] s = {40, 50}",
    )
    known = certain(text)
    assert known.shape == (40, 50)
    # Add takes equal dtypes, so that of the Reshape is known, too.
    assert known.dtype == ir.DataType.FLOAT16


@pytest.mark.parametrize("target", ["{40, -1}", "{0, 50}", "{40, 0}"])
def test_a_reshape_that_copies_or_fits_does(target: str) -> None:
    text = graph("t = Relu(x)  y = Reshape(t, s)", "float[40, 50] x", f"int64[2] s = {target}")
    assert None not in (shape(text) or (None,))
    assert None in (shape(text.replace("float[40, 50] x", "float[N, M] x")) or (None,))


def test_chains_longer_than_the_stack_is_deep() -> None:
    body = "t0 = Relu(x)" + "".join(f" t{i + 1} = Relu(t{i})" for i in range(3000)) + " y = Relu(t3000)"
    assert shape(graph(body)) == (2, 3)


def test_branches_that_meet_again_are_worked_out_once() -> None:
    body = "t0 = Relu(x)" + "".join(f" t{i + 1} = Add(t{i}, t{i})" for i in range(200)) + " y = Relu(t200)"
    assert shape(graph(body)) == (2, 3)


@pytest.mark.parametrize("opset", [12, 13, 17, 21, 25])
def test_opsets(opset: int) -> None:
    axes = "t = Unsqueeze<axes=[0]>(x)" if opset < 13 else "t = Unsqueeze(x, zero)"
    assert shape(graph(f"{axes}  y = Relu(t)", initializers="int64[1] zero = {0}", opset=opset)) == (1, 2, 3)


def test_a_version_of_the_operators_that_is_not_known() -> None:
    assert shape(graph("y = Relu(x)", opset=999)) is None


def test_nodes_that_are_not_valid() -> None:
    assert shape(graph("y = Conv(x)")) is None
    assert shape(graph("y = Transpose<perm=[0,1,2]>(x)")) is None
    assert shape(graph("y = Add(x, k)", initializers="int64 k = {1}")) is None
