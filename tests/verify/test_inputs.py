from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from hubpublish.errors import UnsupportedModelError, UsageError
from hubpublish.recipe import InputSpec
from hubpublish.verify import signature
from hubpublish.verify.inputs import InputMaker, InputSet

from .conftest import OnnxFile


def maker(path: Path, given: dict[str, Any] | None = None, **spec: Any) -> InputMaker:
    return InputMaker(signature.read(path), InputSpec(**spec), path.parent, None, given)


def arrays(inputs: InputSet) -> dict[str, np.ndarray]:
    return {tensor.input.name: tensor.array for tensor in inputs.tensors}


def test_noise_is_normal_seeded_and_of_the_declared_type(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[4,500] x, float16[3] h, double[2] d) => (float[4,500] y) { y = Neg(x) }")
    first, second = maker(path).sets()
    assert (first.label, second.label) == ("noise 0", "noise 1")
    x = arrays(first)["x"]
    assert abs(x.mean()) < 0.1
    assert abs(x.std() - 1) < 0.1
    assert {name: array.dtype.name for name, array in arrays(first).items()} == {
        "x": "float32",
        "h": "float16",
        "d": "float64",
    }
    assert first.digest != second.digest
    assert maker(path).sets()[0].digest == first.digest
    assert maker(path, seed=1).sets()[0].digest != first.digest


def test_a_negative_size_is_free(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[-1,3] x) => (float[a,b] y) { y = Neg(x) }")
    assert arrays(maker(path).sets()[0])["x"].shape == (1, 3)
    assert arrays(maker(path, shapes={"x": (5, 3)}).sets()[0])["x"].shape == (5, 3)
    with pytest.raises(UsageError) as caught:
        maker(onnx_file("g (float[2,-4] x) => (float[a,b] y) { y = Neg(x) }")).sets()
    assert caught.value.kind == "unknown_shape"


def test_an_inputs_noise_does_not_depend_on_the_others(onnx_file: OnnxFile) -> None:
    alone = onnx_file("g (float[9] x) => (float[9] y) { y = Neg(x) }")
    beside = onnx_file("g (float[2] a, float[9] x) => (float[9] y) { y = Neg(x) }")
    assert arrays(maker(alone).sets()[0])["x"].tobytes() == arrays(maker(beside).sets()[0])["x"].tobytes()


def test_integers_stay_in_their_range(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (int64[200] i, uint8[200] u, int32[99] m) => (int64[200] y) { y = Neg(i) }")
    found = arrays(maker(path, ranges={"i": (-3, 5), "u": (255, 255)}).sets()[0])
    assert set(found["i"].tolist()) == set(range(-3, 6))
    assert set(found["u"].tolist()) == {255}
    assert set(found["m"].tolist()) == {0, 1}


def test_a_single_truth_value_takes_both_values_in_turn(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (bool c, bool[50] many) => (bool y) { y = Not(c) }")
    first, second = (arrays(inputs) for inputs in maker(path).sets())
    assert (bool(first["c"]), bool(second["c"])) == (True, False)
    assert set(first["many"].tolist()) == {True, False}


@pytest.mark.parametrize("dtype", ["bfloat16", "float8e4m3fn"])
def test_types_that_numpy_lacks(onnx_file: OnnxFile, dtype: str) -> None:
    path = onnx_file(f"g ({dtype}[8] x) => ({dtype}[8] y) {{ y = Identity(x) }}")
    array = arrays(maker(path).sets()[0])["x"]
    assert array.itemsize == (2 if dtype == "bfloat16" else 1)
    assert np.any(array.astype(np.float32) != 0)


def test_sets_that_would_be_alike_are_drawn_again_or_left_out(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (int64[1] i) => (int64[1] y) { y = Neg(i) }")
    sets = maker(path, noise=6).sets()
    assert sorted(arrays(inputs)["i"].tolist() for inputs in sets) == [[0], [1]]
    assert {len(maker(path, noise=2, seed=seed).sets()) for seed in range(8)} == {2}


def test_two_inputs_of_one_shape_get_different_noise(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[9] a, float[9] b) => (float[9] y) { y = Sub(a, b) }")
    found = arrays(maker(path).sets()[0])
    assert not np.any(found["a"] == found["b"])


def test_the_batch_is_one_and_symbols_are_shared(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[B,T] x, float[2,B,T] state, int64[T] mask) => (float[B,T] y) { y = Neg(x) }")
    found = arrays(maker(path, shapes={"x": (1, 7)}).sets()[0])
    assert [found[name].shape for name in ("x", "state", "mask")] == [(1, 7), (2, 1, 7), (7,)]
    found = arrays(maker(path, given={"mask": np.ones(3, np.int64)}).sets()[0])
    assert [found[name].shape for name in ("x", "state", "mask")] == [(1, 3), (2, 1, 3), (3,)]


def test_an_unset_dimension_is_named_with_what_sets_it(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[B,3,H,64] x) => (float[B,3,H,64] y) { y = Neg(x) }")
    with pytest.raises(UsageError, match=r"'x'.*dimension 2 \(H\)") as caught:
        maker(path).sets()
    assert caught.value.hint == "set verify.inputs.shapes in the recipe, such as x: [1, 3, N, 64]"
    assert caught.value.exit_code == 2


def test_a_name_that_could_be_taken_for_a_size_is_quoted(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[B,3,H] x, float[2,W] z) => (float[B,3,H] y) { y = Neg(x) }")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "512"
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "512"
    onnx.save(model, path)
    with pytest.raises(UsageError, match=r"dimension 2 \('512'\) is symbolic") as caught:
        maker(path).sets()
    assert str(caught.value.hint).endswith("x: [1, 3, N]")
    with pytest.raises(UsageError, match=r"\[2, 4\], but '512' is 2 in input 'x'"):
        maker(path, shapes={"x": (1, 3, 2), "z": (2, 4)}).sets()
    with pytest.raises(UsageError, match=r"the model declares \[B, 3, '512'\]"):
        maker(path, shapes={"x": (1, 5, 2)}).sets()


def test_an_input_without_a_rank_needs_a_shape(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[] x) => (float y) { y = Neg(x) }")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    with pytest.raises(UsageError, match="no shape"):
        maker(path).sets()
    assert arrays(maker(path, shapes={"x": (2, 2)}).sets()[0])["x"].shape == (2, 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"shapes": {"x": (1, 4)}}, r"\[1, 4\].*\[N, 3\]"),
        ({"shapes": {"x": (1, 3, 1)}}, r"\[1, 3, 1\]"),
        ({"shapes": {"x": (2, 3), "z": (3,)}}, r"N is 2 in input 'x'"),
        ({"shapes": {"y": (2, 3)}}, "no input 'y'"),
        ({"values": {"x": [[1, 2]]}}, r"\[1, 2\]"),
        ({"values": {"i": 0.5}}, "whole number"),
        ({"values": {"i": 300}}, r"outside \[-128, 127\]"),
        ({"values": {"x": "text"}}, "text"),
        ({"ranges": {"x": (0, 1)}}, "for integers"),
        ({"ranges": {"i": (0, 128)}}, r"no range of int8"),
        ({"noise": 0}, "nothing to run"),
    ],
)
def test_what_does_not_fit_the_model(onnx_file: OnnxFile, spec: dict[str, Any], message: str) -> None:
    path = onnx_file("g (float[N,3] x, int8[2] i, float[N] z) => (float[N,3] y) { y = Neg(x) }")
    with pytest.raises(UsageError, match=message) as caught:
        maker(path, **spec).sets()
    assert caught.value.hint


def test_values_fix_an_input_and_a_scalar_fills_its_shape(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (int64 sr, float[2,N,4] state, bool[2] b) => (int64 y) { y = Neg(sr) }")
    values = {"sr": 16000, "state": 0.5, "b": [True, False]}
    (only,) = maker(path, values=values, shapes={"state": (2, 1, 4)}).sets()
    found = arrays(only)
    assert only.label == "values"
    assert found["sr"] == 16000
    assert found["state"].shape == (2, 1, 4)
    assert set(found["state"].ravel().tolist()) == {0.5}
    assert found["b"].tolist() == [True, False]


def test_text_is_given_not_made_up(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (string[2] x) => (string[2] y) { y = Identity(x) }")
    with pytest.raises(UsageError, match="text") as caught:
        maker(path).sets()
    assert caught.value.hint == "set verify.inputs.values in the recipe, such as x: TEXT"
    assert arrays(maker(path, values={"x": ["a", "é"]}).sets()[0])["x"].tolist() == ["a", "é"]


def test_types_that_cannot_be_fed_are_refused(onnx_file: OnnxFile) -> None:
    with pytest.raises(UnsupportedModelError, match="int4"):
        maker(onnx_file("g (int4[2] x) => (int4[2] y) { y = Identity(x) }"))
    with pytest.raises(UnsupportedModelError, match="sequence"):
        maker(onnx_file("g (seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }"))


def test_an_initializer_that_is_an_input_is_fed_only_when_given(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=np.ones(2, np.float32))
    assert list(arrays(maker(path).sets()[0])) == ["x"]
    assert arrays(maker(path, values={"w": [2, 3]}).sets()[0])["w"].tolist() == [2, 3]


def test_probes_differ_from_the_one_set_there_is(onnx_file: OnnxFile) -> None:
    path = onnx_file("g (float[2] x, int64[2] i) => (float[2] y) { y = Neg(x) }")
    free = maker(path, noise=1)
    assert [probe.digest for probe in free.probes(free.sets())] != [free.sets()[0].digest]
    fixed = maker(path, values={"x": [0, 0], "i": [5, 5]})
    float_only, everything = (arrays(probe) for probe in fixed.probes(fixed.sets()))
    assert float_only["x"].any()
    assert float_only["i"].tolist() == [5, 5]
    assert everything["i"].tolist() != [5, 5]
