"""What must hold between the parts of a recipe, and of the values of its inputs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hubpublish.layout import OWN_FILES, SIGNATURE
from hubpublish.recipe.types import problem, shown
from hubpublish.regions import holds_marker

if TYPE_CHECKING:
    from hubpublish.recipe.models import CardSpec, Recipe, Variant
    from hubpublish.recipe.verify_spec import InputSpec

Location = tuple[str | int, ...]
"""Where in a recipe: keys and list positions, from the top."""

# In the card's prose a lower-case ${name} is JavaScript, not a variable of the environment.
_ENVIRONMENT = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")
_MAX_RANK = 32


class Finding(NamedTuple):
    """Something that cannot be, and where."""

    location: Location
    text: str


def findings(recipe: Recipe) -> list[Finding]:
    """All that is wrong between parts which are right by themselves."""
    found = [*_collisions(recipe), *_variables(recipe), *_inputs(recipe.verify.inputs, ("verify", "inputs"))]
    found += _regions(recipe.card)
    for index, variant in enumerate(recipe.variants):
        found.extend(_data_files(variant, ("variants", index)))
        if variant.verify is not None:
            found.extend(_inputs(variant.verify.inputs, ("variants", index, "verify", "inputs")))
    if recipe.target.repo.lower() == recipe.source.repo.lower():
        text = f"is the source, '{recipe.source.repo}'; publish to a repo of its own"
        found.append(Finding(("target", "repo"), text))
    return found


def _collisions(recipe: Recipe) -> Iterator[Finding]:
    # Folded case: two names that differ in it alone cannot both be staged on every file system.
    taken = {name.lower(): f"{name}, which every publication writes" for name in OWN_FILES}
    taken[SIGNATURE] = f"{SIGNATURE}, which a run that signs writes"
    folders: dict[str, str] = {}
    for location, path, owner in _published(recipe):
        key = path.lower()
        parts = key.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        rivals = [taken.get(key), folders.get(key), *(taken.get(each) for each in above)]
        if rival := next(filter(None, rivals), None):
            yield Finding(location, f"'{path}' would be published in the place of {rival}")
        taken.setdefault(key, owner)
        folders.update((each, owner) for each in above)


def _published(recipe: Recipe) -> Iterator[tuple[Location, str, str]]:
    """Every file that the recipe makes its publication hold: where it says so, its path, a name for it."""
    paths: set[str] = set()
    for index, variant in enumerate(recipe.variants):
        location: Location = ("variants", index, "path")
        yield location, variant.path, f"variants[{index}]"
        if variant.path not in paths:
            yield location, f"{variant.path}_data", f"the external data of variants[{index}]"
        paths.add(variant.path)
    for index, copied in enumerate(recipe.source.copy_files):
        yield ("source", "copy", index), copied.path, f"source.copy[{index}]"


def _data_files(variant: Variant, location: Location) -> Iterator[Finding]:
    folder = variant.path.rpartition("/")[0]
    seen = {variant.path}
    for index, data in enumerate(variant.data):
        where = (*location, "data", index, "path")
        if data.path in seen:
            yield Finding(where, f"'{data.path}' is listed already")
        if folder and not data.path.startswith(f"{folder}/"):
            yield Finding(where, f"'{data.path}' is not in the model's folder, '{folder}'")
        seen.add(data.path)


def _inputs(spec: InputSpec, location: Location) -> Iterator[Finding]:
    if spec.noise == 0 and not spec.images:
        yield Finding((*location, "noise"), "0 without images leaves nothing to compare on")
    for name in spec.ranges:
        if name in spec.values:
            text = f"input '{name}' has a fixed value under values; give it a range or a value"
            yield Finding((*location, "ranges", name), text)


def _regions(card: CardSpec) -> Iterator[Finding]:
    for index, name in enumerate(card.free_text):
        if name in card.free_text[:index]:
            yield Finding(("card", "free_text", index), f"'{name}' is listed already")
    for key, text in _texts(card.model_dump(mode="json"), ("card",)):
        if holds_marker(text):
            yield Finding(key, "holds a marker of free text; name the region in card.free_text instead")


def _variables(recipe: Recipe) -> Iterator[Finding]:
    for location, text in _texts(recipe.model_dump(mode="json", by_alias=True), ()):
        # The usage is code, in which a shell's ${NAME} is rightly there.
        if location in {("target", "repo"), ("card", "usage")}:
            continue
        if found := _ENVIRONMENT.search(text):
            yield Finding(location, f"holds {found[0]}; variables are filled in in target.repo alone")


def _texts(value: object, location: Location) -> Iterator[tuple[Location, str]]:
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*location, index))


def check_range(value: object) -> object:
    """Check a pair of bounds before its numbers are looked at.

    Raises:
        PydanticCustomError: Not two values, or the lower one is the higher.
    """
    if not isinstance(value, list | tuple) or len(value) != 2:
        found = list(value) if isinstance(value, list | tuple) else value
        raise problem(f"must be [lowest, highest], not {shown(found)}")
    low, high = value
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise problem(f"must be [lowest, highest], but {low} is more than {high}")
    return value


def check_value(value: object) -> object:
    """Check the value of an input: one number, text or truth value, or a full array of one kind.

    Returns:
        The value, with lists for its sequences.

    Raises:
        PydanticCustomError: Ragged, mixed, empty (no value at all), not finite, or too deep.
    """
    kinds: set[str] = set()
    _shape(value, 0, kinds)
    if len(kinds) > 1:
        raise problem(f"mixes {' and '.join(sorted(kinds))}")
    return _as_lists(value)


def _shape(value: object, depth: int, kinds: set[str]) -> tuple[int, ...]:
    if isinstance(value, list | tuple):
        if depth == _MAX_RANK:
            raise problem(f"has more than {_MAX_RANK} dimensions")
        shapes = {_shape(item, depth + 1, kinds) for item in value}
        if len(shapes) > 1:
            raise problem("is ragged: the lists on one level differ in length")
        return (len(value), *(shapes.pop() if shapes else ()))
    kinds.add(_kind(value))
    return ()


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth values"
    if isinstance(value, str):
        return "texts"
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return "numbers"
    if isinstance(value, float) and math.isfinite(value):
        return "numbers"
    if isinstance(value, int | float):
        raise problem(f"holds {shown(value)}, which is not finite or needs more than 64 bits")
    if value is None:
        raise problem("is empty, or has an empty element")
    raise problem("must be a number, a text, true or false, or lists of them")


def _as_lists(value: object) -> object:
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value
