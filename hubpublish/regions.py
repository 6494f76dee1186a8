"""Regions of a Markdown text in which people may write, each between two comments that no reader sees.

    <!-- free text: notes -->
    Whatever somebody writes here.
    <!-- end of free text: notes -->

A marker is a line of its own, spelled exactly so; anything else is text, also where it looks similar.
Line endings and blank lines at the end of the text are nobody's words: editors change them unasked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

NAME: Final = r"[a-z0-9]+(?:[-_][a-z0-9]+)*"  # a comment must not hold two hyphens in a row
_MARKER = re.compile(rf"^<!-- (?P<end>end of )?free text: (?P<name>{NAME}) -->$", re.MULTILINE)
_HINT = "<!-- hubpublish: write here; what stands in this region stays when the card is made anew -->"
_HINTS = re.compile(r"^<!-- hubpublish: .*-->$", re.MULTILINE)  # those of other versions too
_EMPTY = f"{_HINT}\n\n"


class BrokenRegionsError(ValueError):
    """Markers that enclose no regions; the message says which and why, as part of a sentence."""


class _Span(NamedTuple):
    """Where the text of a region begins and ends."""

    name: str
    start: int
    end: int


def empty_region(name: str) -> str:
    """A region in which nobody has written yet, without a final newline."""
    return f"<!-- free text: {name} -->\n{_EMPTY}<!-- end of free text: {name} -->"


def holds_marker(text: str) -> bool:
    """Whether a line of the text is a marker."""
    return _MARKER.search(unix(text)) is not None


def holds_words(text: str) -> bool:
    """Whether somebody has written into a region with this text in it."""
    return bool(_HINTS.sub("", text).strip())


def texts_of(text: str) -> dict[str, str]:
    """What stands in each region, by its name, with lines that end in a newline alone.

    Raises:
        BrokenRegionsError: A marker is missing, doubled, or inside of another region.
    """
    text = unix(text)
    return {span.name: text[span.start : span.end] for span in _spans(text)}


def outside_of(text: str) -> str:
    """The text without what stands in its regions: equal where nothing but those was changed.

    Raises:
        BrokenRegionsError: As in `texts_of`.
    """
    text = unix(text)
    return _replaced(text, dict.fromkeys(texts_of(text), "")).rstrip() + "\n"


def filled(text: str, texts: Mapping[str, str]) -> str:
    """The text with these texts in its regions; a region that gets none is left, or made, empty.

    Raises:
        BrokenRegionsError: As in `texts_of`.
    """
    text = unix(text)
    found = {name: _EMPTY if holds_words(now) else now for name, now in texts_of(text).items()}
    return _replaced(text, {name: texts.get(name, empty) for name, empty in found.items()})


def unix(text: str) -> str:
    """The text with lines that end in a newline alone."""
    return text.replace("\r\n", "\n")


def _replaced(text: str, texts: Mapping[str, str]) -> str:
    parts, done = [], 0
    for span in _spans(text):
        parts += [text[done : span.start], texts[span.name]]
        done = span.end
    return "".join([*parts, text[done:]])


def _spans(text: str) -> list[_Span]:
    found: list[_Span] = []
    begun: set[str] = set()
    opened: re.Match[str] | None = None
    for marker in _MARKER.finditer(text):
        name = marker["name"]
        if marker["end"]:
            if opened is None or opened["name"] != name:
                raise BrokenRegionsError(_wrong_end(name, opened, begun))
            found.append(_Span(name, opened.end() + 1, marker.start()))
            opened = None
            continue
        if name in begun:
            raise BrokenRegionsError(f"its free text '{name}' begins twice")
        if opened is not None:
            raise BrokenRegionsError(f"its free text '{name}' begins before '{opened['name']}' has ended")
        begun.add(name)
        opened = marker
    if opened is not None:
        raise BrokenRegionsError(f"the marker that ends its free text '{opened['name']}' is missing")
    return found


def _wrong_end(name: str, opened: re.Match[str] | None, begun: set[str]) -> str:
    if opened is not None:
        return f"its free text '{opened['name']}' ends with the marker of '{name}'"
    if name in begun:
        return f"its free text '{name}' ends twice"
    return f"the marker that begins its free text '{name}' is missing"
