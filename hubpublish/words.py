"""Numbers and names as people read them."""

from __future__ import annotations


def readable_bytes(count: int) -> str:
    """Bytes of a file in the decimal units that the Hub shows: ``224.0 MB``."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if round(size, 1) < 1000 or unit == "GB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def readable_binary_bytes(count: int) -> str:
    """Bytes of tensors and limits, in the units in which devices state these: ``392 MiB``, ``1.5 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(size, 1) < 1024 or unit == "GiB":
            return f"{size:.1f}".removesuffix(".0") + f" {unit}"
        size /= 1024
    raise AssertionError


def plural(count: int, noun: str) -> str:
    """``1 node``, ``2 nodes``, ``4,096 nodes``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def readable_distance(distance: float | None) -> str:
    """``0`` where nothing differs, three digits otherwise; a dash where it is not defined."""
    return "–" if distance is None else f"{distance:.3g}"


def printable(text: str) -> str:
    """The text for a terminal, on one line; names and paths are anybody's, and could hold its commands."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def shortened(text: str, most: int) -> str:
    """The text for a terminal, its end left out where it has more than ``most`` characters."""
    return printable(text if len(text) <= most else f"{text[: most - 1]}…")
