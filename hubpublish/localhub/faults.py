"""Faults by rule: what a test wants to go wrong, and when."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Action = Literal["status", "reset", "truncate", "corrupt", "slow", "hang", "drop_response"]


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_headers(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(name, str) and isinstance(text, str) for name, text in value.items())


def _is_message(value: object) -> bool:
    return isinstance(value, str | dict)


_OPTIONS: dict[str, dict[str, tuple[Callable[[object], bool], str]]] = {
    "status": {
        "status": (_is_status, "an HTTP status from 200 to 599"),
        "headers": (_is_headers, "a mapping of strings"),
        "body": (_is_message, "a message or a JSON object"),
    },
    "reset": {},
    "truncate": {"after": (_is_count, "a number of bytes")},
    "corrupt": {},
    "slow": {"delay": (_is_seconds, "seconds for each 64 KiB")},
    "hang": {"seconds": (_is_seconds, "seconds")},
    "drop_response": {},
}


@dataclass
class Fault:
    """A rule.

    Attributes:
        pattern: Searched for in ``METHOD /raw/path?query``.
        action: What goes wrong, see `LocalHub.fault`.
        times: How often it still strikes; None: always.
        skip: How many matching requests still pass before it strikes.
        options: The action's options.
        fired: How often it struck.
    """

    pattern: re.Pattern[str]
    action: Action
    times: int | None = 1
    skip: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    fired: int = 0


class Faults(list[Fault]):
    """The rules in force, oldest first; the first that matches and has strikes left is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def take(self, request: str) -> Fault | None:
        """The rule that strikes this request, and count it."""
        with self._lock:
            for fault in self:
                if fault.times == 0 or not fault.pattern.search(request):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.times is not None:
                    fault.times -= 1
                fault.fired += 1
                return fault
        return None


def make_fault(pattern: str, action: str, times: int | None, skip: int, options: Mapping[str, Any]) -> Fault:
    """Check a rule and make it.

    Raises:
        ValueError: An unknown action, an option that the action does not have, or a value it cannot take.
    """
    if action not in get_args(Action):
        raise ValueError(f"unknown action {action!r}; one of {', '.join(get_args(Action))}")
    known = _OPTIONS[action]
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{action} has no option {name!r}; it has {', '.join(known) or 'none'}")
        fits, meaning = known[name]
        if not fits(value):
            raise ValueError(f"{name}={value!r}: must be {meaning}")
    if times is not None and not (_is_count(times) and times > 0):
        raise ValueError(f"times={times!r}: must be a positive number, or None for always")
    if not _is_count(skip):
        raise ValueError(f"skip={skip!r}: must be a number of requests")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r} is no regular expression: {error}") from error
    return Fault(compiled, action, times, skip, dict(options))  # type: ignore[arg-type]


def corrupted(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same number of bytes, the last one flipped."""
    held = next(blocks, b"")
    for block in blocks:
        yield held
        held = block
    if held:
        yield held[:-1] + bytes([held[-1] ^ 0xFF])


def truncated(blocks: Iterator[bytes], after: int) -> Iterator[bytes]:
    """The first ``after`` bytes."""
    for block in blocks:
        if after <= 0:
            return
        yield block[:after]
        after -= len(block)
