from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from pydantic import ValidationError

from hubpublish.demo.config import SMALL
from hubpublish.demo.model import build_model
from hubpublish.devices.fit import node_widths
from hubpublish.model import graph_statistics
from hubpublish.passes import PASSES
from hubpublish.passes.patch_grid import PatchGrid, PatchGridOptions
from tests.models.build import (
    Rewrite,
    assert_runs_same,
    bits,
    nodes,
    op_counts,
    parse,
    random_feeds,
    rewrite,
    run,
)

STEPS = {"Constant": 2, "Reshape": 2, "Transpose": 1}


def names(base: str, count: int) -> str:
    return ", ".join(f"{base}{number}" for number in range(count))


def each(text: str, count: int) -> str:
    """The text once for each number, in place of #."""
    return " ".join(text.replace("#", str(number)) for number in range(count))


def text(
    body: str,
    inputs: str = "int32[3,8,12] x",
    constants: str = "",
    *,
    outputs: str = "int32 y",
    opset: int = 17,
    functions: str = "",
) -> onnx.ModelProto:
    model = parse(f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1, "local": 1]>
        g ({inputs}) => ({outputs})
        <int64[1] a0 = {{0}}, int64[1] a1 = {{1}}{constants}> {{ {body} }} {functions}""")
    for output in model.graph.output:
        if not output.type.tensor_type.shape.dim:
            output.type.tensor_type.ClearField("shape")
    return model


def grid(x: str = "x", y: str = "y", *, columns: int = 4, rows: int = 2, by_row: bool = False) -> str:
    """Splits of x along its last two axes, and all pieces [1, C, h, w] in one Concat along axis 1."""
    pieces = [f"{x}u{g}_{k}" for g in range(columns) for k in range(rows)]
    if by_row:
        pieces = [f"{x}u{g}_{k}" for k in range(rows) for g in range(columns)]
    body = f"{names(f'{x}c', columns)} = Split<axis = -1>({x}) "
    for column in range(columns):
        body += f"{names(f'{x}p{column}_', rows)} = Split<axis = -2>({x}c{column}) "
        body += each(f"{x}u{column}_# = Unsqueeze({x}p{column}_#, a0) ", rows)
    return body + f"[cat] {y} = Concat<axis = 1>({', '.join(pieces)})"


def of_pieces(order: Sequence[int], split: str = "Split<axis = 0>(x)", count: int = 4) -> str:
    chosen = ", ".join(f"p{number}" for number in order)
    return f"{names('p', count)} = {split} y = Concat<axis = 1>({chosen})"


def apply(model: onnx.ModelProto, least: int = 2) -> Rewrite:
    result = rewrite(model, PatchGrid(PatchGridOptions(min_pieces=least)))
    again = rewrite(result.model, PatchGrid(PatchGridOptions(min_pieces=least)))
    assert again.model.SerializeToString() == result.model.SerializeToString()
    return result


def assert_rewritten(
    model: onnx.ModelProto, least: int = 2, feeds: Iterable[dict[str, Any]] | None = None
) -> Rewrite:
    result = apply(model, least)
    assert result.rewritten, result.skipped
    for feed in feeds or [random_feeds(model, seed) for seed in range(2)]:
        for level in ("disabled", "default"):
            assert_runs_same(model, result.model, feed, level)
    return result


def assert_left_alone(model: onnx.ModelProto, *reasons: str, least: int = 2) -> None:
    result = apply(model, least)
    assert not result.rewritten
    assert [skip.reason for skip in result.skipped] == list(reasons)
    assert result.model == model


def targets(model: onnx.ModelProto) -> list[list[int]]:
    """The numbers of every Reshape and Transpose, in order."""
    constants = {
        node.output[0]: list(onnx.numpy_helper.to_array(node.attribute[0].t))
        for node in nodes(model, "Constant")
        if node.attribute[0].name == "value"
    }
    return [
        list(node.attribute[0].ints) if node.op_type == "Transpose" else constants[node.input[1]]
        for node in nodes(model, "Reshape", "Transpose")
    ]


# What is rewritten


def test_the_grid_of_birefnet() -> None:
    model = text(grid())
    result = assert_rewritten(model, least=8)
    assert op_counts(result.model) == STEPS
    assert targets(result.model) == [[3, 2, 4, 4, 3], [3, 1, 0, 2, 4], [1, 24, 4, 3]]
    (done,) = result.outcomes[0].rewritten
    assert (done.node, done.op, done.scope, done.into) == ("cat", "Concat", "main", STEPS)
    feeds = random_feeds(model)
    expected = feeds["x"].reshape(3, 2, 4, 4, 3).transpose(3, 1, 0, 2, 4).reshape(1, 24, 4, 3)
    assert bits(run(result.model, feeds)[0]) == bits(expected)


def test_row_by_row() -> None:
    result = assert_rewritten(text(grid(by_row=True)))
    assert targets(result.model)[1] == [1, 3, 0, 2, 4]


@pytest.mark.parametrize("opset", range(7, 26))
def test_opsets(opset: int) -> None:
    model = text(grid(), opset=opset)
    for node in nodes(model):
        if node.op_type == "Unsqueeze" and opset < 13:
            del node.input[1]
            node.attribute.append(onnx.helper.make_attribute("axes", [0]))
        if node.op_type == "Split" and opset >= 18:
            node.attribute.append(onnx.helper.make_attribute("num_outputs", len(node.output)))
    if opset < 13:
        del model.graph.initializer[:]
    assert op_counts(assert_rewritten(model).model) == STEPS


@pytest.mark.parametrize(
    "dtype", ["float", "float16", "double", "int8", "uint8", "int64", "uint64", "bool", "string"]
)
def test_dtypes(dtype: str) -> None:
    model = text(grid(), f"{dtype}[3,8,12] x", outputs=f"{dtype} y")
    assert op_counts(assert_rewritten(model).model) == STEPS


def test_strings_that_gather_takes() -> None:
    body = "p0 = Gather<axis = 0>(x, low) p1 = Gather<axis = 0>(x, high) y = Concat<axis = 1>(p0, p1)"
    constants = ", int64[2] low = {0, 1}, int64[2] high = {2, 3}"
    assert_rewritten(text(body, "int32[4,3] x", constants))
    reason = "its pieces may be strings, of which Gather copies one a row in ONNX Runtime"
    assert_left_alone(text(body, "string[4,3] x", constants, outputs="string y"), reason)


def test_bfloat16() -> None:
    assert apply(text(grid(), "bfloat16[3,8,12] x", outputs="bfloat16 y")).rewritten  # numpy has no values


@pytest.mark.parametrize(
    ("split", "constants", "opset"),
    [
        ("Split<axis = 1>(x)", "", 13),
        ("Split<axis = -1>(x)", "", 7),
        ("Split<axis = 1, split = [3, 3, 3, 3]>(x)", "", 12),
        ("Split<axis = 1>(x, sizes)", ", int64[4] sizes = {3, 3, 3, 3}", 13),
        ("Split<axis = 1, num_outputs = 4>(x)", "", 18),
    ],
)
def test_how_sizes_are_given(split: str, constants: str, opset: int) -> None:
    model = text(
        f"{names('p', 4)} = {split} y = Concat<axis = 0>({names('p', 4)})",
        "int32[2,12] x",
        constants,
        opset=opset,
    )
    if opset < 13:
        del model.graph.initializer[:]
    result = assert_rewritten(model)
    assert op_counts(result.model) == STEPS
    assert "sizes" not in [tensor.name for tensor in result.model.graph.initializer]


def test_sizes_behind_identities_go_with_the_split() -> None:
    body = f"""k = Constant<value_ints = [3, 3, 3, 3]>() i = Identity(k)
        {names("p", 4)} = Split<axis = 1>(x, i) y = Concat<axis = 0>({names("p", 4)})"""
    assert op_counts(assert_rewritten(text(body, "int32[2,12] x")).model) == STEPS


@pytest.mark.parametrize(
    "pieces",
    [
        "c# = Gather<axis = 0>(x, i#) ",
        "g# = Gather<axis = 0>(x, v#) c# = Squeeze(g#, a0) ",
        "g# = Slice(x, v#, v#e) c# = Squeeze(g#, a0) ",
        "g# = Slice(x, v#, v#e, a0, a1) c# = Squeeze(g#) ",
        "g# = Gather<axis = 0>(x, n#) c# = Reshape(g#, flat) ",
    ],
)
def test_an_image_out_of_a_stack_of_pieces(pieces: str) -> None:
    constants = "".join(
        f""", int64 i{n} = {{{n}}}, int64[1] v{n} = {{{n}}}, int64[1] v{n}e = {{{n + 1}}},
        int64[1] n{n} = {{{n - 6}}}"""
        for n in range(6)
    )
    model = text(
        each(pieces, 6) + "r0 = Concat<axis = -1>(c0, c1, c2) r1 = Concat<axis = -1>(c3, c4, c5)"
        "y = Concat<axis = -2>(r0, r1)",
        "int32[6,3,4,5] x",
        constants + ", int64[3] flat = {3, 4, 5}",
    )
    result = assert_rewritten(model)
    assert op_counts(result.model) == STEPS
    assert targets(result.model) == [[2, 3, 3, 4, 5], [2, 0, 3, 1, 4], [3, 8, 15]]


def test_channels_back_to_an_image() -> None:
    rows = "".join(
        f"r{row} = Concat<axis = 3>({names('p', 16).split(', ')[row * 4 : row * 4 + 4]}) " for row in range(4)
    )
    body = f"{names('p', 16)} = Split<axis = 1>(x) {rows} y = Concat<axis = 2>(r0, r1, r2, r3)"
    model = text(body.translate(str.maketrans("", "", "'[]")), "int32[1,48,5,7] x")
    result = assert_rewritten(model, least=16)
    assert targets(result.model) == [[4, 4, 3, 5, 7], [2, 0, 3, 1, 4], [1, 3, 20, 28]]


def test_a_split_along_one_axis_in_two_steps() -> None:
    body = "a, b = Split<axis = 0>(x) " + each("p#_0, p#_1, p#_2 = Split<axis = 0>(#) ", 0)
    body += "a0_, a1_, a2_ = Split<axis = 0>(a) b0_, b1_, b2_ = Split<axis = 0>(b) "
    model = text(body + "y = Concat<axis = 1>(a0_, b0_, a1_, b1_, a2_, b2_)", "int32[12,5] x")
    assert targets(assert_rewritten(model).model) == [[2, 3, 2, 5], [2, 1, 0, 3], [2, 30]]


def test_one_piece_after_the_other_is_split_off() -> None:
    body = """s = Constant<value_ints = [2, 6]>() t = Constant<value_ints = [2, 4]>()
        p0, q0 = Split(x, s) p1, q1 = Split(q0, t) p2, p3 = Split(q1) y = Concat<axis = 1>(p0, p1, p2, p3)"""
    assert targets(assert_rewritten(text(body, "int32[8,3] x")).model) == [[4, 2, 3], [1, 0, 2], [2, 12]]


def test_the_samples_of_a_batch() -> None:
    body = "s = Gather<axis = 0>(x, i0) t = Gather<axis = 0>(x, i1) " + grid("s", "m") + grid("t", "n")
    body = body.replace("[cat] ", "") + " [cat] y = Concat<axis = 0>(m, n)"
    result = assert_rewritten(text(body, "int32[2,3,8,12] x", ", int64 i0 = {0}, int64 i1 = {1}"))
    assert op_counts(result.model) == STEPS
    assert targets(result.model) == [[2, 3, 2, 4, 4, 3], [0, 4, 2, 1, 3, 5], [2, 24, 4, 3]]


def test_a_lone_split_that_is_stacked() -> None:
    body = f"{names('p', 4)} = Split<axis = 2>(x) " + each("u# = Unsqueeze(p#, a0) ", 4)
    result = assert_rewritten(text(body + f"y = Concat<axis = 0>({names('u', 4)})"))
    # The 4 columns are taken apart as well, or the Transpose could be moved.
    assert targets(result.model) == [[3, 8, 2, 2, 3], [2, 3, 0, 1, 4], [4, 3, 8, 3]]


def test_a_lone_split_whose_pieces_stay_in_their_order() -> None:
    body = f"{names('p', 4)} = Split<axis = 0>(x) y = Concat<axis = 1>({names('p', 4)})"
    result = assert_rewritten(text(body, "float[4,3] x", outputs="float y"))
    assert targets(result.model) == [[1, 12]]


def test_concats_between_which_axes_of_length_1_change() -> None:
    body = f"{names('p', 4)} = Split<axis = 1>(x) l = Concat<axis = 0>(p0, p1) r = Concat<axis = 0>(p2, p3) "
    body += "lu = Unsqueeze(l, a0) li = Identity(lu) ru = Reshape(r, to) y = Concat<axis = 0>(li, ru)"
    result = assert_rewritten(text(body, "int32[5,8] x", ", int64[3] to = {1, 10, 2}"))
    assert op_counts(result.model) == STEPS
    assert targets(result.model) == [[5, 2, 2, 2], [1, 2, 0, 3], [2, 10, 2]]


def test_a_concat_of_one_input() -> None:
    result = assert_rewritten(text(grid(y="m") + " y = Concat<axis = 0>(m)"))
    assert result.rewritten == ["y"]
    assert op_counts(result.model) == STEPS


def test_a_grid_of_a_grid() -> None:
    body = grid(y="m").replace("[cat]", "[first]") + " q = Squeeze(m, a0) " + grid("q", columns=3, rows=4)
    result = assert_rewritten(text(body))
    assert result.rewritten == ["first", "cat"]
    direct = of_pieces(range(4)).replace("y =", "m =") + f" {names('q', 4)} = Split<axis = 1>(m)"
    direct += f" y = Concat<axis = 0>({names('q', 4)})"
    assert assert_rewritten(text(direct, "int32[8,5] x")).rewritten == ["m", "y"]
    loaded = ir.from_proto(text(direct, "int32[8,5] x"))
    PatchGrid(PatchGridOptions(min_pieces=2))(loaded)
    taken = [value.producer() for node in loaded.graph for value in node.inputs if value is not None]
    assert all(node.graph is loaded.graph for node in taken if node is not None)
    assert op_counts(result.model) == {"Constant": 4, "Reshape": 4, "Transpose": 2, "Squeeze": 1}


def test_pieces_of_one_tensor_beside_another_tensor() -> None:
    result = assert_rewritten(
        text(grid(y="m") + " y = Concat<axis = 1>(m, z)", "int32[3,8,12] x, int32[1,5,4,3] z")
    )
    assert result.rewritten == ["cat"]
    assert op_counts(result.model) == STEPS | {"Concat": 1}


# Lengths that are not certain


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_any_batch(batch: int) -> None:
    body = grid().replace("axis = 1>", "axis = 2>")
    model = text(body, "int32[N,3,8,12] x")
    result = assert_rewritten(model, feeds=[random_feeds(model, N=batch)])
    assert targets(result.model) == [[0, 3, 2, 4, 4, 3], [0, 4, 2, 1, 3, 5], [1, -1, 24, 4, 3]]
    plain = text(
        f"{names('p', 4)} = Split<axis = 1>(x) y = Concat<axis = 0>({names('p', 4)})", "int32[N,8] x"
    )
    result = assert_rewritten(plain, feeds=[random_feeds(plain, N=batch)])
    assert targets(result.model) == [[0, 4, 2], [1, 0, 2], [-1, 2]]


@pytest.mark.parametrize(("shape", "cut", "joined"), [("8,M,N", 0, 1), ("N,M,8", 2, 1)])
def test_more_lengths_than_can_be_left_open(shape: str, cut: int, joined: int) -> None:
    body = f"{names('p', 4)} = Split<axis = {cut}>(x) y = Concat<axis = {joined}>({names('p', 4)})"
    model = text(body, f"int32[{shape}] x")
    assert_left_alone(model, "more lengths are not certain than a Reshape can leave open")


def test_a_length_that_only_a_reshape_of_pieces_leaves_open() -> None:
    body = f"{names('p', 4)} = Split<axis = 1>(x) " + each("u# = Reshape(p#, to) ", 4)
    body += f"y = Concat<axis = 0>({names('u', 4)})"
    model = text(body, "int32[N,8,3] x", ", int64[4] to = {1, -1, 2, 3}")
    assert_rewritten(model, feeds=[random_feeds(model, N=size) for size in (0, 1, 4)])
    model = text(body, "int32[N,8,3] x, int64[4] to")  # who knows what to
    assert_left_alone(model, "it is not certain which pieces Reshape u0 makes")


def test_what_the_model_claims_proves_nothing() -> None:
    model = text(
        f"h = other.Op(x) {names('p', 4)} = Split<axis = 0>(h) y = Concat<axis = 1>({names('p', 4)})"
    )
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("h", onnx.TensorProto.INT32, [8, 3]))
    assert_left_alone(model, "the shape of 'h', which it puts together again, is not certain")
    model = text(
        f"{names('p', 4)} = Split<axis = 0>(x) y = Concat<axis = 1>({names('p', 4)})", "int32[N,3] x"
    )
    assert_left_alone(model, "the length that Split p0 cuts is not certain")


# What is left alone


NOT_ALL = "its pieces are not all pieces of one tensor, each one once"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (of_pieces([0, 2, 1, 3, 4, 5], count=6), "its pieces are in no regular order"),
        (of_pieces([3, 2, 1, 0]), "its pieces are in no regular order"),
        (of_pieces([1, 2, 3, 0]), "its pieces are in no regular order"),
        (of_pieces([0, 1, 1, 3]), NOT_ALL),
        (of_pieces([0, 1, 2]), NOT_ALL),
        (of_pieces([0, 1, 2, 3, 0]), NOT_ALL),
        (of_pieces([0, 1], "Split<axis = 0>(x, rest)", 3), NOT_ALL),
        (of_pieces([0, 1, 2, 3], "Split<axis = 0>(x, sizes)"), "its pieces differ in size"),
        (of_pieces([1, 2], "Split<axis = 0>(x, half)"), "its pieces do not lie in a grid"),
        (
            "p0, p1 = Split<axis = 0>(x) p2, p3 = Split<axis = 1>(x) y = Concat<axis = 0>(p0, p1, p2, p3)",
            "its pieces differ in size",
        ),
        ("p0, p1 = Split<axis = 0>(x) a = Transpose(p0) y = Concat<axis = 1>(a, p1)", None),
        ("y = Concat<axis = 0>(x, x, x)", None),
        (
            "p0, p1 = Split<axis = 0>(x) y = Concat<axis = 0>(p0, p1)",
            "its pieces are put together as they were",
        ),
        (
            "p0, p1 = Split<axis = 0>(x) l = Reshape(p0, to) r = Reshape(p1, to) y = Concat<axis = 0>(l, r)",
            "Reshape l changes more of its pieces than axes of length 1",
        ),
        (
            "p0 = Gather<axis = 0>(x, back) p1 = Gather<axis = 0>(x, back) y = Concat<axis = 0>(p0, p1)",
            "Gather p0 does not take neighbours in their order",
        ),
        (
            "p0 = Slice(x, a0, end, a0, two) p1 = Slice(x, a1, end, a0, two) y = Concat<axis = 0>(p0, p1)",
            "it is not certain which pieces Slice p0 makes",
        ),
    ],
)
def test_what_is_no_grid(body: str, reason: str | None) -> None:
    constants = """, int64[4] sizes = {2, 2, 4, 4}, int64[3] rest = {5, 5, 2}, int64[4] half = {2, 4, 4, 2},
        int64[2] to = {2, -1}, int64[2] back = {1, 0}, int64[1] end = {99}, int64[1] two = {2}"""
    assert_left_alone(text(body, "int32[12,12] x", constants), *([reason] if reason else []))


def test_sizes_that_are_computed() -> None:
    body = of_pieces([0, 1, 2, 3], "Split<axis = 0>(x, given)")
    model = text(body, "int32[12,12] x, int64[4] given")
    assert_left_alone(model, "of Split p0: its sizes are computed at run time")


def test_axes_of_length_1_in_different_places() -> None:
    body = "p0, p1 = Split(x) l = Unsqueeze(p0, a0) r = Unsqueeze(p1, at) y = Concat<axis = 0>(l, r)"
    assert_rewritten(text(body, "int32[2,3] x", ", int64[1] at = {1}"))
    wrong = text(body, "int32[2,3] x", ", int64[1] at = {2}")
    assert_left_alone(wrong, "its pieces differ in their axes")
    body = """p0, p1 = Split(x) c0 = Concat<axis = 0>(p0) c1 = Concat<axis = 0>(p1)
        l = Unsqueeze(c0, a0) r = Unsqueeze(c1, a1) y = Concat<axis = 2>(l, r)"""
    assert_left_alone(text(body, "int32[6,2] x"), "its pieces differ in their axes")


def test_empty_tensors() -> None:
    assert_left_alone(
        text(of_pieces([0, 1, 2, 3]), "int32[8,0] x"), "'x', which it puts together again, is empty"
    )
    zeros = of_pieces([0, 1, 2, 3], "Split<axis = 0>(x, sizes)")
    assert_left_alone(
        text(zeros, "int32[8,1] x", ", int64[4] sizes = {0, 4, 4, 0}"), "one of its pieces is empty"
    )


def test_sizes_that_do_not_fit_still_fail() -> None:
    body = of_pieces([0, 1, 2, 3], "Split<axis = 0>(x, sizes)")
    reason = "of Split p0: an axis of length 9 cannot be split so; the model is not valid"
    assert_left_alone(text(body, "int32[9,1] x", ", int64[4] sizes = {2, 2, 2, 2}"), reason)


def test_sizes_that_a_caller_may_override() -> None:
    body = of_pieces([0, 1, 2, 3], "Split<axis = 0>(x, sizes)")
    model = text(body, "int32[8,1] x, int64[4] sizes = {2, 2, 2, 2}")
    reason = "of Split p0: its sizes are an initializer that a caller may override, so they are not certain"
    assert_left_alone(model, reason)
    model = text(f"{names('p', 4)} = Split<axis = 0>(x) " + each("u# = Unsqueeze(p#, at) ", 4)
                 + f"y = Concat<axis = 1>({names('u', 4)})", "int32[8,1] x, int64[1] at = {0}")  # fmt: skip
    assert_left_alone(model, "it is not certain which pieces Unsqueeze u0 makes")


def test_an_empty_input_of_a_concat() -> None:
    model = text(of_pieces([0, 1, 2, 3]), "int32[8,1] x")
    model.graph.node[-1].input[2] = ""
    assert_left_alone(model)


def test_a_type_that_concat_does_not_take() -> None:
    model = text("h = Cast<to = 17>(x) " + of_pieces([0, 1, 2, 3], "Split<axis = 0, num_outputs = 4>(h)"),
                 "float[8,3] x", outputs="float8e4m3fn y", opset=21)  # fmt: skip
    assert_left_alone(model, "its pieces are of a type that Concat of opset 21 does not take")


def test_types_that_contradict_each_other() -> None:
    model = text(of_pieces([0, 1, 2, 3]), "int32[8,3] x")
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("p2", onnx.TensorProto.INT64, None))
    assert_left_alone(model, "its pieces are declared to be of different types; the model is not valid")


def test_foreign_operators_and_functions_of_the_model() -> None:
    model = text("p0, p1 = other.Split<axis = 0>(x) y = Concat<axis = 1>(p0, p1)", "int32[8,3] x")
    assert_left_alone(model)
    model = text(
        "p0, p1 = Split<axis = 0>(x) u = other.Unsqueeze(p0, a0) y = Concat<axis = 1>(u, p1)", "int32[8,3] x"
    )
    assert_left_alone(model)


# What the runtime may make of it: see patch_grid_steps and patch_grid_site


@pytest.mark.parametrize("tail", ["y = MatMul(m, w)", "y = ReduceSum(m, a1)", "y = Gemm(m, w)"])
def test_a_transpose_that_could_be_fused(tail: str) -> None:
    pieces = each("s# = Squeeze(p#, a1) u# = Unsqueeze(s#, a0) ", 8)
    body = f"h = Exp(x) {names('p', 8)} = Split<axis = 1>(h) {pieces}"
    body += f"m = Concat<axis = 0>({names('u', 8)}) {tail}"
    result = assert_rewritten(text(body, "float[300,8] x, float[300,5] w", outputs="float y"))
    assert targets(result.model) == [[300, 2, 4], [1, 2, 0], [8, 300]]


def test_a_transpose_that_nothing_keeps_in_its_place() -> None:
    pieces = each("s# = Squeeze(p#, a1) u# = Unsqueeze(s#, a0) ", 7)
    body = f"{names('p', 7)} = Split<axis = 1>(x) {pieces} y = Concat<axis = 0>({names('u', 7)})"
    assert_left_alone(
        text(body, "int32[5,7] x"), "it is but a Transpose, which the runtime may fuse with other nodes"
    )


def test_pieces_of_what_was_transposed() -> None:
    body = "t = Transpose<perm = [2, 0, 1]>(x) h = Exp(t) " + grid("h")
    reason = "its pieces come from a Transpose, which the runtime may move behind them"
    assert_left_alone(text(body, "float[8,12,3] x", outputs="float y"), reason)
    convolved = body.replace("h = Exp(t)", "h = MatMul(t, w)")
    assert_rewritten(text(convolved, "float[8,12,3] x, float[12,12] w", outputs="float y"))
    whole = body.replace("h = Exp(t)", "h = Neg(t)")
    assert_rewritten(text(whole, "int32[8,12,3] x"))


def test_float16_is_rounded_where_it_was() -> None:
    body = f"h = MatMul(x, w) {names('p', 4)} = Split<axis = 0>(h) m = Concat<axis = 1>({names('p', 4)}) "
    body += "y = MatMul(m, v)"
    inputs = "float16[8,3] x, float16[3,3] w, float16[12,3] v"
    assert_rewritten(text(body, inputs, outputs="float16 y"))
    model = text(body.replace("Split<axis = 0>", "Split<axis = 1>").replace("axis = 1>(p", "axis = 0>(p"),
                 "float16[8,3] x, float16[3,4] w, float16[1,3] v", outputs="float16 y")  # fmt: skip
    assert_rewritten(model)
    reason = "it is but a Reshape, at which the runtime may not round what may be float16"
    assert_left_alone(text(body, inputs.replace("[8,3]", "[4,3]"), outputs="float16 y"), reason)
    used = body + " z = MatMul(p1, w)"
    reason = "one of its pieces, which may be float16, has another use"
    assert_left_alone(text(used, inputs, outputs="float16 y, float16 z"), reason)
    assert_left_alone(text(body, inputs, outputs="float16 y, float16 p1"), reason)


# Pieces with another use


def test_the_split_of_a_piece_that_is_used_stays() -> None:
    result = assert_rewritten(text(grid() + " z = Neg(xp2_1)", outputs="int32 y, int32 z"))
    assert op_counts(result.model) == STEPS | {"Split": 2, "Neg": 1}  # that of x, and that of its column 2


def test_a_piece_that_is_an_output_stays() -> None:
    result = assert_rewritten(text(grid(), outputs="int32 y, int32 xu1_1"))
    assert op_counts(result.model) == STEPS | {"Split": 2, "Unsqueeze": 1}


def test_a_piece_that_a_body_uses_stays() -> None:
    body = """ z = If(c) <then_branch = t () => (int32 a) { a = Neg(xp0_0) },
                          else_branch = e () => (int32 b) { b = Identity(xp0_0) }>"""
    model = text(grid() + body, "bool c, int32[3,8,12] x", outputs="int32 y, int32 z")
    feeds = [{**random_feeds(model), "c": np.array(value)} for value in (True, False)]
    result = assert_rewritten(model, feeds=feeds)
    assert op_counts(result.model)["Split"] == 2


def test_a_concat_inside_that_has_another_use() -> None:
    body = of_pieces([0, 1, 2, 3]).replace("y =", "m =")
    body += " n = Concat<axis = 0>(m, m) y = Concat<axis = 0>(n, m)"
    assert assert_rewritten(text(body, "int32[8,3] x")).rewritten == ["m"]


def test_inner_concats_where_the_outer_order_is_irregular() -> None:
    body = of_pieces([0, 2, 4, 1, 3, 5], count=6).replace("y =", "l =")
    body += " q5, q4, q3, q2, q1, q0 = Split<axis = 0>(x) r = Concat<axis = 1>(q0, q1, q2, q3, q4, q5)"
    result = assert_rewritten(text(body + " y = Concat<axis = 0>(l, r)", "int32[12,5] x"))
    assert result.rewritten == ["l"]
    assert [(skip.node, skip.reason) for skip in result.skipped] == [
        ("r", "its pieces are in no regular order"),
        ("y", NOT_ALL),
    ]


# Options


def test_few_pieces_run_as_they_are() -> None:
    model = text(of_pieces(range(7), count=7), "int32[14,3] x")
    assert_left_alone(model, least=8)
    assert apply(model, least=7).rewritten
    assert PatchGridOptions().min_pieces == 8
    with pytest.raises(ValidationError):
        PatchGridOptions(min_pieces=1)


def test_only_the_first_so_many() -> None:
    body = grid(y="m").replace("[cat]", "[first]") + " q = Squeeze(m, a0) " + grid("q", columns=3, rows=4)
    model = text(body)
    for limit, expected in ((0, []), (1, ["first"]), (2, ["first", "cat"])):
        result = rewrite(model, PatchGrid(limit=limit))
        assert result.rewritten == expected
        assert_runs_same(model, result.model, random_feeds(model))


# Scopes and names


def test_bodies_and_functions() -> None:
    inner = grid("h", "p").replace("[cat]", "")
    model = text(
        f"""z = If(c) <then_branch = t () => (int32 p) {{ h = Abs(x) {inner} }},
                       else_branch = e () => (int32 q) {{ {inner.replace("h", "x").replace("p =", "q =")} }}>
        y = local.F(x)""",
        "bool c, int32[3,8,12] x",
        outputs="int32 y, int32 z",
        functions=f"""<domain: "local", opset_import: ["": 17]> F (i) => (o) {{
            to = Constant<value_ints = [3, 8, 12]>() a0 = Constant<value_ints = [0]>() f = Reshape(i, to)
            {grid("f", "o")} }}""",
    )
    feeds = [{**random_feeds(model), "c": np.array(value)} for value in (True, False)]
    result = assert_rewritten(model, feeds=feeds)
    scopes = [done.scope for done in result.outcomes[0].rewritten]
    assert scopes == ["main/z.then_branch", "main/z.else_branch", "local::F"]
    assert not nodes(result.model, "Split", "Concat", "Unsqueeze")


def test_what_a_function_is_given_has_no_certain_shape() -> None:
    function = f'<domain: "local", opset_import: ["": 17]> F (x) => (y) {{ {of_pieces([0, 1, 2, 3])} }}'
    model = text("y = local.F(x)", "int32[8,3] x", functions=function)
    assert_left_alone(model, "the shape of 'x', which it puts together again, is not certain")


def test_pieces_from_around_a_body_stay_pieces() -> None:
    # What they are cut from could not be named in the body: there x is something else.
    model = text(
        f"""{names("p", 4)} = Split<axis = 0>(x)
        y = Loop(n, c, x) <body = b (int64 i, bool d, int32[8,3] x) => (bool e, int32[8,3] w) {{
            e = Identity(d) m = Concat<axis = 1>({names("p", 4)}) t = Reshape(m, to) w = Add(x, t) }}>""",
        "int64 n, bool c, int32[8,3] x",
        ", int64[2] to = {8, 3}",
    )
    assert_left_alone(model)


@pytest.mark.parametrize(
    ("declared", "trips"), [("int32[2,12] m", 0), ("int32[2,12] m", 2), ("int32[A,B] m", 0)]
)
def test_a_loop_may_not_run_even_once(declared: str, trips: int) -> None:
    model = text(
        f"""y = Loop(n, c) <body = b (int64 i, bool d) => (bool e, {declared}) {{
            e = Identity(d) k = Identity(to) h = Reshape(x, k)
            {of_pieces([0, 1, 2, 3], "Split<axis = 0>(h)").replace("y =", "m =")} }}>""",
        "int64 n, bool c, int32[24] x",
        ", int64[2] to = {8, 3}",
    )
    feeds = {**random_feeds(model), "n": np.array(trips), "c": np.array(True)}
    if "A" in declared:
        reason = "the runtime may infer more of its shape than before, on which a Loop may depend"
        assert_left_alone(model, reason)
    else:
        assert_rewritten(model, feeds=[feeds])


def test_names_do_not_clash() -> None:
    model = text(grid() + " z = Neg(x)", outputs="int32 y, int32 z")
    model.graph.node[-1].name = "cat/Reshape_0"
    model.graph.node[-1].output[0] = model.graph.output[1].name = "cat/Transpose_output_0"
    result = assert_rewritten(model)
    made = [name for node in nodes(result.model) for name in (node.name, *node.output) if name]
    assert len(made) == len(set(made))


def test_what_was_said_of_the_result_is_kept_and_of_the_pieces_goes() -> None:
    model = text(grid(y="m") + " y = Neg(m)")
    info = onnx.helper.make_tensor_value_info
    model.graph.value_info.extend(
        [info("m", onnx.TensorProto.INT32, [1, 24, 4, 3]), info("xp0_0", 6, [3, 4, 3])]
    )
    model.graph.node[-2].doc_string = "a grid"
    result = assert_rewritten(model)
    assert [each.name for each in result.model.graph.value_info] == ["m"]
    assert next(node for node in result.model.graph.node if node.output[0] == "m").doc_string == "a grid"


# The whole model


def test_no_wide_split_or_concat_is_left_in_the_demo_model() -> None:
    model = ir.from_proto(build_model(SMALL))
    before = graph_statistics(model).ops
    outcome = PatchGrid()(model)
    assert len(outcome.rewritten) == 4
    assert not outcome.skipped
    after = graph_statistics(model).ops
    removed = {op: before[op] - after[op] for op in before if before[op] != after[op]}
    assert removed == {
        "Constant": 1416,
        "Unsqueeze": 1360,
        "Split": 64,
        "Concat": 8,
        "Reshape": -8,
        "Transpose": -4,
    }
    assert max(width.slots for width in node_widths(model) if width.op in ("Split", "Concat")) <= 8
    assert not PatchGrid()(model).modified


def test_what_is_left_is_for_the_trees() -> None:
    assert list(PASSES).index("patch_grid") < list(PASSES).index("concat_tree")
    model = text(grid() + f" {names('s', 12)} = Split<axis = 2>(x) z = Concat<axis = 0>({names('s', 11)})",
                 outputs="int32 y, int32 z, int32 s11")  # fmt: skip
    result = rewrite(model, *(PASSES[name]() for name in ("patch_grid", "concat_tree", "split_tree")))
    assert_runs_same(model, result.model, random_feeds(model))
    assert [len(outcome.rewritten) for outcome in result.outcomes] == [1, 1, 1]
