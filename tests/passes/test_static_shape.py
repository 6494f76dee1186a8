from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubpublish.errors import UsageError
from hubpublish.passes.static_shape import StaticShape, StaticShapeOptions
from tests.models.build import Rewrite, assert_runs_same, op_counts, parse, rewrite, run

LEVELS: Any = ("disabled", "default")

# Flattens to [batch, 3*height*width] by arithmetic on its shape, and adds a bias of the same size.
FLATTENED = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 3, height, width] pixels, float[batch, k] scale) => (float[batch, n] y, float[batch, k] z)
{
  s = Shape (pixels)
  first = Constant <value = int64[1] {0}> ()
  rest = Constant <value = int64[1] {-1}> ()
  b = Gather <axis = 0> (s, first)
  to = Concat <axis = 0> (b, rest)
  flat = Reshape (pixels, to)
  y = Relu (flat)
  z = Abs (scale)
}"""


def fixed(text: str, **shapes: tuple[int, ...]) -> Rewrite:
    return rewrite(parse(text), StaticShape(StaticShapeOptions(shapes=shapes)))


def shapes_of(values: Any) -> dict[str, list[object]]:
    return {value.name: [_size(dim) for dim in value.type.tensor_type.shape.dim] for value in values}


def _size(dim: onnx.TensorShapeProto.Dimension) -> object:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_symbols_become_sizes_everywhere_and_what_follows_folds() -> None:
    done = fixed(FLATTENED, pixels=(2, 3, 4, 5))
    assert shapes_of(done.model.graph.input) == {"pixels": [2, 3, 4, 5], "scale": [2, "k"]}
    assert shapes_of(done.model.graph.output) == {"y": [2, "n"], "z": [2, "k"]}
    assert op_counts(done.model) == {"Reshape": 1, "Relu": 1, "Abs": 1}
    assert done.rewritten[:2] == ["pixels", "scale"]
    feeds = {"pixels": noise(2, 3, 4, 5), "scale": noise(2, 7)}
    for level in LEVELS:
        assert_runs_same(parse(FLATTENED), done.model, feeds, level)
    again = rewrite(done.model, StaticShape(StaticShapeOptions(shapes={"pixels": (2, 3, 4, 5)})))
    assert not again.rewritten


def test_without_shapes_the_batch_is_one() -> None:
    done = rewrite(parse(FLATTENED), StaticShape())
    assert shapes_of(done.model.graph.input) == {"pixels": [1, 3, "height", "width"], "scale": [1, "k"]}
    assert shapes_of(done.model.graph.output) == {"y": [1, "n"], "z": [1, "k"]}
    assert_runs_same(parse(FLATTENED), done.model, {"pixels": noise(1, 3, 4, 5), "scale": noise(1, 7)})


def test_other_sizes_are_refused_by_the_runtime_afterwards() -> None:
    done = fixed(FLATTENED, pixels=(2, 3, 4, 5))
    failure = run(done.model, {"pixels": noise(2, 3, 4, 6), "scale": noise(2, 7)})
    assert "pixels" in str(failure)


def test_an_input_of_no_declared_rank_gets_one() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[] x) => (int64[n] y) { y = Shape (x) }'
    done = fixed(text, x=(4, 2))
    assert shapes_of(done.model.graph.input) == {"x": [4, 2]}
    assert_runs_same(parse(text), done.model, {"x": noise(4, 2)})


def test_names_within_bodies_are_the_same_and_functions_are_left_alone() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "local": 1]>
    g (float[n, 2] x, bool b) => (float[n, 2] y) {
      t = If (b) <then_branch = then () => (float[n, 2] p) { p = Abs (x) },
                  else_branch = other () => (float[n, 2] q) { q = local.F (x) }>
      y = Relu (t) }
    <opset_import: ["": 17], domain: "local"> F (a) => (c) { c = Neg (a) }"""
    done = fixed(text, x=(3, 2))
    (node,) = (node for node in done.model.graph.node if node.op_type == "If")
    bodies = {each.name: shapes_of(each.g.output) for each in node.attribute}
    assert bodies == {"then_branch": {"p": [3, 2]}, "else_branch": {"q": [3, 2]}}
    assert len(done.model.functions) == 1
    for value in (True, False):
        assert_runs_same(parse(text), done.model, {"x": noise(3, 2), "b": np.array(value)})


@pytest.mark.parametrize(
    ("shapes", "what"),
    [
        ({"pixel": (1, 3, 4, 5)}, "static_shape: the model has no input 'pixel'"),
        ({"pixels": (1, 4, 4, 5)}, "cannot have the shape [1, 4, 4, 5]: the model declares"),
        ({"pixels": (1, 3, 4)}, "cannot have the shape [1, 3, 4]"),
        ({"pixels": (2, 3, 4, 5), "scale": (3, 7)}, "dimension batch cannot be 2 and 3"),
    ],
)
def test_what_cannot_be_is_refused(shapes: dict[str, tuple[int, ...]], what: str) -> None:
    with pytest.raises(UsageError) as error:
        fixed(FLATTENED, **shapes)
    assert what in error.value.what
    assert error.value.hint


def test_the_limit_counts_inputs_and_folded_nodes() -> None:
    options = StaticShapeOptions(shapes={"pixels": (2, 3, 4, 5)})
    done = rewrite(parse(FLATTENED), StaticShape(options, limit=2))
    assert done.rewritten == ["pixels", "scale"]
    assert op_counts(done.model)["Shape"] == 1


@settings(max_examples=8, deadline=None)
@given(st.tuples(*[st.integers(1, 5)] * 3), st.integers(1, 4))
def test_any_sizes_compute_the_same(sizes: tuple[int, int, int], width: int) -> None:
    batch, *area = sizes
    done = fixed(FLATTENED, pixels=(batch, 3, *area), scale=(batch, width))
    onnx.checker.check_model(done.model, full_check=True)
    assert op_counts(done.model)["Shape"] == 0
    assert_runs_same(
        parse(FLATTENED), done.model, {"pixels": noise(batch, 3, *area), "scale": noise(batch, width)}
    )
