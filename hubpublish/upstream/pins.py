"""What a recipe pins: the SHA-256 of files, where it says so, and perhaps the source's commit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from hubpublish.recipe import Recipe, Source
from hubpublish.recipe.checks import Location
from hubpublish.recipe.messages import label

DEFAULT_BRANCH: Final = "main"
REVISION: Final[Location] = ("source", "revision")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Pin:
    """A SHA-256 that a recipe demands of a file, and the keys and positions that lead to it."""

    path: str
    role: Literal["model", "data", "copied"]
    sha256: str
    location: Location

    @property
    def key(self) -> str:
        """As people write it: ``variants[0].data[1].sha256``."""
        return label(self.location)


def pins(recipe: Recipe) -> Iterator[Pin]:
    """Every SHA-256 in a recipe, in the order of the documented keys."""
    for index, copied in enumerate(recipe.source.copy_files):
        if copied.sha256 is not None:
            yield Pin(copied.path, "copied", copied.sha256, ("source", "copy", index, "sha256"))
    for index, variant in enumerate(recipe.variants):
        here: Location = ("variants", index)
        yield Pin(variant.path, "model", variant.sha256, (*here, "sha256"))
        for number, data in enumerate(variant.data):
            yield Pin(data.path, "data", data.sha256, (*here, "data", number, "sha256"))


def pinned_commit(source: Source) -> str | None:
    """The commit that the source's revision is; None if it is a branch or a tag."""
    return source.revision if _COMMIT.fullmatch(source.revision) else None


def head_revision(source: Source) -> str:
    """Where to look for what is new: the branch or tag, or for a commit the default branch."""
    return DEFAULT_BRANCH if pinned_commit(source) else source.revision


def with_values(recipe: Recipe, values: Mapping[Location, str]) -> Recipe:
    """The recipe with other texts at these places."""
    return Recipe.model_validate(_replaced(recipe.model_dump(by_alias=True), values, ()))


def _replaced(part: Any, values: Mapping[Location, str], here: Location) -> Any:
    if here in values:
        return values[here]
    if isinstance(part, dict):
        return {key: _replaced(item, values, (*here, key)) for key, item in part.items()}
    if isinstance(part, list | tuple):
        return [_replaced(item, values, (*here, index)) for index, item in enumerate(part)]
    return part
