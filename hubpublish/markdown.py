"""Markdown from the templates: one environment, in which a missing value is an error and not a gap."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

import jinja2

from hubpublish.words import plural, readable_binary_bytes, readable_bytes, readable_distance

CARD_TEMPLATE: Final = "model_card.md.j2"
IN_CARD: Final = ("on_webgpu.md.j2",)  # what it includes


def card_template_sha256() -> str:
    """SHA-256 of the card's templates: other templates make another card of the same report."""
    templates = (template_folder() / name for name in (CARD_TEMPLATE, *IN_CARD))
    return hashlib.sha256(b"".join(each.read_bytes() for each in templates)).hexdigest()


def render_template(name: str, **values: object) -> str:
    """A template of ``templates/`` with these values, ending in one newline.

    Raises:
        jinja2.UndefinedError: The template names something that is not there.
    """
    return _environment(template_folder()).get_template(name).render(values).rstrip() + "\n"


@functools.cache
def _environment(folder: Path) -> jinja2.Environment:
    """The one of a folder, which keeps what it compiled: that takes longer than to render it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown, not HTML
    )
    environment.filters |= {
        "binary_bytes": readable_binary_bytes,
        "bytes": readable_bytes,
        "cell": cell,
        "code": code,
        "distance": readable_distance,
        "lower_first": lambda text: text[:1].lower() + text[1:],
        "plural": plural,
    }
    return environment


def cell(text: str) -> str:
    """Text for a cell of a table: a bar or a line break would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Any text as a code span that it cannot end, in a table or out of it, on one line.

    What a terminal or a reader's eye could take for something else is a question mark.
    """
    line = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    fence = "`" * max([1, *(len(run) + 1 for run in re.findall("`+", line))])
    space = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{space}{line}{space}{fence}"


def template_folder() -> Path:
    """Where the templates are: in the wheel inside the package, in a checkout beside it."""
    packaged = Path(str(files("hubpublish").joinpath("templates")))
    return packaged if packaged.is_dir() else packaged.parent.parent / "templates"
