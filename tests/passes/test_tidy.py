"""The passes that run only where they are named: remove_unused, dedupe_initializers, lift_constants, sort."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hubpublish.passes import PASSES, RewritePass
from hubpublish.passes.dedupe_initializers import DedupeInitializers
from hubpublish.passes.lift_constants import LiftConstants, LiftConstantsOptions
from hubpublish.passes.remove_unused import RemoveUnused
from hubpublish.passes.sort_topologically import SortTopologically
from tests.models.build import (
    Failure,
    Rewrite,
    assert_runs_same,
    graphs,
    nodes,
    op_counts,
    parse,
    random_feeds,
    random_values,
    rewrite,
    run,
)

LEVELS: Any = ("disabled", "default")
EVERY: list[RewritePass[Any]] = [
    RemoveUnused(),
    DedupeInitializers(),
    SortTopologically(),
    LiftConstants(LiftConstantsOptions(min_elements=0)),
]
HEAD = '<ir_version: 8, opset_import: ["": 17, "other": 1, "local": 1]>'


def text(
    body: str,
    inputs: str = "float[3] x",
    constants: str = "",
    output: str = "float[N] y",
    functions: str = "",
) -> str:
    return f"{HEAD} g ({inputs}) => ({output}) <{constants}> {{ {body} }} {functions}"


def tidied(model: onnx.ModelProto | str, each: RewritePass[Any], **feeds: Any) -> Rewrite:
    """The model after the pass, which must compute the same, and be left as it is by a second run."""
    model = parse(model) if isinstance(model, str) else model
    result = rewrite(model, each)
    for level in LEVELS:
        assert_runs_same(model, result.model, {**random_feeds(model), **feeds}, level)
    again = rewrite(result.model, each)
    assert not again.rewritten
    assert again.model.SerializeToString() == result.model.SerializeToString()
    assert [value.name for value in result.model.graph.output] == [value.name for value in model.graph.output]
    return result


def initializers(model: onnx.ModelProto) -> list[str]:
    return [
        tensor.name
        for graph in graphs(model)
        if isinstance(graph, onnx.GraphProto)
        for tensor in graph.initializer
    ]


def annotate(model: onnx.ModelProto, tensor: str, scale: str) -> None:
    model.graph.quantization_annotation.add(
        tensor_name=tensor,
        quant_parameter_tensor_names=[onnx.StringStringEntryProto(key="SCALE_TENSOR", value=scale)],
    )


@pytest.mark.parametrize(
    "name", ["remove_unused", "dedupe_initializers", "sort_topologically", "lift_constants"]
)
def test_they_are_exact_and_run_only_where_they_are_named(name: str) -> None:
    assert PASSES[name].exact
    assert not PASSES[name].by_default
    assert not PASSES[name].shrinks
    assert PASSES["int32_indices"].by_default


@pytest.mark.parametrize("name", ["fold_constants", "compress_constants"])
def test_those_that_make_files_smaller_run_where_they_are_named_and_in_auto(name: str) -> None:
    assert not PASSES[name].by_default
    assert PASSES[name].shrinks


@pytest.mark.parametrize("each", EVERY, ids=lambda each: str(each.name))
def test_a_model_that_is_tidy_is_left_as_it_is(each: RewritePass[Any]) -> None:
    model = parse(text("z = Add(x, k)  y = Relu(z)", constants="float[3] k = {1, 2, 3}"))
    result = tidied(model, each)
    assert not result.outcomes[0].modified
    assert result.model.SerializeToString() == rewrite(model).model.SerializeToString()


# remove_unused


def test_nodes_and_initializers_without_use_go() -> None:
    body = "a = Neg(x)  b = Abs(a)  p, q = Split<axis=0>(x)  y = Relu(x)"
    result = tidied(text(body, "float[4] x", "float[3] k = {1, 2, 3}"), RemoveUnused())
    assert op_counts(result.model) == {"Relu": 1}
    assert initializers(result.model) == []
    done = [(each.node, each.op, each.scope, each.into) for each in result.outcomes[0].rewritten]
    assert done == [
        ("p", "Split", "main", {}), ("b", "Abs", "main", {}), ("a", "Neg", "main", {}),
        ("k", "initializer", "main", {}),
    ]  # fmt: skip


def test_what_is_used_in_any_way_stays() -> None:
    branches = """then_branch = t () => (float[N] p) { p = Add(a, k) },
    else_branch = e () => (float[N] q) { dead = Neg(b)  q = Identity(x) }"""
    body = f"""a = Neg(x)  b = Abs(x)  m, i = MaxPool<kernel_shape=[1]>(u)  v = Squeeze(m)
    w = If(c) <{branches}>  y = Add(w, v)"""
    model = parse(text(body, "float[3] x, float[1,1,3] u, bool c", "float[3] k = {1, 2, 3}"))
    result = tidied(model, RemoveUnused(), c=np.array(True))
    # What only the unused node of the branch took is unused, too.
    assert [each.node for each in result.outcomes[0].rewritten] == ["dead", "b"]
    assert result.outcomes[0].rewritten[0].scope == "main/w.else_branch"
    assert [list(node.output) for node in nodes(result.model, "MaxPool")] == [["m", "i"]]


def test_indices_that_nobody_takes_decide_about_nan() -> None:
    """Why optional outputs stay."""
    body = "y, i = MaxPool<kernel_shape=[2,2]>(x)"
    model = parse(text(body, "float[1,1,4,4] x", output="float[A,B,C,D] y"))
    nan = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    nan[0, 0, 1, 1] = np.nan
    result = tidied(model, RemoveUnused(), x=nan)
    (node,) = model.graph.node
    del node.output[1]
    (with_, without) = run(result.model, {"x": nan}), run(model, {"x": nan})
    assert not isinstance(with_, Failure)
    assert not isinstance(without, Failure)
    assert not np.array_equal(with_[0], without[0], equal_nan=True)


def test_outputs_inputs_and_annotated_initializers_stay() -> None:
    model = parse(
        text("y = Relu(x)", "float[3] x, float given", "float k = {1}, float z = {2}, float s = {3}")
    )
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, []))
    model.graph.initializer.append(numpy_helper.from_array(np.array(4, np.float32), "given"))
    model.graph.initializer[-1].name = "given"
    annotate(model, "y", "s")
    result = tidied(model, RemoveUnused())
    assert sorted(initializers(result.model)) == ["given", "s", "z"]
    assert [each.tensor_name for each in result.model.graph.quantization_annotation] == ["y"]


def test_what_may_do_more_than_is_seen_stays() -> None:
    branch = "{0}_branch = b{0} () => (float[N] p{0}) {{ p{0} = Neg(x) }}"
    branches = ", ".join(branch.format(name) for name in ("then", "else"))
    body = f"d = other.Log(x)  f = local.f(x)  i = If(c) <{branches}>  y = Relu(x)"
    function = '<domain: "local", opset_import: ["": 17]> f (a) => (b) { dead = Neg(a)  b = Abs(a) }'
    model = parse(text(body, "float[3] x, bool c", functions=function))
    result = rewrite(model, RemoveUnused())
    assert [(each.node, each.scope) for each in result.outcomes[0].rewritten] == [("dead", "local::f")]
    assert [(each.node, each.reason) for each in result.skipped] == [
        ("i", "has a body, which may do what nobody sees"),
        ("f", "belongs to domain 'local', so what it computes is not known"),
        ("d", "belongs to domain 'other', so what it computes is not known"),
    ]


def test_functions_that_are_given_a_graph() -> None:
    model = f"""{HEAD} g (float[3] x, bool c) => (float[N] y) {{
        y = local.f<b = t () => (float[N] p) {{ p = Neg(x) }}>(x, c)
    }}
    <domain: "local", opset_import: ["": 17]>
    f <b> (x, c) => (y) {{ dead = Abs(x)  y = If(c) <then_branch: graph = @b, else_branch: graph = @b> }}"""
    result = rewrite(parse(model), RemoveUnused())
    assert result.rewritten == ["dead"]


def test_initializers_of_bodies() -> None:
    model = parse(text(
        """y = If(c) <
        then_branch = t () => (float[N] p) <float[3] k = {1, 2, 3}, float[3] u = {4, 5, 6}> { p = Add(x, k) },
        else_branch = e () => (float[N] q) { q = Identity(x) }>""", "float[3] x, bool c",
    ))  # fmt: skip
    assert initializers(tidied(model, RemoveUnused(), c=np.array(True)).model) == ["k"]


def test_an_unused_node_fails_no_more() -> None:
    model = parse(text("d = Gather(x, i)  y = Relu(x)", "float[3] x, int64 i"))
    feeds = {**random_feeds(model), "i": np.array(7)}
    assert isinstance(run(model, feeds, "default"), Failure)
    assert not isinstance(run(rewrite(model, RemoveUnused()).model, feeds), Failure)


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_float16_that_is_rounded_for_an_unused_node(dtype: str) -> None:
    """ONNX Runtime runs a lone Gather between arithmetic in float32, but not where a Reshape follows."""
    body = "a = Mul(x, x)  t = Gather(a, i)  dead = Reshape(t, flat)  other = Neg(x)  y = Add(t, t)"
    constants = "int64[1] flat = {-1}, int64[8] i = {1, 0, 2, 3, 4, 5, 7, 6}"
    model = parse(text(body, f"{dtype}[8,8] x", constants, f"{dtype}[M,N] y"))
    result = tidied(model, RemoveUnused())
    assert ("dead" in result.rewritten) == (dtype == "float")
    reason = "takes float16 that is used elsewhere, and may be rounded otherwise without it"
    assert {skip.reason for skip in result.skipped} == (set() if dtype == "float" else {reason})


def test_declarations_of_other_names_stay() -> None:
    model = parse(text("d = Neg(x)  y = Relu(x)", constants="float[3] d, float[7] nobody"))
    result = tidied(model, RemoveUnused())
    assert [info.name for info in result.model.graph.value_info] == ["nobody"]


# dedupe_initializers


def test_the_first_of_equal_initializers_stays() -> None:
    body = "a = Add(x, k)  b = Add(a, m)  c = Add(b, n)  d = Mul(c, z)  e = Mul(d, w)  y = Add(e, k)"
    constants = """float[3] k = {1, 2, 3}, float[3] m = {1, 2, 3}, float[3] n = {1, 2, 4}, float z = {0},
    float w = {-0.0}"""
    result = tidied(text(body, constants=constants), DedupeInitializers())
    assert initializers(result.model) == ["k", "n", "z", "w"]
    (done,) = result.outcomes[0].rewritten
    assert (done.node, done.op, done.scope, done.into) == ("m", "initializer", "main", {})


@pytest.mark.parametrize("dtype", sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}))
def test_every_type(dtype: int) -> None:
    name = TensorProto.DataType.Name(dtype)
    values: list[Any] = [b"a", b"b\0"] if name == "STRING" else [1, 0]
    tensors = [
        helper.make_tensor(label, dtype, [2], values if label != "c" else values[::-1])
        for label in ("a", "b", "c")
    ]
    given = [helper.make_node("Identity", [tensor.name], [f"{tensor.name}_out"]) for tensor in tensors]
    outputs = [helper.make_tensor_value_info(node.output[0], dtype, [2]) for node in given]
    graph = helper.make_graph(given, "g", [], outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    result = rewrite(model, DedupeInitializers())
    assert initializers(result.model) == ["a", "c"]
    assert [node.input[0] for node in result.model.graph.node] == ["a", "a", "c"]


def test_other_types_and_shapes_are_not_equal() -> None:
    body = "a = Add(x, k)  b = Add(a, m)  i = Cast<to=1>(j)  y = Add(b, i)"
    constants = "float[1] k = {1}, float[1,1] m = {1}, int32[1] j = {1065353216}"
    assert not tidied(text(body, constants=constants, output="float[M,N] y"), DedupeInitializers()).rewritten


def test_inputs_outputs_and_annotated_ones_are_kept() -> None:
    body = "a = Add(x, k)  b = Add(a, m)  c = Add(b, s)  d = Add(c, z)  y = Add(d, r)"
    constants = "float k = {1}, float m = {1}, float s = {1}, float z = {1}, float r = {1}"
    model = parse(text(body, constants=constants))
    model.graph.input.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, []))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, []))
    annotate(model, "y", "s")
    result = tidied(model, DedupeInitializers())
    assert sorted(initializers(result.model)) == ["k", "m", "s", "z"]
    assert [node.input[1] for node in result.model.graph.node] == ["k", "m", "s", "z", "k"]


def test_uses_in_bodies_are_replaced() -> None:
    branches = """then_branch = t () => (float[N] p) { p = Add(x, m) },
    else_branch = e () => (float[N] q) <float[3] n = {1, 2, 3}, float[3] o = {1, 2, 3}> {
        r = Add(x, n)  q = Add(r, o)
    }"""
    body = f"a = Add(x, k)  w = If(c) <{branches}>  y = Add(w, a)"
    model = parse(text(body, "float[3] x, bool c", "float[3] k = {1, 2, 3}, float[3] m = {1, 2, 3}"))
    for c in (True, False):
        assert initializers(tidied(model, DedupeInitializers(), c=np.array(c)).model) == ["k", "n"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "body",
    [
        "a = MatMul(x, k)  b = Relu(a)  c = MatMul(b, m)  y = Add(c, a)",
        "a = Gemm(x, k)  b = Gemm<transB=1>(x, m)  c = Gemm(a, m)  d = Add(b, c)  y = Mul(d, a)",
        "a = MatMul(x, k)  t = Transpose(m)  b = MatMul(x, t)  i = Identity(m)  c = MatMul(b, i)  "
        "y = Add(a, c)",
        "v = Reshape(x, image)  a = Conv(v, k4)  r = Relu(a)  b = Conv(r, m4)  c = Add(b, a)  "
        "y = Reshape(c, back)",
    ],
)
def test_weights_of_several_nodes(body: str, dtype: Any) -> None:
    """A shared weight is packed as each of its users wants it."""
    name = "float" if dtype == np.float32 else "float16"
    constants = "int64[4] image = {1, 16, 4, 4}, int64[2] back = {16, 16}"
    model = parse(text(body, f"{name}[16,16] x", constants, f"{name}[M,N] y"))
    weight = random_values(np.random.default_rng(0), dtype, (16, 16))
    for label, shape in (("k", (16, 16)), ("m", (16, 16)), ("k4", (16, 16, 1, 1)), ("m4", (16, 16, 1, 1))):
        if re.search(rf"\b{label}\b", body):
            model.graph.initializer.append(numpy_helper.from_array(weight.reshape(shape), label))
    assert len(tidied(model, DedupeInitializers()).rewritten) == 1


# lift_constants


LIFTED = """k = Constant<value = float[3] {1, 2, 3}>()  m = Constant<value = float {2}>()
n = Constant<value_floats = [1.0, 2.0, 3.0]>()  a = Add(x, k)  b = Mul(a, m)  y = Add(b, n)"""


def lift(min_elements: int, limit: int | None = None) -> LiftConstants:
    return LiftConstants(LiftConstantsOptions(min_elements=min_elements), limit=limit)


@pytest.mark.parametrize(
    ("least", "lifted"), [(0, ["k", "m"]), (1, ["k", "m"]), (2, ["k"]), (3, ["k"]), (4, [])]
)
def test_constants_of_enough_elements_become_initializers(least: int, lifted: list[str]) -> None:
    result = tidied(text(LIFTED), lift(least))
    assert initializers(result.model) == lifted
    assert op_counts(result.model)["Constant"] == 3 - len(lifted)
    assert [(each.node, each.op, each.into) for each in result.outcomes[0].rewritten] == [
        (name, "Constant", {}) for name in lifted
    ]


def test_sixteen_elements_are_enough_by_default() -> None:
    body = "k = Constant<value_ints=[0]>()  a = Constant<value = float[15] {%s}>()  y = Relu(x)"
    assert LiftConstants().options.min_elements == 16
    assert "16" in LiftConstants.summary.format(**LiftConstants().options.model_dump())
    assert not tidied(text(body % ",".join("0" * 15)), LiftConstants()).rewritten
    assert tidied(text(body.replace("15", "16") % ",".join("0" * 16)), LiftConstants()).rewritten == ["a"]


def test_constants_in_bodies_are_lifted_into_them() -> None:
    branches = """then_branch = t () => (float[N] p) {
        k = Constant<value = float[3] {1, 2, 3}>()  p = Add(x, k)
    },
    else_branch = e () => (float[N] q) { q = Constant<value = float[3] {1, 2, 3}>() }"""
    model = parse(text(f"y = If(c) <{branches}>", "float[3] x, bool c"))
    result = tidied(model, lift(0), c=np.array(True))
    assert op_counts(result.model)["Constant"] == 1  # an output
    assert [
        len(graph.initializer) for graph in graphs(result.model) if isinstance(graph, onnx.GraphProto)
    ] == [0, 1, 0]


def test_constants_in_functions_and_of_other_domains_stay() -> None:
    body = """k = Constant<value = float[3] {1, 2, 3}>()  z = other.Constant<value = float[3] {1, 2, 3}>()
    y = local.f(k)"""
    function = """<domain: "local", opset_import: ["": 17]>
    f (a) => (b) { k = Constant<value = float[3] {1, 2, 3}>()  b = Add(a, k) }"""
    model = parse(text(body, functions=function))
    model.graph.node[1].domain = "onnx.ai"  # which onnx_ir takes for ONNX's own
    result = rewrite(model, lift(0))
    assert result.rewritten == ["k"]
    assert op_counts(result.model)["Constant"] == 2


def test_old_models_are_left_alone() -> None:
    model = parse(text(LIFTED).replace("ir_version: 8", "ir_version: 3"))
    result = rewrite(model, lift(0))
    assert [skip.reason for skip in result.skipped] == ["in IR version 3 an initializer must be an input"]
    assert op_counts(result.model)["Constant"] == 3


@pytest.mark.parametrize("declared", [True, False])
def test_declarations_of_constants_stay_as_they_are(declared: bool) -> None:
    model = parse(text(LIFTED, constants="float[3] k" if declared else ""))
    annotate(model, "k", "m")
    result = tidied(model, lift(0))
    assert [info.name for info in result.model.graph.value_info] == ["k"] * declared
    assert [each.tensor_name for each in result.model.graph.quantization_annotation] == ["k"]


# sort_topologically, and all of them


def test_nodes_out_of_order_are_sorted() -> None:
    model = parse(text("a = Neg(x)  b = Abs(a)  y = Relu(b)"))
    shuffled = [*reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(shuffled)
    with pytest.raises(onnx.checker.ValidationError, match="topologically sorted"):
        onnx.checker.check_model(model)
    result = tidied(model, SortTopologically())
    assert result.outcomes[0].modified
    assert [node.op_type for node in result.model.graph.node] == ["Neg", "Abs", "Relu"]
    onnx.checker.check_model(result.model)


HALVES = "float16 third = {13653}, int64[4] back = {3, 2, 1, 0}"


def test_late_casts_come_to_their_place_and_the_others_keep_their_order() -> None:
    body = """m = Mul(h, h)  g = Gather<axis = 0>(m, back)  a = Add(m, third)  c = Concat<axis = 0>(g, a)
        n = Neg(h)  f = Add(c, third)  l = Relu(n)  h = Cast<to = 10>(x)  y = Cast<to = 1>(f)"""
    model = parse(text(body, "float[4] x", HALVES))
    model.graph.output.add().CopyFrom(helper.make_tensor_value_info("l", TensorProto.FLOAT16, ["N"]))
    result = tidied(model, SortTopologically())
    assert [node.output[0] for node in result.model.graph.node] == list("hmgacnfly")


def test_of_float16_there_may_be_no_sorted_order_with_the_same_bits() -> None:
    nodes_of = "h = Mul(x, x)  m = Add(h, h)  c = Concat<axis = 0>(m, a)  y = Add(c, third)  "
    model = parse(text(nodes_of + "a = Gather<axis = 0>(h, back)", "float16[4] x", HALVES, "float16[N] y"))
    feeds = {"x": np.array([0.3, 1.7, -2.3, 3.1], np.float16)}
    for level in LEVELS:
        unsorted = run(model, feeds, level)
        assert isinstance(unsorted, list)
        for places in ([0, 1, 4, 2, 3], [0, 4, 1, 2, 3]):
            other = onnx.ModelProto()
            other.CopyFrom(model)
            del other.graph.node[:]
            other.graph.node.extend(model.graph.node[place] for place in places)
            onnx.checker.check_model(other)
            outputs = run(other, feeds, level)
            assert isinstance(outputs, list)
            assert outputs[0].tobytes() != unsorted[0].tobytes()


@pytest.mark.parametrize(
    ("each", "body", "constants"),
    [
        (RemoveUnused, "a = Neg(x)  b = Abs(a)  c = Abs(x)  y = Relu(x)", "float u = {1}"),
        (DedupeInitializers, "a = Add(x, k)  b = Add(a, m)  c = Add(b, n)  y = Add(c, o)",
         "float k = {1}, float m = {1}, float n = {1}, float o = {1}"),
        (LiftConstants, "".join(f"k{n} = Constant<value = float[16] {{0}}>()  " for n in range(4))
         + "y = Relu(x)", ""),
    ],
)  # fmt: skip
def test_limits(each: type[RewritePass[Any]], body: str, constants: str) -> None:
    model = parse(text(body.replace("{0}", "{" + ",".join("1" * 16) + "}"), constants=constants))
    every = rewrite(model, each()).rewritten
    assert len(every) in (3, 4)
    for limit in range(len(every) + 2):
        result = rewrite(model, each(limit=limit))
        assert result.rewritten == every[:limit]
        assert_runs_same(model, result.model, random_feeds(model))


@pytest.mark.parametrize(
    "each", [RemoveUnused(), DedupeInitializers(), lift(0)], ids=lambda each: str(each.name)
)
def test_ambiguous_names(each: RewritePass[Any]) -> None:
    branches = """then_branch = t () => (float[N] p) <float[3] k = {1, 2, 3}> { p = Add(x, k) },
    else_branch = e () => (float[N] q) { q = Identity(x) }"""
    model = parse(
        text(f"k = Constant<value = float[3] {{1, 2, 3}}>()  y = If(c) <{branches}>", "float[3] x, bool c")
    )
    result = rewrite(model, each)
    assert not result.rewritten
    assert [skip.reason for skip in result.skipped] == ["'k' names values of a body and of a scope around it"]


@pytest.mark.parametrize("order", [*itertools.permutations(range(4), 4)][::5])
def test_one_after_another(order: tuple[int, ...]) -> None:
    model = parse(
        text(LIFTED + "  u = Constant<value = float[3] {1, 2, 3}>()  d = Neg(u)", constants="float z = {2}")
    )
    result = rewrite(model, *(EVERY[number] for number in order))
    for level in LEVELS:
        assert_runs_same(model, result.model, random_feeds(model), level)
    assert op_counts(result.model)["Neg"] == 0
