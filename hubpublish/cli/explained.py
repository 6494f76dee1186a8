"""The passes as text and as JSON: what each is for, and its options."""

from __future__ import annotations

import inspect as python_inspect
from typing import Any

from hubpublish.cli.output import emit, emit_table, prose
from hubpublish.errors import UsageError


def pass_entries(name: str | None) -> list[dict[str, Any]]:
    """The passes, or the one of that name, as ``--json`` has them.

    Raises:
        UsageError: There is no pass of that name.
    """
    from hubpublish.passes import PASSES
    from hubpublish.recipe.types import nearest

    if name is not None and name not in PASSES:
        raise UsageError(f"unknown pass {name!r}", hint=nearest(name, PASSES))
    return [_entry(each) for each in PASSES.values() if name in (None, each.name)]


def show_list(entries: list[dict[str, Any]]) -> None:
    """Print a line for each pass, and how to read more."""
    emit_table(
        ["pass", "", "what it does"],
        [[entry["name"], _kind(entry), entry["summary"].splitlines()[0]] for entry in entries],
    )
    emit()
    emit("`hubpublish passes NAME` says what one removes, why it changes nothing else, and its options.")


def show_one(entry: dict[str, Any]) -> None:
    """Print all that is said of a pass."""
    emit(f"{entry['name']} ({_kind(entry)})", style="bold")
    for name, option in entry["options"].items():
        for number, line in enumerate(prose(f"{name} = {option['default']}: {option['description']}")):
            emit(f"    {line}" if number else f"  {line}")
    for line in prose(entry["documentation"]):
        emit(f"  {line}" if line else "")


def _kind(entry: dict[str, Any]) -> str:
    return "exact" if entry["exact"] else "approximate"


def _entry(each: Any) -> dict[str, Any]:
    module = python_inspect.getmodule(each)
    fields = each.Options.model_fields
    return {
        "name": each.name,
        "exact": each.exact,
        "summary": python_inspect.getdoc(each),
        "options": {
            name: {"default": field.get_default(call_default_factory=True), "description": field.description}
            for name, field in fields.items()
        },
        "documentation": python_inspect.cleandoc(module.__doc__ or "") if module else "",
    }
