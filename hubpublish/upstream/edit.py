"""Other values in a recipe's file, with every other byte of it left alone."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from yaml import MappingNode, ScalarNode, SequenceNode
from yaml.nodes import Node

from hubpublish.errors import RecipeError, UsageError
from hubpublish.recipe import Recipe, loads
from hubpublish.recipe.checks import Location
from hubpublish.recipe.document import compose
from hubpublish.recipe.messages import label

_MARK = "\ufeff"  # of byte order; nodes count their characters after it


def edited(text: str, name: str, values: Mapping[Location, str], expected: Recipe) -> str:
    """The text of a recipe with other values at these places, however they are written there.

    Args:
        text: The recipe.
        name: What errors call it, usually the file's path.
        values: New texts of letters and digits, by the keys and positions that lead to them.
        expected: What the outcome must load to.

    Raises:
        RecipeError: The outcome would be another recipe; kind ``not_editable``.
    """
    start = len(text) - len(text.removeprefix(_MARK))
    root = compose(text, name)
    spots = []
    for location, value in values.items():
        node = _find(root, location, name)
        first, last = node.start_mark.index + start, node.end_mark.index + start
        spots.append((first, last, _rewritten(text[first:last], node, value)))
    for first, last, written in sorted(spots, reverse=True):
        text = text[:first] + written + text[last:]
    if _loaded(text, name) != expected:
        raise _not_editable(name, ", ".join(map(label, values)))
    return text


def write(path: Path, before: str, after: str) -> None:
    """Put another text into a file: all of it, or nothing; its mode and byte order mark stay.

    Raises:
        UsageError: It no longer holds ``before``, or cannot be written.
    """
    try:
        target = path.resolve(strict=True)  # a symbolic link stays one
        content = target.read_bytes()
        mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
        if content != mark + before.encode():
            raise UsageError(
                "the file changed meanwhile, so it was left as it is now",
                where=str(path),
                hint="run again",
                kind="changed_meanwhile",
            )
        _replace(target, mark + after.encode())
    except OSError as error:
        raise UsageError(
            f"the recipe cannot be written: {error.strerror or error}",
            where=str(path),
            hint="make the file and its folder writable",
            kind="cannot_write",
        ) from error


def _replace(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, stat.S_IMODE(target.stat().st_mode))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _find(node: Node, location: Location, name: str) -> ScalarNode:
    found: Node | None = node
    for part in location:
        if isinstance(found, MappingNode):
            found = next((value for key, value in found.value if key.value == part), None)
        elif isinstance(found, SequenceNode) and isinstance(part, int) and part < len(found.value):
            found = found.value[part]
        else:
            found = None
    if not isinstance(found, ScalarNode):
        raise _not_editable(name, label(location))
    return found


def _rewritten(written: str, node: ScalarNode, value: str) -> str:
    """A scalar as it is written, its style and whatever stands before or behind it kept."""
    # The last one: an anchor before it, or a comment in the first line of a block, may hold the same.
    at = written.rfind(node.value)
    if at >= 0:
        return written[:at] + value + written[at + len(node.value) :]
    # Written with escapes: then it is in double quotes, and no anchor can hold one.
    return f'{written[: written.find(chr(34))]}"{value}"' if '"' in written else written


def _loaded(text: str, name: str) -> Recipe | None:
    try:
        return loads(text, name)
    except RecipeError:
        return None


def _not_editable(name: str, keys: str) -> RecipeError:
    return RecipeError(
        f"the file is written in a way that cannot be changed in place: {keys}",
        where=name,
        hint="write these values plainly, on the line of their key, then run again",
        kind="not_editable",
    )
