"""Markdown that others wrote, made fit for a comment of ours: it notifies, refers to and hides nothing.

What GitHub would act on is broken up by a zero-width space, which shows nowhere, in code neither.
"""

from __future__ import annotations

import re

COMMENT_LIMIT = 65_536  # characters; GitHub refuses a longer comment or description
SUMMARY_LIMIT = 900_000  # characters; GitHub refuses a summary of more than 1 MiB
_BREAK = "\u200b"

# Control characters, and those that turn the direction of a line or hide in it.
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_ACTED_ON = (
    re.compile(r"@(?=\w)"),  # a mention
    re.compile(r"#(?=\d)"),  # an issue of this repository, or of owner/name
    re.compile(r"\bGH-(?=\d)", re.IGNORECASE),
    re.compile(r"github\.com/\S{1,200}/(?:issues|pulls?|discussions|commits?)/(?=\w)", re.IGNORECASE),
    re.compile(r"&(?=#?\w)"),  # an entity could spell any of these
    re.compile(r"<(?=[a-z/!?])", re.IGNORECASE),  # HTML, and comments that hide what follows
    re.compile(r"^[ \t]*/(?=\w)", re.MULTILINE),  # a command to a bot
)
# The preview's own pictures, as Markdown or HTML; any other is only made harmless.
_PICTURE = re.compile(
    r"!\[(?P<text>[^\]\n]{0,300})\]\(pictures/[^)\n]{0,300}\)|<img src=\"pictures/[^>\n]{0,900}>"
)
_ALT = re.compile(r"alt=\"([^\"]*)\"")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def harmless(text: str) -> str:
    """The text without mentions, references, HTML, pictures and invisible characters."""
    text = _INVISIBLE.sub("", re.sub(r"\r\n?", "\n", text))
    for pattern in _ACTED_ON:
        text = pattern.sub(lambda found: found.group() + _BREAK, text)
    return text.replace("![", f"!{_BREAK}[")


def without_pictures(text: str, place: str) -> str:
    """The text with each of the preview's pictures replaced by what it shows, and the place to see it."""

    def words(found: re.Match[str]) -> str:
        shown = found["text"] or "".join(_ALT.findall(found.group())) or "picture"
        return f"*{shown}: {place}*"

    return _PICTURE.sub(words, text)


def cut(text: str, limit: int, note: str) -> str:
    """At most ``limit`` characters, by whole lines; then ``note``. Code blocks are closed in any case."""
    whole = _closed(text)
    if len(whole) <= limit:
        return whole
    room = limit - len(note) - 2
    while True:
        kept = _closed(text[: max(text.rfind("\n", 0, room), 0)])
        excess = len(kept) + len(note) + 2 - limit
        if excess <= 0 or room <= 0:
            return f"{kept}\n\n{note}"
        room -= excess


def _closed(text: str) -> str:
    """The text, with the end of a code block that it leaves open."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not found:
            continue
        run, rest = found[1], found[2]
        if not fence:
            fence = "" if run[0] == "`" and "`" in rest else run
        elif run.startswith(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text
