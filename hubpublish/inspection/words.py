"""Figures of an inspection as people read them: what is not known is never stated as a figure."""

from __future__ import annotations

from hubpublish.inspection.models import WASM_BYTES, Totals
from hubpublish.words import readable_binary_bytes


def copies_in_words(count: int, nbytes: int, totals: Totals) -> str:
    """Copies in one direction, with their bytes: ``2 (at least 400 B)``."""
    if not count:
        return "0"
    if totals.unknown_copies and not nbytes:
        return f"{count:,} (of unknown size)"
    return f"{count:,} ({_at_least(totals.unknown_copies)}{readable_binary_bytes(nbytes)})"


def largest_in_words(totals: Totals) -> str:
    """The bytes of the largest tensor."""
    if totals.largest is None:
        return "unknown"
    return f"{_at_least(totals.unknown_sizes)}{readable_binary_bytes(totals.largest.bytes)}"


def alive_in_words(totals: Totals) -> str:
    """What is alive at once, how much of it is weights, and whether WebAssembly has so much memory."""
    if totals.unknown_sizes and not totals.peak_live_bytes:
        return "unknown"
    live, weights, most = map(
        readable_binary_bytes, (totals.peak_live_bytes, totals.weight_bytes, WASM_BYTES)
    )
    figure = f"{_at_least(totals.unknown_sizes)}{live}, {weights} of it weights"
    if totals.fits_wasm is None:
        return f"{figure}; unknown whether below WebAssembly's {most}"
    return f"{figure}; {'below' if totals.fits_wasm else 'above'} WebAssembly's {most}"


def _at_least(unknown: int) -> str:
    return "at least " if unknown else ""
