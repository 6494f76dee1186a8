"""Where text goes: results to stdout, progress and errors to stderr, JSON to stdout alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from hubpublish.errors import HubpublishError

console = Console(highlight=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


def emit_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; with ``--json`` nothing else goes to stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def note(line: str) -> None:
    """Print a line of progress."""
    stderr.print(f"[dim]{escape(line)}[/dim]")


def emit_error(error: HubpublishError, *, as_json: bool) -> int:
    """Print an error: what and where, then what to do. Returns the exit code."""
    if as_json:
        emit_json({"error": error.to_dict()})
    stderr.print(f"[bold red]error:[/bold red] {escape(str(error))}")
    if error.hint:
        stderr.print(f"       {escape(error.hint)}")
    return error.exit_code
