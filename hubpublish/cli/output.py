"""Where text goes: results to stdout, progress and errors to stderr, JSON to stdout alone."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubpublish.errors import HubpublishError
from hubpublish.words import printable

_PROSE_WIDTH = 76
_OWN_LINE = ("- ", "Source: ")  # what begins on a line of its own in prose


def emit_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; with ``--json`` nothing else goes to stdout."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def emit(line: str = "", style: str = "") -> None:
    """Print lines of a result: names may look like markup, and are never broken up."""
    _console().print(Text(_safe(line), style=style), soft_wrap=True)


def prose(text: str) -> list[str]:
    """The lines of a docstring for a narrow terminal; what is indented in it stays as it is.

    Items, which begin with ``- ``, and sources are on lines of their own.
    """
    lines: list[str] = []
    for block in text.replace("``", "`").split("\n\n"):
        if lines:
            lines.append("")
        if block.startswith(" "):
            lines += block.splitlines()
            continue
        for part in _parts(block):
            lines += textwrap.wrap(
                part, _PROSE_WIDTH, subsequent_indent="  " if part.startswith("- ") else ""
            )
    return lines


def _parts(block: str) -> list[str]:
    """A paragraph cut where a line of its own begins: an item, what comes after the last one, a source."""
    parts: list[str] = []
    for line in block.splitlines():
        in_item = bool(parts) and parts[-1].startswith("- ")
        if not parts or line.startswith(_OWN_LINE) or (in_item and not line.startswith(" ")):
            parts.append(line)
        else:
            parts[-1] += f" {line.strip()}"
    return parts


def emit_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column may be long: folded on a screen, and whole in a pipe."""
    console = _console()
    if not console.is_terminal:
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
        for row in (header, *rows):
            emit("  ".join(map(str.ljust, row, widths)).rstrip())
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in header[:-1]:
        table.add_column(title, no_wrap=True)
    table.add_column(header[-1], overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def note(line: str) -> None:
    """Print lines of progress."""
    _stderr().print(Text(_safe(line), style="dim"), soft_wrap=True)


def warn(line: str) -> None:
    """Print what a command that succeeded leaves wrong."""
    _stderr().print(Text.assemble(("warning: ", "bold yellow"), _safe(line)), soft_wrap=True)


def emit_error(error: HubpublishError, *, as_json: bool) -> int:
    """Print an error: what and where, then what to do. Returns the exit code."""
    if as_json:
        emit_json({"error": error.to_dict()})
    _stderr().print(Text.assemble(("error: ", "bold red"), _safe(str(error))), soft_wrap=True)
    if error.hint:
        _stderr().print(Text(f"       {_safe(error.hint)}"), soft_wrap=True)
    return error.exit_code


def _safe(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


# Made anew each time: whoever calls a command from a program may have replaced the streams.


def _console() -> Console:
    return Console(highlight=False)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)
