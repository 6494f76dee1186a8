from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubpublish.errors import UsageError
from hubpublish.verify import parse_input, parse_shape, parse_value


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("x=1,3,8", ("x", (1, 3, 8))), ("a=b=2, 0", ("a=b", (2, 0))), ("s=", ("s", ()))],
)
def test_shapes(text: str, parsed: tuple[str, tuple[int, ...]]) -> None:
    assert parse_shape(text) == parsed


@pytest.mark.parametrize("text", ["x", "=1", "x=1,b", "x=-1", "x=1,,2"])
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(UsageError, match="no shape"):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("v=16000", 16000),
        ("v=-0.5", -0.5),
        ("v=[[1], [2]]", [[1], [2]]),
        ("v=true", True),
        ("v=hello world", "hello world"),
        ('v="16"', "16"),
        ("v=a=b", "a=b"),
        ("v=", ""),
        ("v=null", "null"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert parse_value(text) == ("v", value)


def test_what_is_no_value() -> None:
    for text in ("v", "=1"):
        with pytest.raises(UsageError):
            parse_value(text)


def test_inputs_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(2, dtype=np.float32))
    name, array = parse_input(f"x={tmp_path / 'x.npy'}")
    assert (name, array.tolist()) == ("x", [[1, 0], [0, 1]])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.zeros(1))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "empty.npy").touch()
    for file in ("objects.npy", "several.npz", "text.npy", "empty.npy", "missing.npy"):
        with pytest.raises(UsageError) as caught:
            parse_input(f"x={tmp_path / file}")
        assert caught.value.hint
