from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hubpublish.passes.concat_tree import ConcatTree, ConcatTreeOptions
from tests.models.build import (
    Array,
    assert_runs_same,
    assert_same,
    depth_of,
    levels_needed,
    nodes,
    op_counts,
    parse,
    random_feeds,
    random_values,
    rewrite,
)

DTYPES = {
    "float": np.float32,
    "float16": np.float16,
    "double": np.float64,
    "int64": np.int64,
    "int8": np.int8,
    "bool": np.bool_,
    "string": object,
}


def concat_text(count: int, *, opset: int = 13, axis: int = 0, dtype: str = "float", rank: int = 1) -> str:
    """Text of a model with one Concat named ``c``; every length is symbolic."""
    shapes = [",".join(f"n{number}_{dim}" for dim in range(rank)) for number in range(count)]
    inputs = ", ".join(f"{dtype}[{shape}] x{number}" for number, shape in enumerate(shapes))
    names = ", ".join(f"x{number}" for number in range(count))
    shape = ",".join(f"m{dim}" for dim in range(rank))
    return f"""<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => ({dtype}[{shape}] y)
        {{ [c] y = Concat<axis = {axis}>({names}) }}"""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_concat(data: st.DataObject) -> None:
    count, width = data.draw(st.integers(1, 40)), data.draw(st.integers(2, 9))
    rank, opset = data.draw(st.integers(1, 3)), data.draw(st.integers(7, 25))
    axis = data.draw(st.integers(0 if opset < 11 else -rank, rank - 1))
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    common = [data.draw(st.integers(1, 3)) for _ in range(rank)]
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))

    model = parse(concat_text(count, opset=opset, axis=axis, dtype=dtype, rank=rank))
    result = rewrite(model, ConcatTree(ConcatTreeOptions(max_inputs=width)))
    feeds: dict[str, Array] = {}
    for number, length in enumerate(lengths):
        shape = list(common)
        shape[axis] = length
        feeds[f"x{number}"] = random_values(rng, DTYPES[dtype], tuple(shape))
    assert_runs_same(model, result.model, feeds)
    assert set(op_counts(result.model)) == {"Concat"}
    assert max(len(node.input) for node in result.model.graph.node) <= width
    assert depth_of(result.model.graph, "Concat") == max(1, levels_needed(count, width))
    assert len(result.rewritten) == (count > width)
    again = rewrite(result.model, ConcatTree(ConcatTreeOptions(max_inputs=width)))
    assert not again.rewritten
    assert again.model.SerializeToString() == result.model.SerializeToString()
    twin = rewrite(model, ConcatTree(ConcatTreeOptions(max_inputs=width)))
    assert twin.model.SerializeToString() == result.model.SerializeToString()


def test_the_default_fits_eight_storage_buffers() -> None:
    result = rewrite(parse(concat_text(1024)), ConcatTree())
    assert max(len(node.input) + 1 for node in result.model.graph.node) <= 8
    assert len(result.model.graph.node) == sum((171, 29, 5, 1))
    assert depth_of(result.model.graph, "Concat") == 4


def test_a_narrow_one_is_not_even_mentioned() -> None:
    model = parse(concat_text(6))
    result = rewrite(model, ConcatTree())
    assert result.model == model
    assert not result.skipped


def test_one_value_may_be_given_many_times() -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13]> g (float[N] x, float[M] z) => (float[K] y)
        { y = Concat<axis = 0>(x, x, z, x, x, z, x, x, z, x) }""")
    assert_runs_same(model, rewrite(model, ConcatTree()).model, random_feeds(model, M=2))


def test_what_does_not_fit_together_fails_before_and_after() -> None:
    model = parse(concat_text(9, rank=2, axis=1))
    result = rewrite(model, ConcatTree(ConcatTreeOptions(max_inputs=2)))
    for odd in range(9):
        feeds = {f"x{number}": np.ones((2 + (number == odd), 3), dtype=np.float32) for number in range(9)}
        assert_same(model, result.model, feeds)


def test_the_axis_may_be_an_attribute_of_the_function() -> None:
    inputs = ", ".join(f"a{number}" for number in range(9))
    model = parse(f"""<ir_version: 8, opset_import: ["": 13, "l": 1]>
        g (float[2,2] x) => (float[A,B] y, float[C,D] z) {{
            y = l.F<ax = 0>({", ".join("x" * 9)}) z = l.F<ax = -1>({", ".join("x" * 9)})
        }}
        <domain: "l", opset_import: ["": 13]> F <ax> ({inputs}) => (b)
        {{ b = Concat<axis: int = @ax>({inputs}) }}""")
    result = rewrite(model, ConcatTree())
    assert result.outcomes[0].rewritten[0].scope == "l::F"
    assert_runs_same(model, result.model, random_feeds(model))


def test_an_empty_input_is_left_alone() -> None:
    model = parse(concat_text(9))
    model.graph.node[0].input[3] = ""
    result = rewrite(model, ConcatTree())
    assert [skip.node for skip in result.skipped] == ["c"]
    assert result.model.graph.node == model.graph.node


def test_documentation_and_metadata_stay() -> None:
    model = parse(concat_text(9))
    node = model.graph.node[0]
    node.doc_string = "joins"
    node.metadata_props.add(key="from", value="torch")
    made = rewrite(model, ConcatTree()).model.graph.node
    assert [each.doc_string for each in made] == ["", "", "joins"]
    assert all(list(each.metadata_props) == list(node.metadata_props) for each in made)


@pytest.mark.parametrize("value", [1, 0, -3, "six", 2.5, None])
def test_options_are_checked(value: object) -> None:
    with pytest.raises(ValidationError):
        ConcatTreeOptions.model_validate({"max_inputs": value})


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValidationError):
        ConcatTreeOptions.model_validate({"max_outputs": 3})


def test_all_values_have_different_names() -> None:
    model = rewrite(parse(concat_text(30)), ConcatTree()).model
    made = [name for node in nodes(model) for name in node.output]
    assert len(set(made)) == len(made)
    assert len({node.name for node in nodes(model)}) == len(nodes(model))
    onnx.checker.check_model(model, full_check=True)
