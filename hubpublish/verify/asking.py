"""What to say where something about the inputs must be set: in a recipe, or by an option of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from hubpublish.errors import UsageError
from hubpublish.verify.result import Verification

OPTIONS: Mapping[str, str] = {
    "original_fails": "give inputs that the model accepts: --value, --input and --shape",
    "output_independent_of_input": "give other inputs with --value or --input, "
    "or check that the model is the one you mean",
    "timeout": "use a faster machine, or smaller inputs with --shape",
}
"""`hints.HINTS` for a command that takes no recipe, where they are not the same."""


class HowTo(TypedDict):
    """The part of an error that says what to set."""

    hint: str
    details: Mapping[str, object]


def to_set(verb: str, key: str, name: str, example: str | None = None) -> HowTo:
    """What to do about an input: set or correct its shape or value, in the recipe's words.

    Args:
        verb: What to do.
        key: ``shapes`` or ``values``, as in ``verify.inputs``.
        name: The input.
        example: As a recipe has it, such as ``[1, 3, N, 64]``.
    """
    such = f", such as {name}: {example}" if example else ""
    hint = f"{verb} verify.inputs.{key} in the recipe{such}"
    return HowTo(hint=hint, details={"set": {"key": key, "input": name, "example": example}})


def by_option(error: UsageError) -> None:
    """Make an error say what to set in the words of a command with options."""
    asked = error.details.get("set")
    if isinstance(asked, Mapping):
        value = "".join(str(asked["example"] or "...").split()).strip("[]")
        verb = str(error.hint).split()[0]
        error.hint = f"{verb} --{str(asked['key']).removesuffix('s')} {asked['input']}={value}"


def hinted_by_option(result: Verification) -> Verification:
    """A verification whose hint is in the words of a command with options."""
    return result.model_copy(update={"hint": OPTIONS.get(result.kind or "", result.hint)})
