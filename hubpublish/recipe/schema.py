"""The JSON schema of a recipe, for editors: completion, descriptions, and errors while typing."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from hubpublish.passes import PASSES
from hubpublish.recipe.models import Recipe


def json_schema() -> dict[str, Any]:
    """The schema of a recipe file, with the passes and device profiles that there are."""
    schema = Recipe.model_json_schema(by_alias=True, schema_generator=_Generator)
    definitions = schema["$defs"]
    definitions["PassSpec"] = _passes()
    for name, first in (("CopiedFile", "path"), ("DeviceSpec", "profile")):
        definitions[name] = _or_text(definitions[name], first)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "hubpublish recipe",
    }


class _Generator(GenerateJsonSchema):
    """Without a title for every key: it would only repeat the key."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def dumps_schema() -> str:
    """The schema as the text of its file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _or_text(model: JsonSchemaValue, first: str) -> JsonSchemaValue:
    """A model that a file may also give as the bare text of its first field."""
    text = model["properties"][first]
    return {"description": model.pop("description"), "anyOf": [text, model]}


def _passes() -> JsonSchemaValue:
    """Either a pass's name, or one name with a mapping of that pass's options.

    The mappings are one object with at most one key, not one object a pass: an editor can then say
    which option is wrong, and not only that none of the alternatives fits.
    """
    names: list[JsonSchemaValue] = []
    options: JsonSchemaValue = {}
    for name, pass_class in PASSES.items():
        about = (pass_class.__doc__ or name).strip().splitlines()[0]
        own = pass_class.Options.model_json_schema(schema_generator=_Generator)
        own["type"] = ["object", "null"]
        options[name] = {**own, "description": about}
        names.append({"const": name, "description": about})
    one = {"type": "object", "properties": options, "additionalProperties": False}
    return {
        "description": "A pass: its name, or its name with options.",
        "anyOf": [*names, {**one, "minProperties": 1, "maxProperties": 1}],
    }
