from __future__ import annotations

from pathlib import Path
from typing import Any

from hubpublish import recipe
from hubpublish.devices import PROFILES
from hubpublish.passes import PASSES
from hubpublish.recipe.schema import dumps_schema

SCHEMA = Path(__file__).parents[2] / "schema" / "recipe.schema.json"


def definitions() -> dict[str, Any]:
    found = recipe.json_schema()["$defs"]
    assert isinstance(found, dict)
    return found


def test_the_schema_file_is_the_generated_one() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == dumps_schema(), "run: make schema"


def test_keys_are_those_of_a_file() -> None:
    schema = recipe.json_schema()
    keys = ["schema", "source", "variants", "passes", "device", "verify", "target", "card"]
    assert list(schema["properties"]) == keys
    assert list(schema["$defs"]["Source"]["properties"]) == ["repo", "revision", "copy"]
    assert schema["required"] == ["schema", "source", "variants", "passes", "target", "card"]


def test_every_key_is_described() -> None:
    models = [recipe.json_schema(), *(each for each in definitions().values() if "properties" in each)]
    keys = [(key, about) for each in models for key, about in each["properties"].items()]
    # Pydantic leaves a description out where the definition that it refers to has the same.
    bare = [key for key, about in keys if not about.get("description") and "$ref" not in about]
    assert bare == []


def test_a_pass_is_its_name_or_its_name_with_its_options() -> None:
    *names, mapping = definitions()["PassSpec"]["anyOf"]
    assert [each["const"] for each in names] == list(PASSES)
    assert all(each["description"] for each in names)
    assert list(mapping["properties"]) == list(PASSES)
    assert (mapping["minProperties"], mapping["maxProperties"]) == (1, 1)
    options = mapping["properties"]["concat_tree"]
    assert options["properties"]["max_inputs"]["minimum"] == 2
    assert options["properties"]["max_inputs"]["description"]
    assert options["additionalProperties"] is False


def test_devices_are_listed() -> None:
    text, model = definitions()["DeviceSpec"]["anyOf"]
    assert text["enum"] == list(PROFILES)
    assert model["properties"]["profile"]["enum"] == list(PROFILES)


def test_a_copied_file_may_be_a_text() -> None:
    text, model = definitions()["CopiedFile"]["anyOf"]
    assert text["type"] == "string"
    assert model["required"] == ["path"]
