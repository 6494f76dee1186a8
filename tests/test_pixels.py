from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hubpublish import pixels

INF, NAN = float("inf"), float("nan")


def plane(*values: float, dtype: str = "float32") -> np.ndarray:
    """A mask of two rows, the values and zeros, which is drawn with a square of pixels for each value."""
    return np.array([values, [0.0] * len(values)], dtype)


def cells(drawn: pixels.Pixels, like: np.ndarray) -> np.ndarray:
    """What was drawn, one pixel a value again."""
    factor = drawn.array.shape[0] // like.shape[0]
    small = drawn.array[::factor, ::factor]
    assert np.array_equal(small.repeat(factor, axis=0).repeat(factor, axis=1), drawn.array)
    return small


class TestMasks:
    def test_within_zero_and_one_are_as_they_are(self) -> None:
        values = plane(0, 0.25, 0.5, 1)
        for drawn in pixels.masks(values, values):
            assert drawn.words == "values as they are"
            assert cells(drawn, values)[0].tolist() == [0, 64, 128, 255]

    def test_logits_go_through_a_sigmoid(self) -> None:
        values = plane(-100, -np.log(3), 0, np.log(3), 100)
        for drawn in pixels.masks(values, values):
            assert drawn.words == "sigmoid of the values"
            assert cells(drawn, values)[0].tolist() == [0, 64, 128, 191, 255]

    def test_other_ranges_are_scaled_alike_before_and_after(self) -> None:
        before, after = plane(0, 10, 20), plane(0, 10, 40)
        first, second = pixels.masks(before, after)
        assert first.words == second.words == "scaled from [0, 40]"
        assert cells(first, before)[0].tolist() == [0, 64, 128]
        assert cells(second, after)[0].tolist() == [0, 64, 255]
        classes, _ = pixels.masks(plane(0, 3, 4, dtype="int64"), plane(0, 3, 4, dtype="int64"))
        assert cells(classes, before)[0].tolist() == [0, 191, 255]
        signed, _ = pixels.masks(plane(-2, 2, dtype="int8"), plane(-2, 2, dtype="int8"))
        assert signed.words == "scaled from [-2, 2]"

    def test_one_of_both_decides_for_both(self) -> None:
        first, second = pixels.masks(plane(0.5, 1), plane(0.5, -1))
        assert first.words == second.words == "sigmoid of the values"
        assert cells(first, plane(0, 0))[0, 0] == cells(second, plane(0, 0))[0, 0]

    def test_what_is_not_finite_is_counted_and_moves_no_bounds(self) -> None:
        drawn, clean = pixels.masks(plane(NAN, INF, -INF, 1), plane(0, 1, 0, 1))
        assert drawn.words == "values as they are; 3 of 8 values NaN (black) or infinite"
        assert clean.words == "values as they are"
        assert cells(drawn, plane(0, 0, 0, 0))[0].tolist() == [0, 255, 0, 255]
        nothing, _ = pixels.masks(plane(NAN, NAN), plane(NAN, NAN))
        assert not nothing.array[: nothing.array.shape[0] // 2].any()

    @pytest.mark.filterwarnings("error")
    def test_the_whole_range_of_a_number(self) -> None:
        huge = plane(1e308, 1.7e308, 0, dtype="float64")
        drawn, _ = pixels.masks(huge, huge)
        assert cells(drawn, huge)[0].tolist() == [150, 255, 0]
        flat, _ = pixels.masks(np.full((2, 2), 5.0), np.full((2, 2), 5.0))
        assert not flat.array.any()
        for dtype in (np.float16, ml_dtypes.bfloat16, bool, np.uint8):
            values = plane(0, 1).astype(dtype)
            assert cells(pixels.masks(values, values)[0], values)[0].tolist() == [0, 255]

    @pytest.mark.parametrize(
        ("shape", "drawn"),
        [
            ((1024, 1024), (512, 512)),
            ((1025, 1000), (342, 334)),
            ((513, 20), (257, 10)),
            ((300, 200), (300, 200)),
            ((100, 60), (200, 120)),
            ((2, 5000), (1, 500)),
        ],
    )
    def test_sizes(self, shape: tuple[int, int], drawn: tuple[int, int]) -> None:
        ones = np.ones(shape, np.float32)
        first, _ = pixels.masks(ones, ones)
        assert first.array.shape == drawn
        assert (first.array == 255).all()  # also at edges that are no whole block
        assert max(pixels.difference(ones, ones * 0).array.shape) <= 512

    def test_a_pixel_is_the_mean_of_what_it_stands_for(self) -> None:
        values = np.zeros((1024, 1024), np.float32)
        values[0, 0] = values[1, 1] = 1
        first, _ = pixels.masks(values, values)
        assert first.array[0, 0] == 128
        assert first.array.sum() == 128


class TestDifference:
    def test_of_the_same_bits_is_black(self) -> None:
        values = plane(0.5, NAN, INF, -0.0)
        drawn = pixels.difference(values, values.copy())
        assert not drawn.array.any()
        assert drawn.words == ""

    def test_one_value_of_a_million_is_seen(self) -> None:
        before = np.full((1024, 1024), 0.5, np.float32)
        after = before.copy()
        after[701, 203] = np.nextafter(np.float32(0.5), np.float32(1))  # by 2^-24
        drawn = pixels.difference(before, after)
        assert drawn.array.shape == (256, 256)
        assert drawn.array[701 // 4, 203 // 4] == 255
        assert np.count_nonzero(drawn.array) == 1
        assert drawn.words == "× 16,777,216, black where none differs"

    @pytest.mark.parametrize(
        ("apart", "words", "grey"),
        [
            (2**-12, "× 4,096", 255),
            (1.5 * 2**-12, "× 2,048", 191),
            (0.75, "× 1", 191),
            (1.0, "× 1", 255),
            (3.0, "× 1/4", 191),
            (2.0**-40, "× 2^40", 255),
        ],
    )
    def test_is_amplified_by_a_power_of_two(self, apart: float, words: str, grey: int) -> None:
        drawn = pixels.difference(plane(0, 0), plane(0, -apart))
        assert drawn.words == f"{words}, black where none differs"
        assert cells(drawn, plane(0, 0)).tolist() == [[0, grey], [0, 0]]

    def test_a_small_one_is_seen_beside_a_large_one(self) -> None:
        before, after = plane(0, 0, 0), plane(1e-6, 1, 0)
        assert cells(pixels.difference(before, after), before)[0].tolist() == [64, 255, 0]

    def test_bits_count_and_not_only_values(self) -> None:
        drawn = pixels.difference(plane(0.0, 1), plane(-0.0, 1))
        assert cells(drawn, plane(0, 0)).tolist() == [[64, 0], [0, 0]]
        assert drawn.words == "black where none differs"

    @pytest.mark.filterwarnings("error")
    def test_what_is_not_finite_on_one_side_is_white(self) -> None:
        before, after = plane(NAN, INF, 0, 0.5, INF), plane(0, -INF, INF, 0.25, INF)
        drawn = pixels.difference(before, after)
        assert cells(drawn, before)[0].tolist() == [255, 255, 255, 255, 0]
        assert drawn.words == "× 4, white where one is NaN or infinite, black where none differs"

    @pytest.mark.filterwarnings("error")
    def test_the_ends_of_the_range(self) -> None:
        tiny = plane(5e-324, 0, dtype="float64")
        drawn = pixels.difference(tiny * 0, tiny)
        assert (drawn.words, drawn.array.max()) == ("× 2^1074, black where none differs", 255)
        huge = plane(1.7e308, 0, dtype="float64")
        assert pixels.difference(-huge, huge).array.max() == 255

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, bool, np.uint8, np.int64])
    def test_of_every_kind_of_number(self, dtype: type) -> None:
        before, after = plane(0, 1).astype(dtype), plane(1, 1).astype(dtype)
        assert cells(pixels.difference(before, after), before).tolist() == [[255, 0], [0, 0]]

    def test_goes_either_way(self) -> None:
        before, after = plane(250, 0, dtype="uint8"), plane(10, 1, dtype="uint8")
        assert cells(pixels.difference(before, after), before)[0].tolist() == [239, 64]


class TestImages:
    @pytest.fixture
    def config(self, tmp_path: Path) -> Path:
        path = tmp_path / "preprocessor_config.json"
        path.write_text(
            json.dumps({"do_normalize": True, "image_mean": [0.5, 0.25, 0], "image_std": [0.5, 1, 2]})
        )
        return path

    def test_normalization_is_undone(self, config: Path) -> None:
        values = np.broadcast_to(np.array([1, -0.25, 0.25], np.float32), (2, 2, 3))
        drawn = pixels.image(values, config)
        assert drawn.array.shape == (256, 256, 3)
        assert drawn.array[0, 0].tolist() == [255, 0, 128]
        assert drawn.words == "preprocessing undone"

    def test_noise_is_clipped_to_what_a_pixel_can_be(self, config: Path) -> None:
        values = np.zeros((2, 2, 3), np.float32)
        values[0, 0], values[0, 1], values[1, 0] = (9, -9, 0), (NAN, INF, -INF), 0
        drawn = pixels.image(values, config)
        assert drawn.words == (
            "preprocessing undone, clipped to what a pixel can be; 3 of 12 values NaN (black) or infinite"
        )
        assert drawn.array[0, 0].tolist() == [255, 0, 0]
        assert drawn.array[0, 255].tolist() == [0, 255, 0]

    def test_without_a_configuration_the_range_is_scaled(self) -> None:
        values = np.array([[[-1], [0]], [[1], [3]]], np.float32)
        drawn = pixels.image(values, None)
        assert (drawn.words, drawn.array.shape) == ("scaled from [-1, 3]", (256, 256))
        assert drawn.array[::128, ::128].tolist() == [[0, 64], [128, 255]]

    @pytest.mark.parametrize(
        "text",
        [
            "no JSON",
            "[]",
            "[" * 100_000,
            '{"do_normalize": true, "image_mean": "red"}',
            '{"do_normalize": true, "image_mean": [1, 2]}',
            '{"do_normalize": true, "image_mean": [[1], [2], [3]]}',
            '{"do_normalize": true, "image_std": {}}',
            '{"rescale_factor": 0}',
            '{"rescale_factor": "x"}',
            '{"do_normalize": true, "image_mean": [NaN, NaN, NaN]}',
        ],
    )
    @pytest.mark.filterwarnings("error")
    def test_a_configuration_that_makes_no_sense_is_none(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "preprocessor_config.json"
        path.write_text(text)
        values = np.zeros((2, 2, 3), np.float32)
        values[0] = 1
        drawn = pixels.image(values, path)
        assert drawn.words == "scaled from [0, 1]"
        assert drawn.array[0, 0].tolist() == [255, 255, 255]

    def test_pixels_are_pixels(self) -> None:
        values = np.full((600, 2, 3), 7, np.uint8)
        drawn = pixels.image(values, None)
        assert (drawn.words, drawn.array.shape, drawn.array.max()) == ("as it is", (300, 1, 3), 7)
