"""A pass as a recipe names it, looked up in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializeAsAny,
    Tag,
    model_serializer,
    model_validator,
)

from hubpublish.passes import PASSES, PassOptions, RewritePass
from hubpublish.recipe.types import RecipeModel, nearest, problem, shown


class PassSpec(RecipeModel):
    """A pass and its options. In a file: the pass's name, or one name with a mapping of options."""

    name: str = Field(description="The pass's name in the registry.")
    options: SerializeAsAny[PassOptions] = Field(description="The pass's own options, all of them.")

    @model_validator(mode="before")
    @classmethod
    def _look_up(cls, data: object) -> object:
        name, options = _split_pass(data)
        pass_class = find_pass(name)
        if type(options) is not pass_class.Options:
            options = pass_class.Options.model_validate({} if options is None else options)
        return {"name": name, "options": options}

    @model_serializer(mode="plain")
    def _as_in_a_file(self) -> str | dict[str, dict[str, Any]]:
        options = self.options.model_dump(mode="json")
        return {self.name: options} if options else self.name

    def build(self) -> RewritePass[Any]:
        """The pass, ready to run."""
        return PASSES[self.name](self.options)


def find_pass(name: object) -> type[RewritePass[Any]]:
    """The registered pass of that name.

    Raises:
        PydanticCustomError: There is none; the message has the nearest one.
    """
    if name == "auto":
        raise problem("auto is no pass, it chooses them: write auto alone, without a list or options")
    if not isinstance(name, str) or name not in PASSES:
        raise problem(f"unknown pass {shown(name)}; {nearest(str(name), PASSES)}")
    return PASSES[name]


def _split_pass(data: object) -> tuple[object, object]:
    if isinstance(data, str):
        return data, {}
    if isinstance(data, Mapping) and "name" in data and data.keys() <= {"name", "options"}:
        return data["name"], data.get("options", {})
    if isinstance(data, Mapping) and len(data) == 1:
        return next(iter(data.items()))
    raise problem("a pass is a name, or one name with a mapping of its options")


def _auto(value: object) -> object:
    if value != "auto":
        hint = f"write it as a list: [{value}]" if value in PASSES else "write auto, or a list of passes"
        raise problem(f"unknown word {shown(value)} for passes; {hint}")
    return value


Passes = Annotated[
    Annotated[Literal["auto"], BeforeValidator(_auto), Tag("auto")]
    | Annotated[tuple[PassSpec, ...], Tag("passes")],
    Discriminator(lambda value: "auto" if isinstance(value, str) else "passes"),
]
"""What a recipe says under ``passes``."""
