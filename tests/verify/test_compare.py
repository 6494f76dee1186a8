from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hubpublish.verify import compare
from hubpublish.verify.result import Distance
from hubpublish.verify.runner import Output


@pytest.fixture
def put(tmp_path: Path) -> Any:
    """Writes an array as an output of a run."""
    count = 0

    def write(array: Any, dtype: str | None = None, shape: Any = None, name: str = "y") -> Output:
        nonlocal count
        count += 1
        array = np.asarray(array)
        data = json.dumps(array.ravel().tolist()).encode() if dtype == "string" else array.tobytes()
        file = tmp_path / f"{count}.bin"
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        return Output(name, dtype or array.dtype.name, tuple(shape or array.shape), file, digest)

    return write


def distance(put: Any, one: Any, other: Any, **about: Any) -> Distance:
    found = compare.output(put(one, **about), put(other, **about)).distance
    assert found is not None
    return found


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_identical_tensors(put: Any) -> None:
    found = compare.output(put(f32(1, np.nan, -0.0)), put(f32(1, np.nan, -0.0)))
    assert found.identical
    assert found.distance is not None
    assert (found.distance.differing, found.distance.max_abs) == (0, 0.0)


def test_one_bit_is_a_difference(put: Any) -> None:
    found = distance(put, f32(1, 2), f32(1, np.nextafter(np.float32(2), np.float32(3))))
    assert (found.differing, found.elements) == (1, 2)
    assert found.max_abs == pytest.approx(2.4e-7, rel=0.1)
    assert found.mean_abs == pytest.approx(found.max_abs / 2)


def test_the_sign_of_zero_and_the_payload_of_nan_are_bits(put: Any) -> None:
    zero = distance(put, f32(0.0), f32(-0.0))
    assert (zero.differing, zero.max_abs) == (1, 0.0)
    payload = np.array([0x7FC00001], np.uint32).view(np.float32)
    nan = distance(put, f32(np.nan), payload)
    assert (nan.differing, nan.nonfinite_differing, nan.max_abs) == (1, 0, None)


def test_figures_are_over_finite_values_only(put: Any) -> None:
    found = distance(put, f32(1, np.nan, np.inf, 4), f32(2, 3, np.inf, np.inf))
    assert (found.differing, found.nonfinite_differing) == (3, 2)
    assert (found.max_abs, found.mean_abs) == (1.0, 1.0)


def test_sigmoid_and_correlation(put: Any) -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32) + 1e4
    y = (x + np.random.default_rng(1).standard_normal(1000)).astype(np.float32)
    found = distance(put, x, y)
    assert found.correlation == pytest.approx(np.corrcoef(x.astype(np.float64), y)[0, 1], abs=1e-9)
    found = distance(put, f32(0, 0), f32(0, np.log(3)))
    assert found.mean_sigmoid == pytest.approx((0.75 - 0.5) / 2)


def test_large_differences_are_json(put: Any) -> None:
    found = distance(put, np.array([1.7e308, 1.0]), np.array([-1.7e308, 2.0]))
    assert "Infinity" not in json.dumps(found.model_dump(mode="json"))


def test_chunks_add_up(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal(1001).astype(np.float32)
    y = x + np.float32(0.5)
    whole = distance(put, x, y)
    monkeypatch.setattr(compare, "CHUNK", 100)
    parts = distance(put, x, y)
    assert parts.differing == whole.differing == 1001
    assert parts.mean_abs == pytest.approx(whole.mean_abs)
    assert parts.correlation == pytest.approx(whole.correlation)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (np.array([1, 2, 3], np.int64), np.array([1, 2, 7], np.int64), (1, 4.0)),
        (np.array([True, False]), np.array([True, True]), (1, 1.0)),
        (np.array([1, 2], np.float16), np.array([1, 2.5], np.float16), (1, 0.5)),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 3], ml_dtypes.bfloat16), (1, 1.0)),
        (np.array([250], np.uint8), np.array([5], np.uint8), (1, 245.0)),
        (np.array([1 + 1j], np.complex64), np.array([1 + 3j], np.complex64), (1, 2.0)),
    ],
)
def test_types(put: Any, one: Any, other: Any, expected: tuple[int, float]) -> None:
    found = distance(put, one, other)
    assert (found.differing, found.max_abs) == expected
    assert not np.issubdtype(one.dtype, np.integer) or found.mean_sigmoid is None


def test_float8(put: Any) -> None:
    one, other = (np.array([1, v], ml_dtypes.float8_e4m3fn) for v in (2, 3))
    assert distance(put, one, other, dtype="float8e4m3fn").max_abs == 1.0


def test_what_fills_up_the_last_byte_of_packed_integers_is_no_value(put: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(compare, "CHUNK", 2)
    three = [np.array([0x21, 0x43, last], np.uint8) for last in (0x05, 0xF5, 0x06)]
    about = {"dtype": "int4", "shape": (5,)}
    assert distance(put, three[0], three[1], **about).differing == 0
    assert distance(put, three[0], three[2], **about).differing == 1


def test_packed_integers(put: Any) -> None:
    # Three int4 in two bytes: [1, -2, 3] against [1, 5, 3].
    found = distance(
        put, np.array([0xE1, 0x03], np.uint8), np.array([0x51, 0x03], np.uint8), dtype="int4", shape=(3,)
    )
    assert (found.differing, found.elements, found.max_abs) == (1, 3, None)


def test_strings(put: Any) -> None:
    found = distance(put, ["a", "é"], ["a", "e"], dtype="string")
    assert (found.differing, found.max_abs) == (1, None)


@pytest.mark.parametrize("dtype", ["float32", "string", "int4", "complex128"])
def test_nothing_equals_nothing(put: Any, dtype: str) -> None:
    empty = np.zeros((0, 3), np.float32)
    found = compare.output(put(empty, dtype=dtype), put(empty, dtype=dtype))
    assert found.identical
    assert found.distance == Distance(elements=0, differing=0)


def test_dtype_and_shape_come_first(put: Any) -> None:
    x = f32(1, 2)
    assert compare.output(put(x), put(x.astype(np.float64))).mismatch == "dtype float64"
    found = compare.output(put(x), put(x.reshape(1, 2)))
    assert (found.identical, found.mismatch) == (False, "shape [1, 2]")


def test_sequences_of_other_lengths(put: Any) -> None:
    one = [put(f32(1), name="s[0]"), put(f32(1), name="s[1]")]
    (found,) = compare.outputs(one, one[:1])
    assert not found.identical
    assert "s[1]" in str(found.mismatch)
