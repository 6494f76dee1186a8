from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from hubpublish.errors import UsageError
from hubpublish.recipe import InputSpec
from hubpublish.verify import images, signature
from hubpublish.verify.inputs import InputMaker

from .conftest import OnnxFile

CONFIG = {
    "do_resize": True,
    "size": {"height": 4, "width": 6},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.25, 0.0],
    "image_std": [0.5, 0.5, 2.0],
}


@pytest.fixture
def image(tmp_path: Path) -> str:
    PIL.Image.new("RGB", (40, 20), (255, 51, 102)).save(tmp_path / "red.png")
    return "red.png"


def load(model: Path, image: str, config: Any = CONFIG, **spec: Any) -> np.ndarray:
    preprocessor = model.parent / "preprocessor_config.json"
    preprocessor.write_text(json.dumps(config))
    maker = InputMaker(
        signature.read(model), InputSpec(noise=0, images=(image,), **spec), model.parent, preprocessor
    )
    (only,) = maker.sets()
    assert only.label == f"image {image}"
    return next(tensor.array for tensor in only.tensors if tensor.input.name == "x")


def test_rescaled_normalized_channels_first(onnx_file: OnnxFile, image: str) -> None:
    array = load(onnx_file("g (float[B,3,H,W] x) => (float[B,3,H,W] y) { y = Neg(x) }"), image)
    assert array.shape == (1, 3, 4, 6)
    assert array.dtype == np.float32
    assert np.allclose(array[0, :, 0, 0], [(1 - 0.5) / 0.5, (0.2 - 0.25) / 0.5, 0.4 / 2])


def test_the_models_own_size_wins(onnx_file: OnnxFile, image: str) -> None:
    model = onnx_file("g (float16[1,3,8,8] x) => (float16[1,3,8,8] y) { y = Neg(x) }")
    array = load(model, image)
    assert (array.shape, array.dtype.name) == ((1, 3, 8, 8), "float16")
    dynamic = onnx_file("g (float[B,3,H,W] x) => (float[B,3,H,W] y) { y = Neg(x) }")
    assert load(dynamic, image, shapes={"x": (1, 3, 5, 7)}).shape == (1, 3, 5, 7)


def test_channels_last_and_grey(onnx_file: OnnxFile, image: str) -> None:
    last = onnx_file("g (float[B,H,W,3] x) => (float[B,H,W,3] y) { y = Neg(x) }")
    assert load(last, image).shape == (1, 4, 6, 3)
    grey = onnx_file("g (float[B,1,H,W] x) => (float[B,1,H,W] y) { y = Neg(x) }")
    assert load(grey, image, {**CONFIG, "do_normalize": False}).shape == (1, 1, 4, 6)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"size": {"shortest_edge": 10}}, (10, 20)),
        ({"size": {"longest_edge": 10}}, (5, 10)),
        ({"size": 10}, (5, 10)),
        ({"size": {"shortest_edge": 10}, "do_center_crop": True, "crop_size": 8}, (8, 8)),
        ({"do_resize": False}, (20, 40)),
    ],
)
def test_sizes(onnx_file: OnnxFile, image: str, config: dict[str, Any], shape: tuple[int, int]) -> None:
    model = onnx_file("g (float[B,3,H,W] x) => (float[B,3,H,W] y) { y = Neg(x) }")
    assert load(model, image, config).shape == (1, 3, *shape)


def test_other_inputs_get_noise(onnx_file: OnnxFile, image: str) -> None:
    model = onnx_file("g (float[B,3,H,W] x, float[H,W] grid) => (float[B,3,H,W] y) { y = Add(x, grid) }")
    load(model, image)


def test_what_goes_wrong_is_said(onnx_file: OnnxFile, image: str, tmp_path: Path) -> None:
    model = onnx_file("g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Neg(x) }")
    (tmp_path / "text.png").write_text("no image")
    for name in ("text.png", "missing.png"):
        with pytest.raises(UsageError, match="cannot be read"):
            load(model, name)
    with pytest.raises(UsageError, match="does not make sense"):
        load(model, image, {"resample": 99})
    with pytest.raises(UsageError, match="not a mapping"):
        load(model, image, [])
    with pytest.raises(UsageError, match="has none"):
        InputMaker(signature.read(model), InputSpec(images=(image,)), tmp_path).sets()
    two = onnx_file("g (float[1,3,8,8] x, float[1,3,8,8] z) => (float[1,3,8,8] y) { y = Add(x, z) }")
    with pytest.raises(UsageError, match="x, z"):
        load(two, image)
    none = onnx_file("g (float[8] x) => (float[8] y) { y = Neg(x) }")
    with pytest.raises(UsageError, match="no input can"):
        load(none, image)


@pytest.mark.parametrize(
    "config", [CONFIG, {**CONFIG, "do_rescale": False}, {**CONFIG, "do_normalize": False}, {"mean": 0.5}]
)
def test_preprocessing_can_be_undone(onnx_file: OnnxFile, tmp_path: Path, config: Any) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "noise.png")
    model = onnx_file("g (float[1,3,4,6] x) => (float[1,3,4,6] y) { y = Neg(x) }")
    array = load(model, "noise.png", config)[0].transpose(1, 2, 0)
    undone = images.pixels(array, tmp_path / "preprocessor_config.json")
    assert undone is not None
    assert np.array_equal(np.rint(undone), pixels)
