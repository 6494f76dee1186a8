"""Options that several commands share, each defined once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint", help="Base URL of the Hub. Default: HF_ENDPOINT, or the public Hub."),
]
Device = Annotated[str, typer.Option("--device", help="Device profile; see `hubpublish devices`.")]
Runtime = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help="Runtime, such as web-1.30 or native-0.4.0. Default: all that are listed, the worst counts.",
        show_default=False,
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.", show_default=False)]


def examples(*lines: str) -> str:
    """Command lines for the end of a command's help, each on a line of its own."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)  # \b: keep the lines as they are


def cache_folder() -> Path:
    """Where source files and reference outputs are kept: HUBPUBLISH_CACHE, or the user's cache."""
    if chosen := os.environ.get("HUBPUBLISH_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hubpublish"
