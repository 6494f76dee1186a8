from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import onnx.reference
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from pydantic import ValidationError

from hubpublish.passes.split_tree import SplitTree, SplitTreeOptions
from tests.models.build import (
    Failure,
    Rewrite,
    assert_runs_same,
    assert_same,
    bits,
    depth_of,
    levels_needed,
    nodes,
    op_counts,
    parse,
    random_feeds,
    random_values,
    rewrite,
    run,
    split_text,
)

DTYPES = {"float": np.float32, "float16": np.float16, "int64": np.int64, "bool": np.bool_, "string": object}
SIZES = [2, 0, 1, 3, 1, 1, 0]  # of seven parts
TOTAL = sum(SIZES)
LIST = ", ".join(map(str, SIZES))


def narrowed(model: onnx.ModelProto, width: int = 5) -> Rewrite:
    """The model after the pass; no Split is wider than ``width``, and a second run changes nothing."""
    split = SplitTree(SplitTreeOptions(max_outputs=width))
    result = rewrite(model, split)
    assert max(len(node.output) for node in nodes(result.model, "Split")) <= width
    again = rewrite(result.model, SplitTree(SplitTreeOptions(max_outputs=width)))
    assert again.model.SerializeToString() == result.model.SerializeToString()
    twin = rewrite(model, SplitTree(SplitTreeOptions(max_outputs=width)))
    assert twin.model.SerializeToString() == result.model.SerializeToString()
    return result


def left_alone(model: onnx.ModelProto) -> str:
    """The reason why the only wide Split was left as it was."""
    result = rewrite(model, SplitTree())
    assert not result.rewritten
    assert [skip.node for skip in result.skipped] == ["sp"]
    assert result.model == model
    return result.skipped[0].reason


# Property tests: whatever the form, the same bits, or failure of both


def shape_for(axis: int, rank: int, length: str) -> str:
    dims = [f"k{number}" for number in range(rank)]
    dims[axis] = length
    return ",".join(dims)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_sizes(data: st.DataObject) -> None:
    count, width = data.draw(st.integers(2, 30)), data.draw(st.integers(2, 8))
    rank, opset = data.draw(st.integers(1, 3)), data.draw(st.integers(7, 25))
    axis = data.draw(st.integers(0 if opset < 11 else -rank, rank - 1))
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    wrong = data.draw(st.sampled_from([0, 0, 0, 1, -1]))  # a length that the sizes do not add up to fails
    listed = ", ".join(map(str, sizes))
    form = data.draw(st.sampled_from(["initializer", "value", "value_ints", "identities"]))
    before = {
        "value": f"sizes = Constant<value = int64[{count}] {{{listed}}}>()",
        "value_ints": f"sizes = Constant<value_ints = [{listed}]>()",
        "identities": "first = Identity(given) sizes = Identity(first)",
    }
    name = "given" if form == "identities" else "sizes"
    inside = {"initializers": f"int64[{count}] {name} = {{{listed}}}"}
    model = parse(
        split_text(
            count,
            opset=opset,
            axis=f"axis = {axis}",
            shape=shape_for(axis, rank, "N"),
            dtype=dtype,
            **(
                {"attributes": f"split = [{listed}]"}
                if opset < 13
                else {
                    "sizes": "sizes",
                    "before": before.get(form, ""),
                    **(inside if form in ("initializer", "identities") else {}),
                }
            ),
        )
    )
    result = narrowed(model, width)
    shape = [2] * rank
    shape[axis] = max(0, sum(sizes) + wrong)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    feeds = {"x": random_values(rng, DTYPES[dtype], tuple(shape))}
    if sum(sizes) == shape[axis]:
        assert_runs_same(model, result.model, feeds)
    assert_same(model, result.model, feeds)
    assert set(op_counts(result.model)) <= {"Split", "Constant", "Identity"}
    assert depth_of(result.model.graph, "Split") == max(1, levels_needed(count, width))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_equal_parts(data: st.DataObject) -> None:
    count, width = data.draw(st.integers(2, 24)), data.draw(st.integers(2, 8))
    rank, opset = data.draw(st.integers(1, 3)), data.draw(st.integers(7, 25))
    axis = data.draw(st.integers(0 if opset < 11 else -rank, rank - 1))
    length = data.draw(st.one_of(st.integers(0, 4).map(lambda part: part * count), st.integers(0, 60)))
    declared = data.draw(st.sampled_from(["N", str(length)]))
    model = parse(
        split_text(
            count,
            opset=opset,
            axis=f"axis = {axis}",
            shape=shape_for(axis, rank, declared),
            attributes=f"num_outputs = {count}" if opset >= 18 else "",
        )
    )
    result = rewrite(model, SplitTree(SplitTreeOptions(max_outputs=width)))
    shape = [2] * rank
    shape[axis] = length
    feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    if length % count == 0:
        assert_runs_same(model, result.model, feeds)
    assert_same(model, result.model, feeds)
    if result.skipped:
        assert opset < (13 if declared == "N" else 18)
        assert (declared == "N") or length % count
        assert result.model == model
    else:
        assert max(len(node.output) for node in nodes(result.model, "Split")) <= width
    again = rewrite(result.model, SplitTree(SplitTreeOptions(max_outputs=width)))
    assert again.model.SerializeToString() == result.model.SerializeToString()


@settings(max_examples=40, deadline=None)
@given(st.integers(18, 25), st.integers(6, 12), st.integers(0, 60))
def test_the_last_of_num_outputs_may_be_smaller(opset: int, count: int, length: int) -> None:
    model = parse(split_text(count, opset=opset, attributes=f"num_outputs = {count}"))
    result = narrowed(model)
    feeds = {"x": np.arange(length, dtype=np.float32)}
    part = -(-length // count)
    assert isinstance(run(model, feeds), Failure) == (part * (count - 1) > length)
    assert_same(model, result.model, feeds)


# Every form of sizes


FORMS = {
    "initializer": {"sizes": "s", "initializers": f"int64[7] s = {{{LIST}}}"},
    "value": {"sizes": "s", "before": f"s = Constant<value = int64[7] {{{LIST}}}>()"},
    "value_ints": {"sizes": "s", "before": f"s = Constant<value_ints = [{LIST}]>()"},
    "identity of an initializer": {
        "sizes": "s",
        "before": "a = Identity(w) b = Identity(a) s = Identity(b)",
        "initializers": f"int64[7] w = {{{LIST}}}",
    },
    "identity of a constant": {
        "sizes": "s",
        "before": f"a = Constant<value_ints = [{LIST}]>() s = Identity(a)",
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", [13, 18, 25])
def test_forms_of_sizes(form: str, opset: int) -> None:
    model = parse(split_text(7, opset=opset, **FORMS[form]))  # type: ignore[arg-type]
    result = narrowed(model, 3)
    assert_runs_same(model, result.model, {"x": np.arange(TOTAL, dtype=np.float32)})


@pytest.mark.parametrize("opset", range(7, 13))
def test_sizes_in_an_attribute(opset: int) -> None:
    model = parse(split_text(7, opset=opset, attributes=f"split = [{LIST}]"))
    result = narrowed(model, 3)
    assert_runs_same(model, result.model, {"x": np.arange(TOTAL, dtype=np.float32)})
    assert not nodes(result.model, "Constant")


def test_value_int_is_a_scalar_and_never_valid() -> None:
    model = parse(split_text(1, opset=13, sizes="s", before="s = Constant<value_int = 4>()"))
    result = rewrite(model, SplitTree())
    assert result.model == model
    assert_same(model, result.model, {"x": np.ones(4, np.float32)})
    wide = parse(split_text(6, opset=13, sizes="s", before="s = Constant<value_int = 4>()"))
    assert "vector" in left_alone(wide)


@pytest.mark.parametrize("ir_version", [3, 4, 8, 13])
@pytest.mark.parametrize("behind", ["", "s = Identity(w)"])
def test_sizes_that_a_caller_may_override_are_left_alone(ir_version: int, behind: str) -> None:
    model = parse(split_text(7, opset=13, sizes="s" if behind else "w", before=behind))
    model.ir_version = ir_version
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.INT64, [7]))
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT64, [7], SIZES))
    assert "override" in left_alone(model)


def test_sizes_computed_at_run_time_are_left_alone() -> None:
    model = parse(split_text(7, opset=13, sizes="s", before="s = Shape(x)", shape="1,2,1,2,1,1,2"))
    assert "run time" in left_alone(model)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"sizes": "s", "initializers": "int64[6] s = {2, 2, 2, 2, 1, 1}"}, "6 sizes"),
        ({"sizes": "s", "initializers": "int64[7] s = {-1, 1, 2, 2, 2, 2, 2}"}, "not valid"),
        ({"sizes": "s", "initializers": "int64[7,1] s = {1, 1, 2, 2, 2, 1, 1}"}, "vector"),
        ({"sizes": "s", "initializers": "int32[7] s = {1, 1, 2, 2, 2, 1, 1}"}, "int32"),
        ({"sizes": "s", "initializers": "int64[0] s = {}"}, "0 sizes"),
        ({"sizes": "s", "initializers": "int64 s = {10}"}, "vector"),
    ],
    ids=str,
)
def test_sizes_that_are_not_valid_are_left_alone(values: dict[str, str], reason: str) -> None:
    model = parse(split_text(7, opset=13, **values))  # type: ignore[arg-type]
    assert reason in left_alone(model)
    assert isinstance(run(model, {"x": np.ones(10, np.float32)}), Failure)


@pytest.mark.parametrize(
    ("opset", "values", "reason"),
    [
        (11, {"attributes": "split = [5, 5]"}, "2 sizes"),
        (12, {"sizes": "s", "initializers": "int64[7] s = {1, 1, 2, 2, 2, 1, 1}"}, "2 inputs"),
        (13, {"attributes": "num_outputs = 7"}, "'num_outputs'"),
        (13, {"attributes": "split = [1, 1, 2, 2, 2, 1, 1]"}, "'split'"),
        (18, {}, "num_outputs"),
        (18, {"attributes": "num_outputs = 6"}, "num_outputs"),
        (18, {"attributes": "num_outputs = 7", **FORMS["initializer"]}, "both"),
        (18, {"axis": "axis = 0.5", "attributes": "num_outputs = 7"}, "FLOAT"),
    ],
    ids=str,
)
def test_a_split_that_no_runtime_loads_is_left_alone(opset: int, values: dict[str, str], reason: str) -> None:
    model = parse(split_text(7, opset=opset, **values))  # type: ignore[arg-type]
    assert reason in left_alone(model)
    assert isinstance(run(model, {"x": np.ones(10, np.float32)}), Failure)


# Equal parts


def test_equal_parts_of_a_known_length_get_constants() -> None:
    model = parse(split_text(8, opset=13, shape="16"))
    result = narrowed(model)
    assert set(op_counts(result.model)) == {"Split", "Constant"}
    assert_runs_same(model, result.model, random_feeds(model))


@pytest.mark.parametrize("opset", [7, 11, 12, 13, 17])
def test_equal_parts_of_an_unknown_length_nest(opset: int) -> None:
    model = parse(split_text(8, opset=opset))
    result = narrowed(model)
    assert op_counts(result.model) == {"Split": 5}
    for length in (0, 8, 16, 12, 7):
        assert_same(model, result.model, {"x": np.arange(length, dtype=np.float32)})
    assert_runs_same(model, result.model, {"x": np.arange(16, dtype=np.float32)})


def test_a_prime_number_of_parts_is_computed_from_opset_13() -> None:
    model = parse(split_text(7, opset=13))
    result = narrowed(model)
    assert "Shape" in op_counts(result.model)
    for length in (0, 7, 14, 13):
        assert_same(model, result.model, {"x": np.arange(length, dtype=np.float32)})


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_a_prime_number_of_parts_of_an_unknown_length_is_left_alone_before(opset: int) -> None:
    assert "7 equal parts" in left_alone(parse(split_text(7, opset=opset)))


def test_a_prime_number_of_parts_of_a_known_length_is_rewritten_before() -> None:
    model = parse(split_text(7, opset=11, shape="14"))
    assert_runs_same(model, narrowed(model).model, random_feeds(model))


def test_a_declared_length_proves_nothing() -> None:
    # The value_info says 16, the data has 24; both divide.
    model = parse(
        split_text(8, opset=13, before="r = Reshape(x, t)").replace("Split<axis=0>(x)", "Split<axis=0>(r)")
    )
    model.graph.input.append(helper.make_tensor_value_info("t", TensorProto.INT64, [1]))
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, [16]))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    result = narrowed(model)
    feeds = {"x": np.arange(24, dtype=np.float32), "t": np.array([-1])}
    assert not nodes(result.model, "Constant")
    assert_same(model, result.model, feeds)


def test_the_declared_shape_of_a_loop_body_proves_nothing() -> None:
    outputs = ", ".join(f"p{number}" for number in range(8))
    model = parse(f"""<ir_version: 8, opset_import: ["": 13]>
        g (float[N] x, int64 n, bool c) => (float[M] y) {{
        y = Loop(n, c, x) <body = b (int64 i, bool ci, float[16] v) => (bool co, float[K] w) {{
            co = Identity(ci) {outputs} = Split<axis = 0>(v) w = Concat<axis = 0>(p7, p0) }}> }}""")
    result = rewrite(model, SplitTree())
    feeds = {"x": np.arange(64, dtype=np.float32), "n": np.array(2), "c": np.array(True)}
    assert result.outcomes[0].rewritten
    assert_same(model, result.model, feeds)


EIGHT = ", ".join(f"p{number}" for number in range(8))
SCAN = f"""y, z = Scan<num_scan_inputs = 1, body = b (float[16, 2] s, float e) => (float r, float f) {{
    {EIGHT} = Split<axis = 0, num_outputs = 8>(s)
    r = Concat<axis = 0>(p0, p1, p2, p3, p4, p5, p6, p7)  f = Identity(e) }}>(x, t)"""
LOOP = f"""{EIGHT} = Split<axis = 0, num_outputs = 8>(v)
    y = Loop(n, c) <body = b (int64 i, bool d) => (bool e, float w) {{
        e = Identity(d)  w = Identity(p0) }}>"""


@pytest.mark.parametrize("body", [SCAN, f"v = Relu(x)  z = Identity(t)  {LOOP}"], ids=["scan", "loop"])
@pytest.mark.parametrize("count", [0, 2])
def test_shapes_that_the_runtime_infers_for_a_scan_or_loop_stay(body: str, count: int) -> None:
    model = parse(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[N, 2] x, float[3] t, int64 n, bool c) => (float y, float[C] z) {{ {body} }}""")
    for graph in [model.graph, *(attribute.g for attribute in model.graph.node[-1].attribute)]:
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    model.graph.value_info.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, [16, 2]))
    result = rewrite(model, SplitTree())
    assert [skip.reason for skip in result.skipped] == [
        "the runtime infers no shapes from computed sizes; a Loop or Scan may need them"
    ]
    feeds = {"x": np.ones((16, 2), np.float32), "t": np.ones(3, np.float32), "n": np.array(count)}
    assert_runs_same(model, result.model, {**feeds, "c": np.array(True)})


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("copied", [True, False])
def test_sizes_that_the_runtime_does_not_see_stay_unseen_by_a_loop(count: int, copied: bool) -> None:
    loop = LOOP.replace("num_outputs = 8>(v)", ">(x, s)").replace("0, >", "0>")
    copy = "s = Identity(k)" if copied else "s = Constant<value_ints = [2, 2, 2, 2, 2, 2, 2, 2]>()"
    model = parse(f"""<ir_version: 8, opset_import: ["": 18]> g (float[16, 2] x, int64 n, bool c) => (float y)
        <int64[8] k = {{2, 2, 2, 2, 2, 2, 2, 2}}> {{ {copy}  {loop} }}""")
    for graph in [model.graph, *(attribute.g for attribute in model.graph.node[-1].attribute)]:
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    result = narrowed(model)
    feeds = {"x": np.ones((16, 2), np.float32), "n": np.array(count), "c": np.array(True)}
    assert_runs_same(model, result.model, feeds)


def test_wrong_sizes_of_a_branch_that_never_runs_still_load() -> None:
    model = parse(f"""<ir_version: 8, opset_import: ["": 13]> g (bool c, float[15] x) => (float[A] y)
        <int64[8] k = {{2, 2, 2, 2, 2, 2, 2, 2}}> {{ s = Identity(k)
        y = If(c) <then_branch = t () => (float[B] a) {{ a = Identity(x) }},
        else_branch = e () => (float[C] b) {{ {EIGHT} = Split<axis = 0>(x, s)  b = Identity(p6) }}> }}""")
    result = narrowed(model)
    for condition in (True, False):
        assert_same(model, result.model, {"c": np.array(condition), "x": np.ones(15, np.float32)})


# Omitted outputs


@pytest.mark.parametrize("present", [[0], [6], [1, 3, 5], [], [2, 3, 4]], ids=str)
@pytest.mark.parametrize("opset", [11, 13])
def test_omitted_outputs(present: list[int], opset: int) -> None:
    values = {"attributes": f"split = [{LIST}]"} if opset < 13 else FORMS["initializer"]
    model = parse(split_text(7, opset=opset, **values))  # type: ignore[arg-type]
    (split,) = nodes(model, "Split")
    for number in set(range(7)) - set(present):
        split.output[number] = ""
    kept = [output for output in model.graph.output if output.name in split.output]
    del model.graph.output[:]
    model.graph.output.extend(kept or [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    model.graph.node.append(helper.make_node("Relu", ["x"], ["z"]))
    result = narrowed(model, 3)
    feeds = {"x": np.arange(TOTAL, dtype=np.float32)}
    # The runtime crashes on the original, and on any Split whose outputs are not all named.
    assert all(all(node.output) for node in nodes(result.model, "Split"))
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    outputs = run(result.model, feeds)
    assert not isinstance(outputs, Failure), outputs
    assert [bits(value) for value in outputs] == [bits(value) for value in expected]


def test_omitted_equal_parts_still_count() -> None:
    model = parse(split_text(8, opset=13))
    for number in range(2, 8):
        nodes(model, "Split")[0].output[number] = ""
    del model.graph.output[2:]
    result = narrowed(model)
    assert all(all(node.output) for node in nodes(result.model, "Split"))
    outputs = run(result.model, {"x": np.arange(16, dtype=np.float32)})
    assert not isinstance(outputs, Failure), outputs
    assert [value.tolist() for value in outputs] == [[0, 1], [2, 3]]


# Functions


def in_function(split: str, declared: str, calls: list[str], opset: int = 13) -> onnx.ModelProto:
    """A function with one wide Split of ``x``, called several times; the results are joined."""
    parts = ", ".join(f"p{number}" for number in range(7))
    results = ", ".join(f"float[A{number},B{number}] y{number}" for number in range(len(calls)))
    body = " ".join(f"y{number} = l.F{call}(x)" for number, call in enumerate(calls))
    return parse(f"""<ir_version: 9, opset_import: ["": {opset}, "l": 1]>
        g (float[14,14] x) => ({results}) {{ {body} }}
        <domain: "l", opset_import: ["": {opset}]> F {declared} (x) => (y) {{
            {split.replace("PARTS", f"[sp] {parts}")} y = Concat<axis = 1>(p6, p0, p3, p0) }}""")


EQUAL = "PARTS = Split<axis: int = @ax>(x)"
NUMBERED = "PARTS = Split<num_outputs = 7, axis: int = @ax>(x)"
SIZED = "s = Constant<value_ints = [2, 2, 2, 2, 2, 2, 2]>() PARTS = Split<axis: int = @ax>(x, s)"


@pytest.mark.parametrize(
    ("split", "opset"),
    [(EQUAL, 13), (EQUAL, 17), (NUMBERED, 18), (NUMBERED, 24), (SIZED, 13), (SIZED, 18)],
    ids=str,
)
@pytest.mark.parametrize(
    ("declared", "calls"),
    [("<ax>", ["<ax = 0>", "<ax = 1>", "<ax = -1>"]), ("<ax: int = 1>", ["", "<ax = 0>", "<ax = 1>"])],
    ids=["given", "default"],
)
def test_an_axis_that_each_call_chooses(split: str, opset: int, declared: str, calls: list[str]) -> None:
    model = in_function(split, declared, calls, opset)
    result = narrowed(model)
    assert result.outcomes[0].rewritten[0].scope == "l::F"
    assert_runs_same(model, result.model, random_feeds(model))


def test_an_axis_that_a_call_leaves_out_is_known_to_the_operator_only() -> None:
    model = in_function(EQUAL, "<ax>", ["", "<ax = 1>"])
    assert "leave out" in left_alone(model)
    sized = in_function(SIZED, "<ax>", ["", "<ax = 1>"])
    assert_runs_same(sized, narrowed(sized).model, random_feeds(sized))


@pytest.mark.parametrize(
    ("split", "opset"),
    [
        ("PARTS = Split<axis = 0, split: ints = @s>(x)", 11),
        ("k = Constant<value_ints: ints = @s>() PARTS = Split<axis = 0>(x, k)", 13),
        ("k = Constant<value_ints: ints = @s>() j = Identity(k) PARTS = Split<axis = 0>(x, j)", 18),
    ],
    ids=str,
)
def test_sizes_that_each_call_chooses_are_left_alone(split: str, opset: int) -> None:
    calls = ["<s = [2, 2, 2, 2, 2, 2, 2]>", "<s = [1, 1, 1, 1, 1, 1, 8]>"]
    model = in_function(split, "<s>", calls, opset)
    assert "different in each call" in left_alone(model)


def test_a_number_of_outputs_that_each_call_chooses_is_left_alone() -> None:
    model = in_function("PARTS = Split<axis = 0, num_outputs: int = @n>(x)", "<n>", ["<n = 7>"], 18)
    assert "num_outputs" in left_alone(model)


# The rest


def in_branches(initializers: str) -> onnx.ModelProto:
    outputs = ", ".join(f"p{number}" for number in range(7))
    body = "Split<axis=0>(x, s)"
    return parse(f"""<ir_version: 8, opset_import: ["": 13]>
        g (bool c, float[N] x) => (float[M] y) <int64[7] s = {{{LIST}}}> {{
            y = If(c) <
                then_branch = t () => (float[A] a)
                    {{ [one] {outputs} = {body} a = Concat<axis = 0>(p6, p3, p0) }},
                else_branch = e () => (float[B] b) {initializers}
                    {{ [two] {outputs} = {body} b = Concat<axis = 0>(p6, p3, p0) }}
            > }}""")


def test_sizes_of_an_outer_scope() -> None:
    model = in_branches("")
    result = narrowed(model)
    assert [each.scope for each in result.outcomes[0].rewritten] == [
        "main/y.then_branch",
        "main/y.else_branch",
    ]
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.arange(TOTAL, dtype=np.float32)}
        assert_runs_same(model, result.model, feeds)


def test_sizes_that_hide_those_of_an_outer_scope_are_not_certain() -> None:
    # The runtime takes the outer ones in the second branch as long as the first uses them.
    model = in_branches("<int64[7] s = {1, 1, 1, 1, 1, 1, 2}>")
    result = rewrite(model, SplitTree())
    assert [skip.node for skip in result.skipped] == ["one", "two"]
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.arange(TOTAL, dtype=np.float32)}
        assert_runs_same(model, result.model, feeds)


@pytest.mark.parametrize("length", [10, 13, 15, 1])
@pytest.mark.parametrize("opset", [11, 13, 17])
def test_a_known_length_that_does_not_divide_is_left_alone(length: int, opset: int) -> None:
    model = parse(split_text(7, opset=opset, shape=str(length)))
    assert left_alone(model) == f"an axis of length {length} has no 7 equal parts; the model is not valid"
    assert isinstance(run(model, {"x": np.ones(length, np.float32)}), Failure)


def test_what_does_not_load_for_a_branch_that_never_runs_does_not_load_after() -> None:
    names = ", ".join(f"p{number}" for number in range(7))
    model = parse(f"""<ir_version: 8, opset_import: ["": 13]> g (bool c, float[16] x) => (float[A] y) {{
        y = If(c) <then_branch = t () => (float[B] a) {{ a = Identity(x) }},
        else_branch = e () => (float[C] b) {{ {names} = Split<axis = 0>(x)  b = Identity(p6) }}> }}""")
    result = rewrite(model, SplitTree())
    assert_same(model, result.model, {"c": np.array(True), "x": np.ones(16, np.float32)})


def test_an_axis_out_of_range_fails_before_and_after() -> None:
    model = parse(split_text(7, opset=13, axis="axis = 3", shape="14"))
    result = rewrite(model, SplitTree())
    assert_same(model, result.model, {"x": np.ones(14, np.float32)})


def test_the_default_fits_eight_storage_buffers() -> None:
    model = parse(split_text(32, opset=17, axis="axis = -1", shape="3,1024"))
    result = narrowed(model)
    assert max(len(node.output) + 1 for node in nodes(result.model, "Split")) <= 6
    assert depth_of(result.model.graph, "Split") == 3
    assert_runs_same(model, result.model, random_feeds(model))


def test_parts_stay_in_order() -> None:
    model = parse(split_text(26, opset=13, shape="26"))
    outputs = run(narrowed(model, 3).model, {"x": np.arange(26, dtype=np.float32)})
    assert not isinstance(outputs, Failure), outputs
    assert all(first < second for first, second in pairwise(float(value[0]) for value in outputs))


@pytest.mark.parametrize("value", [1, 0, -3, "five", 2.5, None])
def test_options_are_checked(value: object) -> None:
    with pytest.raises(ValidationError):
        SplitTreeOptions.model_validate({"max_outputs": value})
