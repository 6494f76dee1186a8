"""Pydantic's errors in the words of someone who writes a recipe."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import ErrorDetails

from hubpublish.recipe.checks import Location
from hubpublish.recipe.types import shown

_WANTED = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "finite_number": "must be finite",
}
_BOUNDS = {
    "greater_than": ("must be more than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
}


def label(location: Location) -> str:
    """A place in a recipe as people write it: ``variants[0].sha256``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the recipe"


def place(location: Location) -> str:
    """Behind a key: which mapping it is in."""
    return f" in {label(location)}" if location else " at the top level"


def message(error: ErrorDetails, location: Location) -> str:
    """One error as one line, without its file and line.

    Args:
        error: What pydantic says.
        location: The place that the line points to.
    """
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        hint = "; begin with 'schema: 1'" if error["loc"] == ("schema",) else ""
        return f"{label(location)} needs the key '{error['loc'][-1]}'{hint}"
    if kind == "recipe":
        return f"{label(location)}: {error['msg']}"
    if kind in _WANTED:
        return f"{label(location)} {_WANTED[kind]}, {_found(value)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{label(location)} {words} {context[bound]:.17g}, {_found(value)}"
    return f"{label(location)}: {error['msg']}"


def _found(value: object) -> str:
    if value is None:
        return "but has no value"
    if isinstance(value, bool):
        return f"not {str(value).lower()}"
    if isinstance(value, Mapping):
        return "not a mapping"
    if isinstance(value, list | tuple):
        return "not a list" if value else "not an empty list"
    return f"not {shown(value)}"
