from __future__ import annotations

import pytest

from hubpublish.words import plural, readable_binary_bytes, readable_bytes, readable_distance


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (999_999, "1.0 MB"),
        (224_005_088, "224.0 MB"),
        (134_217_728, "134.2 MB"),
        (2_147_483_648, "2.1 GB"),
        (12_345_000_000_000, "12345.0 GB"),
    ],
)
def test_bytes_in_the_units_of_the_hub(count: int, text: str) -> None:
    assert readable_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 52, "1023.9 KiB"),
        (2**20 - 51, "1 MiB"),
        (2**20 - 1, "1 MiB"),
        (2**30 - 1, "1 GiB"),
        (134_217_728, "128 MiB"),
        (2_147_483_644, "2 GiB"),
        (2**50, "1048576 GiB"),
    ],
)
def test_bytes_in_the_units_of_devices(count: int, text: str) -> None:
    assert readable_binary_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (4096, "4,096 nodes")]
)
def test_plural(count: int, text: str) -> None:
    assert plural(count, "node") == text


@pytest.mark.parametrize(
    ("distance", "text"),
    [(None, "–"), (0.0, "0"), (1.0, "1"), (2.98023e-08, "2.98e-08"), (0.0001234, "0.000123")],
)
def test_distance(distance: float | None, text: str) -> None:
    assert readable_distance(distance) == text
