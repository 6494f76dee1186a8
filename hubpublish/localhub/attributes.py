"""``.gitattributes`` and ``.gitignore``, as far as the Hub minds them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

_LFS = "filter=lfs diff=lfs merge=lfs -text"


def lfs_patterns(attributes: str | None) -> list[str]:
    """The patterns whose files go to LFS."""
    rules = [line.split() for line in (attributes or "").splitlines() if not line.startswith("#")]
    return [rule[0].replace("[[:space:]]", " ") for rule in rules if "filter=lfs" in rule[1:]]


def lfs_line(path: str) -> str:
    """The line that sends one file to LFS."""
    return f"{path.replace(' ', '[[:space:]]')} {_LFS}\n"


def ignore_patterns(ignore: str | None) -> list[str]:
    """The patterns of a ``.gitignore``; negated ones are passed over."""
    lines = [line.strip() for line in (ignore or "").splitlines()]
    return [line.strip("/") for line in lines if line and not line.startswith(("#", "!"))]


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern means this file, by its name, its path, or a folder it is in."""
    parts = path.split("/")
    places = {"/".join(parts[: end + 1]) for end in range(len(parts))} | set(parts)
    return any(fnmatchcase(place, pattern) for pattern in patterns for place in places)
