from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from hubpublish.passes.sum_to_add import SumToAdd
from tests.models.build import (
    Failure,
    assert_runs_same,
    assert_same,
    op_counts,
    parse,
    random_feeds,
    random_values,
    rewrite,
    run,
)

DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64}


def sum_text(shapes: list[str], *, opset: int = 13, dtype: str = "float") -> str:
    inputs = ", ".join(f"{dtype}[{shape}] x{number}" for number, shape in enumerate(shapes))
    names = ", ".join(f"x{number}" for number in range(len(shapes)))
    return f"""<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => ({dtype} y)
        {{ [s] y = Sum({names}) }}"""


@st.composite
def broadcastable(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    full = draw(st.lists(st.integers(0, 4), min_size=0, max_size=3))
    shapes = []
    for _ in range(count):
        rank = draw(st.integers(0, len(full)))
        keep = full[len(full) - rank :]
        shapes.append(tuple(1 if draw(st.booleans()) else length for length in keep))
    return shapes


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_sum(data: st.DataObject) -> None:
    count, opset = data.draw(st.integers(1, 12)), data.draw(st.integers(8, 25))
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    shapes = data.draw(broadcastable(count))
    symbolic = [
        ",".join(f"n{number}_{axis}" for axis in range(len(shape))) for number, shape in enumerate(shapes)
    ]
    model = parse(sum_text(symbolic, opset=opset, dtype=dtype))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for value, shape in zip(model.graph.input, shapes, strict=True):
        if not shape:
            value.type.tensor_type.shape.SetInParent()
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    feeds = {f"x{number}": random_values(rng, DTYPES[dtype], shape) for number, shape in enumerate(shapes)}

    result = rewrite(model, SumToAdd())
    assert_runs_same(model, result.model, feeds)
    assert op_counts(result.model) == ({"Identity": 1} if count == 1 else {"Add": count - 1})
    for number, node in enumerate(result.model.graph.node):
        # A chain from the left: each adds one more input to what came before.
        assert node.input[-1] == f"x{number + (count > 1)}"
    again = rewrite(result.model, SumToAdd())
    assert again.model.SerializeToString() == result.model.SerializeToString()
    assert rewrite(model, SumToAdd()).model.SerializeToString() == result.model.SerializeToString()


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("level", ["disabled", "default"])
def test_the_order_of_addition_is_kept(dtype: str, level: str) -> None:
    # (1e4 + 1) - 1e4 and 1e4 + (1 - 1e4) differ in every one of these types, with suitable numbers.
    large = {"float16": 2048.0, "float": 2.0**24, "double": 2.0**53}[dtype]
    model = parse(sum_text(["2"] * 5, dtype=dtype).replace(f"{dtype} y", f"{dtype}[2] y"))
    values = [large, 1.0, 1.0, -large, 0.25]
    feeds = {f"x{number}": np.array([value, -value], DTYPES[dtype]) for number, value in enumerate(values)}
    assert_runs_same(model, rewrite(model, SumToAdd()).model, feeds, level)  # type: ignore[arg-type]


def test_special_values_keep_their_bits() -> None:
    model = parse(sum_text(["7", "7", "1"]).replace("float y", "float[7] y"))
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38], dtype=np.float32)
    for third in special:
        feeds = {"x0": special, "x1": special[::-1].copy(), "x2": third.reshape(1)}
        assert_runs_same(model, rewrite(model, SumToAdd()).model, feeds)


def test_shapes_that_do_not_broadcast_fail_before_and_after() -> None:
    model = parse(sum_text(["N", "M", "K"]).replace("float y", "float[L] y"))
    result = rewrite(model, SumToAdd())
    for lengths in ((2, 1, 3), (2, 3, 1), (1, 2, 3)):
        feeds = {f"x{number}": np.ones(length, dtype=np.float32) for number, length in enumerate(lengths)}
        assert isinstance(run(model, feeds), Failure)
        assert_same(model, result.model, feeds)


# Opset 7, where Sum takes only equal shapes and Add broadcasts


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ("float[2,3] a, float[2,3] b", "[s] y = Sum(a, b)"),
        ("float[2,3] a, float[2,3] b", "h = Relu(a) i = Identity(b) [s] y = Sum(h, i, b)"),
        ("float[N,M] a", "[s] y = Sum(a, a, a)"),
        ("float[N,M] a", "[s] y = Sum(a)"),
        ("float[2,3] a", "k = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>() [s] y = Sum(a, k)"),
    ],
)
def test_equal_shapes_of_opset_7_are_rewritten(inputs: str, body: str) -> None:
    model = parse(f'<ir_version: 4, opset_import: ["": 7]> g ({inputs}) => (float[A,B] y) {{ {body} }}')
    result = rewrite(model, SumToAdd())
    assert result.rewritten == ["s"]
    assert_runs_same(model, result.model, random_feeds(model))


@pytest.mark.parametrize(
    "inputs",
    [
        "float[2,3] a, float[1,3] b",
        "float[2,3] a, float[3] b",
        "float[N,3] a, float[2,3] b",
        "float[N,3] a, float[N,3] b",
    ],
)
def test_shapes_of_opset_7_that_may_differ_are_left_alone(inputs: str) -> None:
    model = parse(
        f'<ir_version: 4, opset_import: ["": 7]> g ({inputs}) => (float[A,B] y) {{ [s] y = Sum(a, b) }}'
    )
    result = rewrite(model, SumToAdd())
    assert [(skip.node, "opset 8" in skip.reason) for skip in result.skipped] == [("s", True)]
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones((1, 3), np.float32)}
    assert_same(model, result.model, feeds)


def test_a_declared_shape_proves_nothing() -> None:
    model = parse("""<ir_version: 4, opset_import: ["": 7]>
        g (float[2,3] a, float[K] b, int64[2] s) => (float[A,B] y) { r = Reshape(b, s) [s] y = Sum(a, r) }""")
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 3]))
    result = rewrite(model, SumToAdd())
    assert [skip.node for skip in result.skipped] == ["s"]
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32), "s": np.array([1, 3])}
    assert isinstance(run(model, feeds), Failure)
    assert_same(model, result.model, feeds)


def test_integers_fail_before_and_after() -> None:
    # Sum takes floats only, Add also integers.
    model = parse(sum_text(["N", "N"], dtype="int64").replace("int64 y", "int64[N] y"))
    result = rewrite(model, SumToAdd())
    assert "int64" in result.skipped[0].reason
    assert_same(model, result.model, random_feeds(model))


@pytest.mark.parametrize("opset", [8, 13, 17])
@pytest.mark.parametrize("terms", ["a", "a, a"])
@pytest.mark.parametrize(
    "before", ["a = Cast<to=7>(x)", "a = Shape(x)", "b = Shape(x) a = Identity(b)", "a = Not(x)"]
)
def test_what_is_computed_of_another_type_fails_before_and_after(before: str, terms: str, opset: int) -> None:
    inputs = "bool[2] x" if "Not" in before else "float[2] x"
    model = parse(f"""<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => (float[2] y)
        {{ {before}  [s] t = Sum({terms})  y = Cast<to=1>(t) }}""")
    result = rewrite(model, SumToAdd())
    assert [skip.reason for skip in result.skipped] == [
        f"input 'a' is of a type that Sum of opset {opset} does not take"
    ]
    assert isinstance(run(model, random_feeds(model)), Failure)
    assert_same(model, result.model, random_feeds(model))


def test_a_function_that_is_given_another_type() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "l": 1]> g (DTYPE[3] x) => (DTYPE[3] y) { y = l.F(x) }
        <domain: "l", opset_import: ["": 17]> F (a) => (b) { b = Sum(a, a) }"""
    for dtype, count in {"float": 1, "int64": 0}.items():
        model = parse(text.replace("DTYPE", dtype))
        result = rewrite(model, SumToAdd())
        assert len(result.rewritten) == count
        assert_same(model, result.model, random_feeds(model))


def test_one_that_is_its_own_documentation() -> None:
    model = parse(sum_text(["2"] * 3).replace("float y", "float[2] y"))
    model.graph.node[0].doc_string = "adds"
    result = rewrite(model, SumToAdd())
    assert [node.doc_string for node in result.model.graph.node] == ["", "adds"]
    assert [node.name for node in result.model.graph.node] == ["s/Add_0", "s/Add_1"]
    assert list(result.model.graph.node[-1].output) == ["y"]
