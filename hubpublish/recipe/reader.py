"""From a recipe file to a Recipe, with the line and column of everything that is wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError
from yaml import MappingNode, ScalarNode, SequenceNode
from yaml.error import Mark
from yaml.nodes import Node

from hubpublish import __version__
from hubpublish.errors import RecipeError
from hubpublish.recipe.checks import Location
from hubpublish.recipe.document import NULL, compose, read_text, scalar
from hubpublish.recipe.fields import holds_text, item_type, key_types, model_of
from hubpublish.recipe.messages import label, message, place
from hubpublish.recipe.models import SCHEMA_VERSIONS, Recipe
from hubpublish.recipe.pass_spec import PassSpec, find_pass
from hubpublish.recipe.types import closest, nearest, shown

_MOST_SHOWN = 20
_DROPPED = object()


def load(path: Path) -> Recipe:
    """Read a recipe file.

    Raises:
        RecipeError: The file is not a recipe; ``where`` is file:line:column of the first problem,
            ``what`` has the others on lines of their own, ``details["problems"]`` has them all.
    """
    return loads(read_text(path), str(path))


def loads(text: str, name: str = "recipe") -> Recipe:
    """Read a recipe from its text.

    Args:
        text: YAML.
        name: What errors call it, usually the file's path.

    Raises:
        RecipeError: As in `load`.
    """
    reading = _Reading(name)
    root = compose(text, name)
    if not isinstance(root, MappingNode):
        kind = "list" if isinstance(root, SequenceNode) else "text"
        raise RecipeError(
            f"a recipe is a mapping that begins with 'schema: 1', not a {kind}",
            where=reading.where(root.start_mark),
        )
    _check_schema(root, reading)
    data = reading.value(root, Recipe, ())
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        reading.add_errors(error, ())
        raise reading.error() from None
    if reading.problems:
        raise reading.error()
    return recipe


def _check_schema(root: MappingNode, reading: _Reading) -> None:
    """The version first: in a file of another version everything else may rightly be different."""
    versions = " and ".join(map(str, SCHEMA_VERSIONS))
    keys = {key.value: value for key, value in reversed(root.value) if isinstance(key, ScalarNode)}
    if not keys.keys() & key_types(Recipe).keys():
        raise RecipeError(
            "not a recipe: it has none of a recipe's keys",
            where=reading.where(root.start_mark),
            hint=f"begin it with 'schema: {SCHEMA_VERSIONS[-1]}', or let 'hubpublish new' write a first one",
        )
    value = keys.get("schema")
    # Compared as text: to Python, true and 1.0 are 1 as well.
    if value is not None and value.value not in map(str, SCHEMA_VERSIONS):
        found = shown(value.value) if isinstance(value, ScalarNode) else "of this kind"
        raise RecipeError(
            f"schema {found} is not known: hubpublish {__version__} reads schema {versions}",
            where=reading.where(value.start_mark),
            hint=f"write 'schema: {SCHEMA_VERSIONS[-1]}', or install the hubpublish that reads this one",
        )


class _Problem(NamedTuple):
    line: int
    column: int
    text: str


@dataclass
class _Reading:
    """One file being read: where its values and keys stand, and what was wrong so far."""

    name: str
    problems: list[_Problem] = field(default_factory=list)
    values: dict[Location, Mark] = field(default_factory=dict)
    keys: dict[Location, Mark] = field(default_factory=dict)
    misspelled: set[Location] = field(default_factory=set)

    def where(self, mark: Mark) -> str:
        return f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def add(self, mark: Mark, text: str) -> None:
        found = _Problem(mark.line + 1, mark.column + 1, text)
        if found not in self.problems:
            self.problems.append(found)

    def value(self, node: Node, annotation: Any, location: Location) -> Any:
        """The node's value for a field of that type, as pydantic takes it."""
        self.values[location] = node.start_mark
        if model_of(annotation) is PassSpec:
            return self.pass_spec(node, location)
        if isinstance(node, MappingNode):
            return self.mapping(node, annotation, location)
        if isinstance(node, SequenceNode):
            items = (
                self.value(item, item_type(annotation), (*location, index))
                for index, item in enumerate(node.value)
            )
            return tuple(item for item in items if item is not _DROPPED)
        return self.scalar(node, annotation, location)

    def scalar(self, node: Node, annotation: Any, location: Location) -> Any:
        assert isinstance(node, ScalarNode)
        if holds_text(annotation) and node.tag != NULL:
            return node.value
        try:
            return scalar(node)
        except ValueError:
            self.add(node.start_mark, f"{label(location)} is a number of {len(node.value)} digits")
            return _DROPPED

    def mapping(self, node: MappingNode, annotation: Any, location: Location) -> dict[str, Any]:
        """A mapping's entries; unknown and repeated keys are noted and left out."""
        model = model_of(annotation)
        known = key_types(model) if model else None
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node, location)
            if key is None:
                continue
            here = (*location, key)
            if here in self.keys:
                lines = f"lines {self.keys[here].line + 1} and {key_node.start_mark.line + 1}"
                self.add(key_node.start_mark, f"duplicate key {shown(key)}{place(location)}: {lines}")
                continue
            self.keys[here] = key_node.start_mark
            if known is not None and key not in known:
                self.unknown_key(key_node.start_mark, key, list(known), location)
                continue
            value = self.value(value_node, known[key] if known else item_type(annotation), here)
            if value is not _DROPPED:
                found[key] = value
        return found

    def key(self, node: Node, location: Location) -> str | None:
        if not isinstance(node, ScalarNode) or not node.value:
            self.add(node.start_mark, f"a key{place(location)} is not a name")
        elif node.value == "<<" and node.style is None:
            self.add(node.start_mark, "merge keys ('<<') are not supported; write the keys out")
        else:
            return str(node.value)
        return None

    def unknown_key(self, mark: Mark, key: str, known: list[str], location: Location) -> None:
        # A Cyrillic letter looks like the Latin one that was meant.
        odd = sorted({f"U+{ord(character):04X}" for character in key if not character.isascii()})
        looks = f" (with {', '.join(odd[:3])})" if odd else ""
        self.add(mark, f"unknown key {shown(key)}{looks}{place(location)}; {nearest(key, known)}")
        if meant := closest(key, known):
            self.misspelled.add((*location, meant))

    def pass_spec(self, node: Node, location: Location) -> Any:
        """A pass, looked up here so that what is wrong in its options has a place."""
        options_node: Node | None = None
        if isinstance(node, MappingNode) and len(node.value) == 1:
            node, options_node = node.value[0]
        if not isinstance(node, ScalarNode) or node.tag == NULL:
            text = "a pass is a name, or one name with its options in {} or indented below it"
            self.add(node.start_mark, f"{label(location)}: {text}")
            return _DROPPED
        try:
            pass_class = find_pass(node.value)
        except PydanticCustomError as error:
            self.add(node.start_mark, error.message())
            return _DROPPED
        here = (*location, node.value)
        self.keys[here] = node.start_mark
        options: Any = {}
        if options_node is not None and getattr(options_node, "tag", None) != NULL:
            options = self.value(options_node, pass_class.Options, here)
        try:
            return PassSpec(name=node.value, options=pass_class.Options.model_validate(options, strict=True))
        except ValidationError as error:
            self.values.setdefault(here, node.start_mark)
            self.add_errors(error, here)
            return _DROPPED

    def add_errors(self, error: ValidationError, base: Location) -> None:
        """Note what pydantic found, each at the nearest place that is known."""
        for each in error.errors():
            location = self.known_part((*base, *each["loc"]))
            if each["type"] == "recipe_findings":
                for finding in each["ctx"]["findings"]:
                    self.add(self.mark(finding.location), f"{label(finding.location)}: {finding.text}")
            elif not self.follows_from_a_misspelling(each, location):
                self.add(self.mark(location), message(each, location))

    def follows_from_a_misspelling(self, error: ErrorDetails, location: Location) -> bool:
        """Whether a key is missing, or too few are there, only since it was spelled wrong."""
        if error["type"] == "missing":
            return (*location, str(error["loc"][-1])) in self.misspelled
        return error["type"] == "recipe" and any(location == each[:-1] for each in self.misspelled)

    def known_part(self, location: Location) -> Location:
        """Without what pydantic adds to tell the members of a union apart, and what is not there."""
        found: Location = ()
        for part in location:
            if (*found, part) in self.values:
                found = (*found, part)
        return found

    def mark(self, location: Location) -> Mark:
        while location not in self.values:
            location = location[:-1]
        return self.values[location]

    def error(self) -> RecipeError:
        """All problems in the order of the file, as one error."""
        first, *others = found = sorted(self.problems)
        lines = [f"{self.name}:{each.line}:{each.column}: {each.text}" for each in others[: _MOST_SHOWN - 1]]
        if len(others) >= _MOST_SHOWN:
            lines.append(f"and {len(others) - len(lines)} more")
        details = [{"line": each.line, "column": each.column, "message": each.text} for each in found]
        return RecipeError(
            "\n".join([first.text, *lines]),
            where=f"{self.name}:{first.line}:{first.column}",
            details={"problems": details},
        )
