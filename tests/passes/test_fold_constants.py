from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hubpublish.demo.config import SMALL
from hubpublish.demo.model import build_model
from hubpublish.errors import HubpublishError
from hubpublish.model import load, save
from hubpublish.passes import PASSES
from hubpublish.passes.compress_constants import CompressConstants, CompressConstantsOptions
from hubpublish.passes.fold_constants import MERGED, FoldConstants, FoldConstantsOptions
from hubpublish.passes.folding import child, evaluation, operators, plan
from hubpublish.rewrite import rewrite as rewrite_file
from tests.models.build import (
    Failure,
    Rewrite,
    assert_runs_same,
    assert_same,
    graphs,
    op_counts,
    parse,
    random_feeds,
    rewrite,
    run,
)

LEVELS: Any = ("disabled", "default")
HEAD = '<ir_version: {ir}, opset_import: ["": {opset}, "other": 1, "local": 1]>'


def text(
    body: str,
    inputs: str = "float[2,3,4] x",
    constants: str = "",
    output: str = "",
    functions: str = "",
    *,
    opset: int = 17,
    ir: int = 8,
) -> onnx.ModelProto:
    declared = f"<{constants}>" if constants else ""
    output = output or f"{inputs.split('[')[0]} y"
    head = HEAD.format(opset=opset, ir=ir)
    model = parse(f"{head} g ({inputs}) => ({output}) {declared} {{ {body} }} {functions}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    for tensor in tensors(model):  # as exporters write them; the parser gives each integer a byte
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    return model


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in graphs(model):
        yield from graph.initializer if isinstance(graph, onnx.GraphProto) else ()
        for node in graph.node:
            yield from (attribute.t for attribute in node.attribute if attribute.type == attribute.TENSOR)


@pytest.fixture(autouse=True)
def in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a child process, which takes half a second to start."""
    if "child_process" not in request.fixturenames:
        monkeypatch.setattr(evaluation, "_start", lambda given, response, log: child.main(given, response))


@pytest.fixture
def child_process() -> None:
    """With one, as always outside of these tests."""


own_process = pytest.mark.usefixtures("child_process")


def fold(model: onnx.ModelProto, max_bytes: int = 65_536, limit: int | None = None) -> Rewrite:
    return rewrite(model, FoldConstants(FoldConstantsOptions(max_bytes=max_bytes), limit=limit))


def folded(model: onnx.ModelProto, max_bytes: int = 65_536, **feeds: Any) -> Rewrite:
    """The model after the pass, which must compute the same, not be larger, and stay so a second time."""
    result = fold(model, max_bytes)
    for level in LEVELS:
        assert_runs_same(model, result.model, {**random_feeds(model), **feeds}, level)
    assert_settled(model, result, max_bytes)
    return result


def assert_settled(model: onnx.ModelProto, result: Rewrite, max_bytes: int = 65_536) -> None:
    assert result.model.ByteSize() <= rewrite(model).model.ByteSize()
    again = fold(result.model, max_bytes)
    assert not again.rewritten
    assert again.model.SerializeToString() == result.model.SerializeToString()
    assert [each.name for each in result.model.graph.output] == [each.name for each in model.graph.output]


def stored(result: Rewrite | onnx.ModelProto) -> dict[str, Any]:
    """The initializers of all graphs."""
    model = result.model if isinstance(result, Rewrite) else result
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for graph in graphs(model)
        if isinstance(graph, onnx.GraphProto)
        for tensor in graph.initializer
    }


def reasons(result: Rewrite) -> dict[str, str]:
    return {each.node: each.reason for each in result.skipped}


SHAPES = """s = Shape(x)  i = Constant<value_int = 1>()  n = Gather<axis=0>(s, i)
    a = Constant<value_ints = [0]>()  u = Unsqueeze(n, a)  m = Constant<value_ints = [-1]>()
    [join] t = Concat<axis=0>(u, m)  y = Reshape(x, t)"""


def test_shape_arithmetic_becomes_one_initializer() -> None:
    result = folded(text(SHAPES))
    assert op_counts(result.model) == {"Reshape": 1}
    assert {name: array.tolist() for name, array in stored(result).items()} == {"t": [3, -1]}
    (done,) = result.outcomes[0].rewritten
    assert (done.node, done.op, done.scope, done.into) == ("join", "Concat", "main", {"initializer": 1})
    assert not result.skipped


def test_it_is_exact_and_says_what_it_allows() -> None:
    assert PASSES["fold_constants"] is FoldConstants
    assert FoldConstants.exact
    assert "65536" in FoldConstants.summary.format(**FoldConstants().options.model_dump())


@pytest.mark.parametrize("opset", [8, 11, 13, 21, 25])
def test_opsets(opset: int) -> None:
    body = "s = Shape(x)  t = Concat<axis=0>(s, k)  y = Reshape(x, t)"
    result = folded(text(body, constants="int64[1] k = {1}", opset=opset))
    assert op_counts(result.model) == {"Reshape": 1}
    assert list(stored(result)) == ["t"]


def test_lengths_that_are_not_certain_stay() -> None:
    result = folded(text(SHAPES, "float[2,N,4] x"))
    assert op_counts(result.model) == op_counts(text(SHAPES))
    assert reasons(result) == {"s": "the shape that it measures is not certain"}


def test_a_declared_shape_is_no_proof() -> None:
    model = text("z = other.F(x)  s = Shape(z)  y = Cast<to=1>(s)")
    model.graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3]))
    assert not fold(model).rewritten


def test_only_what_others_need_is_stored() -> None:
    body = """a = Add(k, k)  b = Mul(a, k)  c = Sub(b, a)
    p = Add(x, c)  y = Add(p, b)"""
    result = folded(text(body, "int64[3] x", "int64[3] k = {1, 2, 3}"))
    assert {name: array.tolist() for name, array in stored(result).items()} == {
        "b": [2, 8, 18],
        "c": [0, 4, 12],
    }
    assert op_counts(result.model) == {"Add": 2}
    assert result.rewritten == ["b", "c"]


def test_what_was_used_otherwise_stays() -> None:
    body = "c = Add(k, j)  p = Add(x, c)  y = Add(p, k)"
    result = folded(text(body, "int64[3] x", "int64[3] k = {1, 2, 3}, int64[3] j = {1, 2, 3}", "int64 y"))
    assert sorted(stored(result)) == ["c", "k"]


def test_unused_nodes_that_depend_on_no_input_stay() -> None:
    """They may fail, as this one does."""
    model = text("d = Gather(k, i)  y = Neg(x)", constants="float[3] k = {1, 2, 3}, int64 i = {7}")
    result = fold(model)
    assert op_counts(result.model) == {"Gather": 1, "Neg": 1}
    assert isinstance(run(result.model, random_feeds(model)), Failure)


# What the values are


def one_node(op: str, *given: Any, opset: int = 17, outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A model that computes something of constants, whose names are long: without them it is smaller."""
    arrays = [np.asarray(each) for each in given]
    names = [f"{'k' * 200}{number}" for number in range(len(arrays))]
    made = [f"c{number}" for number in range(outputs)]
    body = [helper.make_node(op, names, made, "node", **attributes)]
    body += [helper.make_node("Identity", [name], [f"y{name}"]) for name in made]
    given_x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    body.append(helper.make_node("Neg", ["x"], ["y"]))
    results = [helper.make_empty_tensor_value_info(name) for name in (*(f"y{name}" for name in made), "y")]
    constants = [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)]
    graph = helper.make_graph(body, "g", [given_x], results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


DATA = np.int16  # stands for the type under test
K = np.array([[1, -2, 3], [4, 5, -7]], DATA)
M = np.array([[2, 2, -1], [4, 8, 1]], DATA)
MOVES: dict[str, tuple[Any, ...]] = {
    "Concat": (K, M),
    "Expand": (K, [2, 2, 3]),
    "Flatten": (K,),
    "Gather": (K, [1]),
    "GatherElements": (K, [[1, 0, -1]]),
    "GatherND": (K, [[1, 2]]),
    "Pad": (K, [0, 1, 0, 1]),
    "Reshape": (K, [-1]),
    "ScatterElements": (K, [[1, 0, -1]], M[:1]),
    "ScatterND": (K, [[1]], M[:1]),
    "Slice": (K, [5], [-9], [1], [-2]),
    "Split": (K,),
    "Squeeze": (K[:1], [0]),
    "Tile": (K, [2, 1]),
    "Transpose": (K,),
    "Trilu": (K,),
    "Unsqueeze": (K, [-1]),
    "Where": (K > 0, K, M),
}
ROUNDED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("Abs", "Ceil", "Floor", "Neg", "Round"), (K,)),
    **dict.fromkeys(("Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less"), (K, M)),
    **dict.fromkeys(("LessOrEqual", "Mul", "Sub"), (K, M)),
}
ON_INTEGERS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("Max", "Min", "Mod"), (K, M)),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceProd", "Sign"), (K,)),
    "Clip": (K, DATA(2)),
    "CumSum": (K, 1),
    "Range": (DATA(1), DATA(9), DATA(3)),
    "ReduceSum": (K, [1]),
}
LOGIC: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("And", "Or", "Xor"), (K > 1, M > 1)),
    "Not": (K > 1,),
    "BitShift": (np.uint8([1, 2]), np.uint8([3, 1])),
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "BitShift": {"direction": "LEFT"},
    "Concat": {"axis": 0},
    "GatherElements": {"axis": 1},
    "ScatterElements": {"axis": 1},
    "Split": {"outputs": 2},
}


def case(op: str, given: tuple[Any, ...], dtype: str = "int16") -> onnx.ModelProto:
    arrays = [np.asarray(each) for each in given]
    typed = [each.astype(dtype) if each.dtype == DATA else each for each in arrays]
    return one_node(op, *typed, **ATTRIBUTES.get(op, {}))


def folds(model: onnx.ModelProto, why_not: str | None = None) -> bool:
    """Whether the node goes; it must stay for the reason, and where the runtime has no such node."""
    if isinstance(run(model, {"x": np.float32([1])}), Failure):
        assert not fold(model).rewritten
        return False
    result = folded(model)
    assert bool(result.rewritten) == (why_not is None)
    assert why_not is None or why_not in reasons(result)["node"]
    return True


@pytest.mark.parametrize("op", sorted(MOVES))
def test_elements_of_any_type_are_moved(op: str) -> None:
    assert op in operators.MOVES
    for dtype in ("float32", "float64", "int64", "int32", "uint8", "bool"):
        assert folds(case(op, MOVES[op], dtype)) or (op, dtype) in NO_KERNEL
    in_float32 = "which may fuse it differently" if op not in operators.ON_HALVES else None
    assert folds(case(op, MOVES[op], "float16"), in_float32)


NO_KERNEL = {
    *(("Trilu", "int32"), ("Trilu", "uint8"), ("Where", "bool"), ("Ceil", "int64"), ("Ceil", "int32")),
}


@pytest.mark.parametrize("op", sorted(ROUNDED))
def test_what_is_rounded_correctly(op: str) -> None:
    assert folds(case(op, ROUNDED[op], "float32"))
    assert folds(case(op, ROUNDED[op], "float64"))
    assert folds(case(op, ROUNDED[op], "int64")) == (op not in ("Ceil", "Floor", "Round"))
    assert folds(
        case(op, ROUNDED[op], "float16"), "Round" if op == "Round" else "which may fuse it differently"
    )


@pytest.mark.parametrize("op", sorted(ON_INTEGERS))
def test_what_is_exact_on_integers_alone(op: str) -> None:
    assert folds(case(op, ON_INTEGERS[op], "int64"))
    reason = "not certainly the same on every machine"
    assert folds(case(op, ON_INTEGERS[op], "float32"), reason) or op == "Mod"


@pytest.mark.parametrize("op", sorted(LOGIC))
def test_logic(op: str) -> None:
    assert folds(case(op, LOGIC[op]))


def test_every_operator_was_tried() -> None:
    tried = {*MOVES, *ROUNDED, *ON_INTEGERS, *LOGIC, "Cast", "ConstantOfShape", "Identity"}
    assert tried == operators.MOVES | operators._ROUNDED_CORRECTLY | operators._ON_INTEGERS


@pytest.mark.parametrize("op", ["Exp", "Sqrt", "Sigmoid", "Pow", "ReduceMean"])
def test_floats_that_depend_on_the_machine_stay(op: str) -> None:
    given = (K, M) if op == "Pow" else (K,)
    assert folds(case(op, given, "float32"), f"{op} is not computed ahead")


def test_a_scatter_that_adds() -> None:
    for dtype, reason in (("int64", None), ("float32", "not certainly the same on every machine")):
        given = [
            each.astype(dtype) if each.dtype == DATA else each for each in map(np.asarray, MOVES["ScatterND"])
        ]
        assert folds(one_node("ScatterND", *given, reduction="add"), reason)


@pytest.mark.parametrize(
    ("values", "to", "reason"),
    [
        (np.float32([0.5, -3.0, 65504.0, -0.0]), np.float16, None),
        (np.float32([0.1]), np.float16, "float16 what it does not hold"),
        (np.float32([1e6]), np.float16, "float16 what it does not hold"),
        (np.int64([2048]), np.float16, None),
        (np.int64([2049]), np.float16, "float16 what it does not hold"),
        (np.float32([0.1, 3e38, np.inf]), np.float64, None),
        (np.float64([0.1, 1e300]), np.float32, None),
        (np.float32([2.5, -2.5, 2147483520.0, -2147483648.0]), np.int32, None),
        (np.float32([2147483648.0]), np.int32, "which depends on the machine"),
        (np.float32([-1.0]), np.uint8, "which depends on the machine"),
        (np.float32([9.3e18]), np.int64, "which depends on the machine"),
        (np.float32([np.nan]), np.int32, "which depends on the machine"),
        (np.float32([np.inf]), np.int64, "which depends on the machine"),
        (np.float32([np.nan]), np.float64, "not a number"),
        (np.int64([300, -1]), np.uint8, None),
        (np.float32([0.0, -0.0, 0.3, 7.0]), np.bool_, None),
    ],
)
def test_casts(values: Any, to: Any, reason: str | None) -> None:
    assert folds(one_node("Cast", values, to=helper.np_dtype_to_tensor_dtype(np.dtype(to))), reason)


def test_what_is_computed_from_an_uncertain_cast_stays() -> None:
    body = "h = Cast<to=10>(k)  t = Transpose(h)  y = Mul(x, t)"
    result = folded(text(body, "float16[2,2] x", "float[2,2] k = {0.1, 1, 2, 3}", "float16 y"))
    assert not result.rewritten
    assert "float16 what it does not hold" in reasons(result)["h"]


def test_what_is_not_a_number_stays() -> None:
    body = "c = Div(k, k)  d = Neg(c)  y = Add(x, d)"
    result = folded(text(body, "float[2] x", "float[2] k = {0, 1}"))
    assert not result.rewritten
    assert "not a number" in reasons(result)["c"]


def test_random_numbers_stay() -> None:
    body = "r = RandomNormalLike(k)  z = Sub(r, r)  y = Add(x, z)"
    result = folded(text(body, "float[2] x", "float[2] k = {0, 1}"))
    assert op_counts(result.model) == {"RandomNormalLike": 1, "Sub": 1, "Add": 1}


@pytest.mark.parametrize("dtype", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.STRING])
def test_other_types_stay(dtype: int) -> None:
    tensor = helper.make_tensor(
        "k" * 200, dtype, [2], [b"a", b"b"] if dtype == TensorProto.STRING else [1, 2]
    )
    body = [
        helper.make_node("Transpose", [tensor.name], ["c"], "node"),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(body, "g", [], [output], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    result = fold(model)
    assert not result.rewritten
    assert "which are not computed ahead" in reasons(result)["node"]


# What is given to whom


@pytest.mark.parametrize(
    ("use", "constant"),
    [
        ("y = MatMul(x, {})", "float[4,4] k"),
        ("y = Gemm(x, {})", "float[4,4] k"),
        ("v = Unsqueeze(x, a)  y = Conv(v, {})", "float[2,1,3] k"),
        ("v = Unsqueeze(x, a)  y = ConvTranspose(v, {})", "float[1,2,3] k"),
        ("y = LayerNormalization(x, {})", "float[4] k"),
        ("y = BatchNormalization(x, {0}, {0}, {0}, {0})", "float[4] k"),
        ("y = local.f(x, {})", "float[4,4] k"),
        ('y = Einsum<equation = "ij,jk->ik">(x, {})', "float[4,4] k"),
    ],
)
@pytest.mark.parametrize("moved", ["c", "t"])
def test_what_may_be_packed_stays(use: str, constant: str, moved: str) -> None:
    """Also if only moved: a Transpose, of one axis or of all, and an Identity of it."""
    rank = constant.count(",") + 1
    identity = f"i = Transpose<perm = {[*range(rank)]}>(c)  t = Identity(i)" if moved == "t" else ""
    values = np.random.default_rng(0).standard_normal([int(n) for n in constant[6:-3].split(",")]) ** 2
    model = text(
        f"a = Constant<value_ints = [1]>()  c = Add(k, k)  {identity} {use.format(moved)}",
        "float[4,4] x",
        functions="""<domain: "local", opset_import: ["": 17]> f (p, q) => (r) { r = MatMul(p, q) }""",
    )
    model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), "k"))
    result = folded(model)
    assert not result.rewritten
    op = use.split("y = ")[1].split("(")[0].split("<")[0].removeprefix("local.")
    assert reasons(result)["c"] == f"is given to {op}, which may compute differently with a constant"


def test_an_identity_of_a_constant_stays() -> None:
    """It keeps a weight from being packed, with optimizations off, so that these bits differ."""
    body = "i = Identity(k)  c = MatMul(x, i)  d = Add(c, i)  t = Transpose(i)  y = Sub(d, t)"
    model = text(body, "float[33,33] x")
    weight = np.random.default_rng(0).standard_normal((33, 33)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "k"))
    result = folded(model)
    assert op_counts(result.model)["Identity"] == 1
    assert "i" not in reasons(result)


def test_behind_an_identity_is_computed_on() -> None:
    body = "i = Identity(k)  c = Add(i, i)  j = Identity(c)  d = Mul(j, j)  y = Add(x, d)"
    result = folded(text(body, "float[3] x", "float[3] k = {1, 2, 3}"))
    assert op_counts(result.model) == {"Add": 1}
    assert stored(result)["d"].tolist() == [4, 16, 36]


def test_integers_are_not_given_to_functions() -> None:
    function = """<domain: "local", opset_import: ["": 17]> f (p, q) => (r) { r = Reshape(p, q) }"""
    body = "c = Concat<axis=0>(k, k)  y = local.f(x, c)"
    result = folded(text(body, "float[4,4] x", "int64[1] k = {4}", functions=function))
    assert reasons(result) == {"c": "is given to f, which may compute differently with a constant"}


def test_outputs_stay() -> None:
    body = "c = Add(k, k)  d = Mul(c, c)  y = Add(x, d)"
    model = text(body, "int64[3] x", "int64[3] k = {1, 2, 3}")
    model.graph.output.append(helper.make_tensor_value_info("d", TensorProto.INT64, [3]))
    result = folded(model)
    assert [node.op_type for node in result.model.graph.node] == ["Mul", "Add"]
    assert reasons(result) == {"d": "is an output of its graph, or named by a quantization annotation"}


def test_initializers_that_a_caller_may_override_are_no_constants() -> None:
    model = text("c = Add(k, k)  y = Add(x, c)", "int64[3] x", "int64[3] k = {1, 2, 3}")
    model.graph.input.append(helper.make_tensor_value_info("k", TensorProto.INT64, [3]))
    assert not folded(model).rewritten


def test_annotations_stay() -> None:
    constants = "int64[3] k = {1, 2, 3}, int64[3] m = {1, 2, 3}"
    model = text("c = Add(k, k)  d = Mul(c, m)  y = Add(x, d)", "int64[3] x", constants)
    for name, scale in (("y", "c"), ("d", "k")):
        entry = onnx.StringStringEntryProto(key="SCALE_TENSOR", value=scale)
        model.graph.quantization_annotation.add(tensor_name=name, quant_parameter_tensor_names=[entry])
    result = folded(model)
    assert result.rewritten == ["d"]
    assert op_counts(result.model) == {"Add": 2}  # of which one computes a scale
    kept = {
        each.tensor_name: each.quant_parameter_tensor_names[0].value
        for each in result.model.graph.quantization_annotation
    }
    assert kept == {"y": "c", "d": "k"}


# How large


@own_process
def test_omitted_outputs() -> None:
    """ONNX Runtime 1.32 crashes on such a Split, so that it stays; a version that does not may fold it."""
    body = 'a, "", c = Split<axis = 0>(w) k = Neg(n) y = Sum(x, a, c, k)'
    result = fold(text(body, "float[?] x", "float[3] w = {1, 2, 3}, float[1] n = {4}"))
    reason = reasons(result).get("a")
    assert reason is None or reason.startswith("cannot be computed: the runtime crashes")
    assert ("a" in result.rewritten) is (reason is None)
    assert "k" in result.rewritten


def test_the_limit_of_bytes() -> None:
    model = one_node("Transpose", np.arange(100, dtype=np.int64).reshape(10, 10))
    assert folded(model, 800).rewritten == ["node"]
    result = folded(model, 799)
    assert not result.rewritten
    assert reasons(result) == {"node": "takes 800 bytes, more than 799"}


def test_small_results_of_large_ones() -> None:
    body = """[e] b = Expand(k, n)  [m] r = ReduceMax<axes=[0]>(b)  [a] y = Add(x, r)"""
    result = folded(text(body, "int64[1] x", "int64 k = {7}, int64[1] n = {100000}"))
    assert result.rewritten == ["m"]
    assert op_counts(result.model) == {"Add": 1}


def test_no_file_grows() -> None:
    body = "c = Expand(k, n)  y = Add(x, c)"
    result = folded(text(body, "int64[50] x", "int64 k = {7}, int64[1] n = {50}"))
    assert not result.rewritten
    assert reasons(result) == {"c": plan._LARGER}


def test_a_value_may_grow_by_little_where_others_shrink() -> None:
    name = "s" * 200
    shrinking = "  ".join(
        f"{name}{n} = Add(k, k)  t{n} = Neg({name}{n})  z{n} = Add(x, t{n})" for n in range(10)
    )
    body = "{} c = Expand(k, n)  d = Add(x, c)  y = Sub(d, z0)"
    small = text(body.format(shrinking), "int64[300] x", "int64 k = {7}, int64[1] n = {300}")
    assert "c" in folded(small).rewritten
    large = text(body.format(shrinking), "int64[600] x", "int64 k = {7}, int64[1] n = {600}")
    assert reasons(folded(large))["c"] == plan._LARGER


def test_what_is_larger_is_stored_before_it_grows() -> None:
    body = "c = Add(k, k)  d = Expand(c, n)  y = Add(x, d)"
    constants = "int64[1] k = {7}, int64[1] n = {5000}"
    result = folded(text(body, "int64[5000] x", constants))
    assert result.rewritten == ["c"]
    assert op_counts(result.model) == {"Expand": 1, "Add": 1}


def test_weights_are_not_copied() -> None:
    """A transposed weight would be there twice."""
    model = text("t = Transpose(k)  a = Add(x, k)  y = Add(a, t)", "float[40,40] x")
    weight = np.arange(1600, dtype=np.float32).reshape(40, 40)
    model.graph.initializer.append(numpy_helper.from_array(weight, "k"))
    assert not folded(model).rewritten
    model.graph.node[1].input[1] = "t"
    assert folded(model).rewritten == ["t"]


# Where


def test_bodies() -> None:
    branches = """then_branch = a () => (float[N] p) {
        c = Add(k, k)  d = Mul(c, outside)  p = Add(x, d)
    },
    else_branch = b () => (float[N] q) <float[3] m = {4, 5, 6}> { e = Sub(m, k)  q = Mul(x, e) }"""
    body = f"outside = Neg(k)  y = If(w) <{branches}>"
    model = text(body, "float[3] x, bool w", "float[3] k = {1, 2, 3}")
    for w in (True, False):
        result = folded(model, w=np.array(w))
    assert op_counts(result.model) == {"If": 1, "Add": 1, "Mul": 1}
    assert [[tensor.name for tensor in graph.initializer] for graph in graphs(result.model)] == [
        [],
        ["d"],
        ["e"],
    ]
    assert [each.scope for each in result.outcomes[0].rewritten] == [
        "main/y.then_branch",
        "main/y.else_branch",
    ]


def test_loops() -> None:
    loop = """b (int64 i, bool g, float[3] v) => (bool h, float[3] w) {
        h = Identity(g)  c = Add(k, k)  s = Shape(v)  r = Cast<to=1>(i)  d = Mul(c, r)  w = Add(v, d)
    }"""
    model = text(f"n = Add(one, one)  y = Loop(n, t, x) <body = {loop}>", "float[3] x",
                 "float[3] k = {1, 2, 3}, int64 one = {1}, bool t = {1}")  # fmt: skip
    result = folded(model)
    assert op_counts(result.model) == {"Loop": 1, "Identity": 1, "Shape": 1, "Cast": 1, "Mul": 1, "Add": 1}
    assert sorted(stored(result)) == ["c", "n", "t"]


def test_functions_get_constants() -> None:
    function = """<domain: "local", opset_import: ["": 17]>
    f <a> (p) => (r) {
        k = Constant<value = int64[2] {1, 2}>()  [sum] c = Add(k, k)  v = Constant<value_int: int = @a>()
        d = Mul(c, v)  e = Add(c, d)  r = Add(p, e)
    }"""
    model = text("y = local.f<a = 3>(x)", "int64[2] x", functions=function)
    result = folded(model)
    assert [(node.op_type, node.name) for node in result.model.functions[0].node] == [
        ("Constant", "sum"), ("Constant", ""), ("Mul", ""), ("Add", ""), ("Add", ""),
    ]  # fmt: skip
    assert result.outcomes[0].rewritten[0].into == {"Constant": 1}
    assert result.outcomes[0].rewritten[0].scope == "local::f"


def test_old_models_get_constants() -> None:
    model = text("k = Constant<value = int64[2] {1, 2}>()  c = Add(k, k)  y = Add(x, c)", "int64[2] x", ir=3)
    result = folded(model)
    assert op_counts(result.model) == {"Constant": 1, "Add": 1}


def test_other_domains_and_own_functions_stay() -> None:
    function = """<domain: "local", opset_import: ["": 17]> Neg (p) => (r) { r = Abs(p) }"""
    model = text(
        "c = local.Neg(k)  y = Add(x, c)", "float[3] x", "float[3] k = {-1, 2, 3}", functions=function
    )
    result = folded(model)
    assert not result.rewritten
    assert reasons(result) == {"c": "belongs to domain 'local', so what it computes is not known"}


def test_ambiguous_names() -> None:
    branches = """then_branch = a () => (float[N] p) <float[3] c = {1, 2, 3}> { p = Add(x, c) },
    else_branch = b () => (float[N] q) { q = Identity(x) }"""
    model = text(
        f"c = Add(k, k)  z = Add(x, c)  y = If(w) <{branches}>",
        "float[3] x, bool w",
        "float[3] k = {1, 2, 3}",
    )
    assert not fold(model).rewritten


# What fails


NEVER = """else_branch = b () => (float[N] q) {{ {0}  q = Cast<to=1>(f) }},
then_branch = a () => (float[N] p) {{ c = Add(k, k)  d = Cast<to=1>(c)  p = Add(x, d) }}"""


def test_what_fails_where_it_never_runs() -> None:
    constants = "int64[3] k = {1, 2, 3}, int64[1] far = {9}"
    model = text(f"y = If(w) <{NEVER.format('f = Gather(k, far)')}>", "float[3] x, bool w", constants)
    result = folded(model, w=np.array(True))
    assert result.rewritten == ["d"]
    assert reasons(result)["f"].startswith("cannot be computed: ")
    assert len(reasons(result)["f"]) < 300


@own_process
def test_what_takes_the_runtime_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after it is computed all the same."""
    script = tmp_path / "child.py"
    run_it = '            outputs, error = [], ""\n'
    source = evaluation.CHILD.read_text()
    assert run_it in source
    death = "            if b'Gather' in model: __import__('os').kill(__import__('os').getpid(), 11)\n"
    script.write_text(source.replace(run_it, run_it + death))
    monkeypatch.setattr(evaluation, "CHILD", script)
    constants = "int64[3] k = {1, 2, 3}, int64[1] far = {1}"
    model = text(f"y = If(w) <{NEVER.format('f = Gather(k, far)')}>", "float[3] x, bool w", constants)
    result = fold(model)
    assert result.rewritten == ["d"]
    assert reasons(result)["f"] == "cannot be computed: the runtime crashes on it, with exit code -11"


@own_process
def test_a_child_process_that_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "child.py"
    broken.write_text("import no_such_module\n")
    monkeypatch.setattr(evaluation, "CHILD", broken)
    with pytest.raises(Exception, match="no_such_module") as error:
        fold(text(SHAPES.replace("y = Reshape(x, t)", "v = Add(t, t)  y = Reshape(x, v)")))
    assert error.value.hint  # type: ignore[attr-defined]


@own_process
def test_what_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "SECONDS", 0.0)
    model = one_node("Neg", np.int64([1, 2]))
    with pytest.raises(HubpublishError, match="its constants take more than 0 seconds to compute") as error:
        fold(model)
    assert error.value.hint
    onnx.save(model, tmp_path / "in.onnx")
    with pytest.raises(HubpublishError) as error:
        rewrite_file(tmp_path / "in.onnx", tmp_path / "out.onnx", [FoldConstants()])
    assert error.value.where == str(tmp_path / "in.onnx")
    assert not (tmp_path / "out.onnx").exists()


@own_process
def test_what_takes_too_long_is_not_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the bytes of the result would depend on how fast the machine is."""

    def late(command: list[str], timeout: float, **_: Any) -> None:
        with Path(command[-1]).open("wb") as response:  # the runtime has been loaded, and computes
            child.write(response, np.zeros(0, np.uint8))
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(HubpublishError, match="take more than 600 seconds"):
        fold(one_node("Neg", np.int64([1, 2])))


def test_what_was_only_measured_goes_if_it_cannot_fail() -> None:
    body = "a = Neg(x)  b = Abs(a)  s = Shape(b)  c = Cast<to=1>(s)  y = Add(x, c)"
    result = folded(text(body, "float[1] x"))
    assert op_counts(result.model) == {"Add": 1}
    body = "a = Gather(x, i)  s = Shape(a)  c = Cast<to=1>(s)  y = Add(x, c)"
    model = text(body, "float[1] x, int64[1] i")
    result = folded(model, i=np.int64([0]))
    assert op_counts(result.model) == {"Gather": 1, "Add": 1}
    assert isinstance(run(result.model, {"x": np.float32([1]), "i": np.int64([7])}), Failure)


# Rounds, limits, order


def test_what_is_stored_makes_further_shapes_certain() -> None:
    """Proofs do not compute floats: the shape of ``r`` is certain once ``t`` is an initializer."""
    body = """s = Shape(x)  f = Cast<to=1>(s)  h = Mul(f, half)  g = Floor(h)  t = Cast<to=7>(g)
    r = Expand(k, t)  n = Shape(r)  [z] u = Sub(n, one)  e = Expand(x1, u)  y = Add(e, e)"""
    constants = "float half = {0.5}, float[1,1] k = {1}, int64[2] one = {1, 1}"
    model = text(body, "float[8,6] x, float[1,1] x1", constants)
    result = folded(model)
    assert op_counts(result.model) == {"Expand": 1, "Add": 1}
    assert stored(result)["u"].tolist() == [3, 2]


MANY = "  ".join(
    f"v{n} = {op}(x)  s{n} = Shape(x)  t{n} = Concat<axis=0>(s{n}, m)  r{n} = Reshape(v{n}, t{n})  "
    f"f{n} = ReduceSum(r{n})"
    for n, op in enumerate(("Neg", "Abs", "Sin", "Cos"))
) + "  a = Sum(f0, f1, f2, f3)  c = Add(k, k)  d = Mul(c, k)  b = Add(a, c)  y = Mul(b, d)"  # fmt: skip


def test_limits() -> None:
    model = text(MANY, "float[2,3] x", "int64[1] m = {1}, float[3] k = {1, 2, 3}")
    every = folded(model).rewritten
    assert every == ["t0", "t1", "t2", "t3", "c", "d"]
    for limit in range(len(every) + 2):
        result = fold(model, limit=limit)
        assert result.rewritten == every[:limit]
        for level in LEVELS:
            assert_runs_same(model, result.model, random_feeds(model), level)
        assert fold(result.model).rewritten == every[limit:]


@own_process
def test_the_same_in_another_process(tmp_path: Path) -> None:
    model = text(MANY, "float[2,3] x", "int64[1] m = {1}, float[3] k = {1, 2, 3}")
    source = tmp_path / "in.onnx"
    source.write_bytes(model.SerializeToString())
    program = "from hubpublish.cli import main; main()"
    for seed in ("1", "2"):
        command = [sys.executable, "-c", program, "rewrite", str(source), str(tmp_path / seed)]
        subprocess.run(
            [*command, "--pass", "fold_constants"], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
    loaded = load(source)
    FoldConstants()(loaded)
    save(loaded, tmp_path / "here")
    assert len({(tmp_path / name).read_bytes() for name in ("1", "2", "here")}) == 1


def test_nodes_out_of_order() -> None:
    model = text(SHAPES)
    shuffled = [*reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(shuffled)
    assert op_counts(folded(model).model) == {"Reshape": 1}


def test_external_data_is_read_and_stays_where_it_is(tmp_path: Path) -> None:
    model = text("c = Transpose(k)  d = Add(x, c)  y = Add(d, w)", "float[20,20] x")
    for name in ("k", "w"):
        values = np.random.default_rng(0).standard_normal((20, 20)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    source = tmp_path / "in.onnx"
    onnx.save(model, source, save_as_external_data=True, size_threshold=0, location="in.data")
    loaded = load(source)
    assert len(FoldConstants()(loaded).rewritten) == 1
    saved = save(loaded, tmp_path / "out" / "out.onnx")
    assert saved.data is not None
    assert_same(source, saved.path, random_feeds(model))


# Rounding to float16


HALVES = "float16[3,3] x, float16[3,3] z"


@pytest.mark.parametrize("beside", ["s = Shape(t)  w = Cast<to=10>(s)", ""])
def test_a_shape_beside_what_may_be_rounded(beside: str) -> None:
    """Without the Shape the product would not be rounded before it is moved."""
    output = "float16[3,3] y, float16[2] w" if beside else "float16[3,3] y"
    body = f"a = Mul(x, z)  t = Transpose(a)  {beside}  y = Sub(t, z)"
    result = folded(text(body, HALVES, output=output))
    if beside:
        assert reasons(result) == {"s": "what it measures may be rounded differently without it"}
        without = text(body.replace(beside, ""), HALVES, output="float16[3,3] y")
        feeds = random_feeds(without)
        assert run(without, feeds)[0].tobytes() != run(result.model, feeds)[0].tobytes()  # type: ignore[index]


@pytest.mark.parametrize(
    "body",
    [
        "a = Mul(x, z)  s = Shape(a)  y = Sub(a, z)",  # has no kernel for float16
        "a = Mul(x, z)  t = Transpose(a)  u = Transpose(t)  s = Shape(u)  y = Sub(u, z)",  # behind one
        "a = Mul(x, z)  u = Transpose(a)  s = Shape(u)  y = Transpose(u)",  # before one
        "u = Transpose(x)  s = Shape(u)  y = Sub(u, z)",  # of an input
        "a = Mul(x, z)  u = Cast<to=1>(a)  t = Transpose(u)  s = Shape(t)  y = Cast<to=10>(t)",  # of float32
    ],
)
def test_shapes_that_change_no_rounding(body: str) -> None:
    body += "  n = Add(s, s)  m = Mul(n, s)  o = Sub(m, n)  v = Cast<to=10>(o)"
    model = text(body, HALVES, output="float16[3,3] y, float16[2] v")
    assert folded(model).rewritten == ["o"]


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        ("a = Mul(x, z)  b = Concat<axis=0>(c, a)  d = Concat<axis=0>(z, z)  y = Sub(b, d)", True),
        ("a = Mul(x, z)  b = ScatterND(a, i, c)  y = Sub(b, z)", True),
        ("a = Transpose(x)  b = Concat<axis=0>(a, c)  d = Concat<axis=0>(z, z)  y = Sub(b, d)", False),
        ("a = Mul(x, z)  y = Sub(a, c)", False),
    ],
)
def test_a_constant_beside_what_may_be_rounded(use: str, stays: bool) -> None:
    """As an initializer it does not keep a node that is given it from being computed in float32."""
    constants = """float16[3,3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9}, int64[3,1] i = {0, 1, 2},
    int64[9] j = {8, 7, 6, 5, 4, 3, 2, 1, 0}"""
    shrinking = "f = Reshape(k, m)  g = Gather(f, j)  h = Reshape(g, n)  c = Transpose(h)"
    constants += ", int64[1] m = {9}, int64[2] n = {3, 3}"
    model = text(f"{shrinking}  {use}", HALVES, constants)
    result = folded(model)
    assert ("c" in result.rewritten) != stays
    assert (
        not stays or reasons(result)["c"] == "what it is given to may be rounded differently with a constant"
    )


TWINS = """a = Mul(x, z)  g = Add(j, n)  h = Add(g, n)  i = Mod(h, n)  p = Gather(a, j)  q = Gather(a, i)
t = Transpose(q)  w = Neg(t)  y = Sub(p, z)"""


@pytest.mark.parametrize("dtype", ["float16", "float"])
def test_nodes_that_would_be_the_same(dtype: str) -> None:
    """The runtime would take the Gathers for one, and round to float16 what both are given to."""
    inputs = f"{dtype}[3,3] x, {dtype}[3,3] z"
    constants = "int64[3] j = {2, 0, 1}, int64 n = {3}"
    model = text(TWINS, inputs, constants, f"{dtype}[3,3] y, {dtype}[3,3] w")
    result = folded(model)
    assert "i" not in result.rewritten
    assert reasons(result)["i"] == MERGED


def test_nodes_that_differ_are_no_twins() -> None:
    for other in ("int64[3] j = {0, 2, 1}, int64 n = {2}", "int64[3] j = {2, 0, 4}, int64 n = {3}"):
        body = TWINS.replace("Gather(a, j)", "Gather<axis=1>(a, k)")
        constants = f"{other}, int64[3] k = {{2, 0, 1}}"
        result = folded(text(body, HALVES, constants, "float16[3,3] y, float16[3,3] w"))
        assert result.rewritten == ["i"]


def test_the_demo_model() -> None:
    model = build_model(SMALL, dtype="fp16")
    result = rewrite(model, FoldConstants(), CompressConstants(CompressConstantsOptions(min_bytes=4096)))
    before, after = op_counts(model), op_counts(result.model)
    assert sum(before.values()) > 2 * sum(after.values())
    assert after["Identity"] == before["Identity"]
    assert not after["Shape"]
    assert len(result.rewritten) < 800
    assert result.model.ByteSize() < model.ByteSize() - 1_000_000
    for level in LEVELS:
        assert_runs_same(model, result.model, random_feeds(model), level)


class TestWhatDecidesAnIf:
    def test_stays(self) -> None:
        body = """
            s = Shape (x) zero = Constant <value_int = 0> () n = Gather <axis = 0> (s, zero)
            expected = Constant <value_int = 2> () [is] is = Equal (n, expected)
            w = Sqrt (x)
            y = If (is) <then_branch = one () => (float[2,3,4] t) { t = Neg (w) },
                         else_branch = two () => (float[2,3,4] e) { e = Abs (w) }>"""
        result = folded(text(body))
        assert op_counts(result.model)["Equal"] == op_counts(result.model)["Gather"] == 1
        (reason,) = (each.reason for each in result.skipped if each.node == "is")
        assert reason == "decides an If, of which the runtime would then take a branch too soon"


def test_a_limit_of_range_that_is_no_scalar_stays() -> None:
    body = """
        [limit] n = Reshape (limits, one) one = Constant <value_ints = [1]> ()
        [range] r = Range (zero, n, step) f = Cast <to = 1> (r) y = Add (x, f)"""
    constants = "int64 zero = {0}, int64[1,1] limits = {4}, int64 step = {1}"
    model = text(body, constants=constants)
    result = fold(model)
    assert op_counts(result.model)["Reshape"] == 1
    # With optimizations the runtime makes a constant of the limit, and then does not load either of them.
    assert_runs_same(model, result.model, random_feeds(model), "disabled")
    assert isinstance(run(model, random_feeds(model), "default"), Failure)
