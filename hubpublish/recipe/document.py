"""A recipe's text as YAML nodes with lines and columns, and its plain scalars as values.

The scalars follow YAML 1.2's core schema, as editors do: ``1e-3`` is a number, ``no`` and ``12:30``
are texts. What a recipe has no use for is refused where it stands: aliases (a few lines of them
can stand for billions of values), merge keys, tags, several documents, deep nesting.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from yaml.nodes import Node, ScalarNode

from hubpublish.errors import RecipeError

MAX_BYTES = 1 << 20
MAX_DEPTH = 40

NULL, BOOL, INT, FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))

CORE_SCHEMA = (
    (NULL, re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    (BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    (INT, re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")),
    (
        FLOAT,
        re.compile(
            r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
        list("-+.0123456789"),
    ),
)
"""Tag, pattern and first characters of what is not a text when it stands without quotes."""


class _Refused(yaml.MarkedYAMLError):
    """YAML that is well-formed and still not for a recipe."""


class _Composer(yaml.SafeLoader):
    """PyYAML's composer without what a recipe has no use for."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0

    def compose_node(self, parent: Node | None, index: object) -> Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = f"aliases such as '*{event.anchor}' are not supported; write the value out"
        elif tag := getattr(event, "tag", None):
            problem = f"YAML tags such as {tag!r} are not supported; write a plain value"
        elif self.depth == MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} deep"
        if problem:
            raise _Refused(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
        self.depth += 1
        try:
            return super().compose_node(parent, index)  # type: ignore[arg-type]
        finally:
            self.depth -= 1


for _tag, _pattern, _first in CORE_SCHEMA:
    _Composer.add_implicit_resolver(_tag, _pattern, _first)


def read_text(path: Path) -> str:
    """The text of a recipe file.

    Raises:
        RecipeError: It is missing, no file, unreadable, too large, or not UTF-8.
    """
    where = str(path)
    try:
        if path.is_dir():
            raise RecipeError("this is a folder, not a recipe", where=where, hint="name the .yaml file in it")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise RecipeError("there is no such file", where=where, hint="check the recipe's path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RecipeError(f"cannot be read: {reason}", where=repr(where)) from None
    if len(content) > MAX_BYTES:
        raise RecipeError(f"larger than {MAX_BYTES} bytes: this is not a recipe", where=where)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place(content[: error.start].decode("utf-8-sig"))
        problem = f"not UTF-8: byte 0x{content[error.start]:02x}"
        raise RecipeError(problem, where=f"{where}:{place}", hint="save the file as UTF-8") from None


def _place(before: str) -> str:
    """Line and column, from one, of what comes after this text."""
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def compose(text: str, name: str) -> Node:
    """The root node of the one document in ``text``.

    Args:
        text: YAML; a byte order mark is allowed.
        name: What errors call it, usually the file's path.

    Raises:
        RecipeError: It is no YAML, empty, several documents, or uses what a recipe may not.
    """
    if len(text) > MAX_BYTES:
        raise RecipeError(f"larger than {MAX_BYTES} characters: this is not a recipe", where=name)
    try:
        root = _Composer(text.removeprefix("\ufeff")).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, name) from None
    except yaml.reader.ReaderError as error:
        place = _place(text.removeprefix("\ufeff")[: error.position])
        raise RecipeError(
            f"not valid YAML: the character U+{_code_point(error.character):04X} is not allowed",
            where=f"{name}:{place}",
        ) from None
    except (ValueError, OverflowError) as error:
        # PyYAML lets these through for escapes and directives with impossible numbers.
        raise RecipeError(f"not valid YAML: {error}", where=name) from None
    if root is None:
        raise RecipeError(
            "empty: there is no recipe in it",
            where=name,
            hint="`hubpublish new OWNER/NAME` writes a first one",
        )
    return root


def _code_point(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[0])


def _syntax_error(error: yaml.MarkedYAMLError, name: str) -> RecipeError:
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    problem = (error.problem or error.context or "").strip()
    if isinstance(error, _Refused):
        return RecipeError(problem, where=where)
    if "found another document" in problem:
        return RecipeError("a second document begins here; a file holds one recipe", where=where)
    if "'\\t'" in problem:
        return RecipeError("a tab cannot indent in YAML", where=where, hint="indent with spaces")
    hint = None
    if "mapping values are not allowed" in problem:
        hint = "quote a text that holds ': ', and check the indentation"
    context = f" {error.context}" if error.context and error.problem else ""
    return RecipeError(f"not valid YAML: {problem}{context}", where=where, hint=hint)


def scalar(node: ScalarNode) -> object:
    """The value of a scalar: a number, a truth value, None, or its text.

    Raises:
        ValueError: A number of more than a thousand digits.
    """
    text: str = node.value
    if node.tag == NULL:
        return None
    if node.tag == BOOL:
        return text.lower() == "true"
    if node.tag == INT:
        if len(text) > 1000:
            raise ValueError
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if node.tag == FLOAT:
        # YAML writes .inf and .nan, Python does not want the dot.
        return float(re.sub(r"\.(?=[inIN])", "", text))
    return text
