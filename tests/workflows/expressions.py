"""GitHub's expressions, as far as our workflows use them. What a test did not provide for is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|([A-Za-z_][\w-]*)|(\d+)|(\|\||&&|==|!=|[!().,]))")
STATUS_FUNCTIONS = frozenset({"always", "cancelled", "failure", "success"})


class UnknownExpressionError(AssertionError):
    """A workflow asks for something that the test does not know."""


@dataclass
class Expressions:
    """Evaluates expressions.

    Args:
        contexts: github, vars, matrix, ... with all that may be asked for; None where GitHub has nothing.
        functions: cancelled, hashFiles, ... besides those that need no state.
    """

    contexts: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]

    def value(self, text: str) -> Any:
        """The value of one expression, without its braces."""
        return _Parser(text, self).whole()

    def filled(self, text: str) -> str:
        """A text of a workflow with its expressions replaced."""
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: as_text(self.value(found[1])), text)

    def condition(self, text: str | bool) -> bool:
        """Whether an ``if`` holds; it may do without braces."""
        return truthy(self.value(re.sub(r"^\$\{\{(.*)\}\}$", r"\1", str(text).strip(), flags=re.DOTALL)))


def calls(text: object, names: frozenset[str]) -> bool:
    """Whether an expression calls one of these functions."""
    return any(re.search(rf"\b{name}\(", str(text)) for name in names)


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def truthy(value: Any) -> bool:
    return value not in (None, False, 0, "")


class _Parser:
    def __init__(self, text: str, source: Expressions) -> None:
        self._text = text
        self._source = source
        self._tokens = self._split(text.strip())
        self._at = 0

    def _split(self, text: str) -> list[str]:
        tokens, at = [], 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise UnknownExpressionError(f"cannot read {self._text!r}")
            tokens.append(found.group().strip())
            at = found.end()
        return tokens

    def whole(self) -> Any:
        value = self._either()
        if self._at != len(self._tokens):
            raise UnknownExpressionError(f"cannot read {self._text!r}")
        return value

    def _taken(self, *tokens: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at] in tokens:
            self._at += 1
            return self._tokens[self._at - 1]
        return None

    def _either(self) -> Any:
        value = self._both()
        while self._taken("||"):
            other = self._both()
            value = value if truthy(value) else other
        return value

    def _both(self) -> Any:
        value = self._equal()
        while self._taken("&&"):
            other = self._equal()
            value = other if truthy(value) else value
        return value

    def _equal(self) -> Any:
        value = self._negated()
        while operator := self._taken("==", "!="):
            same = as_text(value) == as_text(self._negated())
            value = same if operator == "==" else not same
        return value

    def _negated(self) -> Any:
        return not truthy(self._negated()) if self._taken("!") else self._primary()

    def _primary(self) -> Any:
        if self._taken("("):
            value = self._either()
            self._required(")")
            return value
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        self._at += 1
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.isdigit():
            return int(token)
        if token in ("true", "false", "null"):
            return json.loads(token)
        return self._call(token) if self._taken("(") else self._property(token)

    def _required(self, token: str) -> None:
        if not self._taken(token):
            raise UnknownExpressionError(f"{self._text!r} lacks a {token}")

    def _call(self, name: str) -> Any:
        arguments = []
        while not self._taken(")"):
            arguments.append(self._either())
            self._taken(",")
        functions: dict[str, Callable[..., Any]] = {
            "fromJSON": json.loads,
            "contains": lambda where, what: what in where,
            "format": lambda text, *values: re.sub(
                r"\{(\d+)\}", lambda at: as_text(values[int(at[1])]), text
            ),
            **self._source.functions,
        }
        if name not in functions:
            raise UnknownExpressionError(f"{self._text!r}: no function {name}")
        return functions[name](*arguments)

    def _property(self, name: str) -> Any:
        value: Any = self._source.contexts
        path = [name]
        while self._taken("."):
            path.append(self._tokens[self._at])
            self._at += 1
        for each in path:
            if value is None:
                return None
            if not isinstance(value, Mapping) or each not in value:
                raise UnknownExpressionError(f"{self._text!r}: the test does not provide {'.'.join(path)}")
            value = value[each]
        return value
