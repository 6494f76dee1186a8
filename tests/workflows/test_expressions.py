"""The expressions of the runner: right, or an error of the test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.expressions import Expressions, UnknownExpressionError

AT = Expressions(
    {"github": {"event": {"number": 7, "nothing": None}, "ref": "main"}, "matrix": {"target": ""}},
    {"cancelled": lambda: False},
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("github.event.number", 7),
        ("github.event.nothing.more", None),
        ("github.event.nothing.number || github.ref", "main"),
        ("matrix.target || 'none'", "none"),
        ("!cancelled() && github.ref != ''", True),
        ("!(github.ref == 'main' || cancelled())", False),
        ("format('origin/{0}', github.ref)", "origin/main"),
        ("contains(fromJSON('[\"a\"]'), 'a')", True),
        ("'it''s'", "it's"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert AT.value(text) == value


@pytest.mark.parametrize(
    "text", ["github.other", "secrets.TOKEN", "toJSON(github)", "github.ref &", "(github.ref"]
)
def test_what_is_not_known_is_an_error(text: str) -> None:
    with pytest.raises(UnknownExpressionError):
        AT.value(text)


def test_texts_and_conditions() -> None:
    assert AT.filled("a-${{ github.event.number }}-${{ github.event.nothing }}") == "a-7-"
    assert AT.condition("${{ !cancelled() }}")
    assert not AT.condition("matrix.target")
