"""What need not be asked of git again: a command costs more than most requests that need its answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")
_COMMIT = re.compile(rb"[0-9a-f]{40}\n")


class Kept(Generic[_Answer]):
    """The last answers about objects, by their ids: what an id names is the same in every repository.

    Args:
        count: How many are kept.
        fits: Whether an answer may be kept.
    """

    def __init__(self, count: int, fits: Callable[[_Answer], bool] = lambda answer: True) -> None:
        self._count = count
        self._fits = fits
        self._lock = threading.Lock()
        self._answers: dict[Hashable, _Answer] = {}

    def get(self, key: Hashable, ask: Callable[[], _Answer]) -> _Answer:
        """The answer that is kept, or else what ``ask`` finds; whatever it raises is not kept."""
        with self._lock:
            if key in self._answers:
                return self._answers[key]
        answer = ask()
        if not self._fits(answer):
            return answer
        with self._lock:
            self._answers.pop(key, None)
            while len(self._answers) >= self._count:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = answer
        return answer


def branch_tip(repository: Path, ref: str) -> str | None:
    """The commit of a branch or a pull request, read from the ref's own file; "": there is none.

    None when only git can tell: a tag may be an object of its own, and other refs may be elsewhere.
    """
    try:
        written = (repository / ref).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        elsewhere = any((repository / name).exists() for name in ("packed-refs", "reftable"))
        return None if elsewhere else ""
    except (OSError, ValueError):
        return None
    is_commit = ref.startswith(("refs/heads/", "refs/pr/")) and _COMMIT.fullmatch(written)
    return written.decode().strip() if is_commit else None
