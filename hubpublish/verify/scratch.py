"""Folders for files that nobody needs afterwards, and the end of those that killed processes left behind.

A folder's lock lies beside it and is held as long as the folder is used. The system takes it from a
process that dies, however it dies: a folder whose lock is free belongs to nobody.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

_LOCK = ".lock"


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new, empty folder, gone afterwards; what is left of dead ones of the same prefix goes first.

    Args:
        prefix: Begins the folder's name, and tells whose folders are swept.
        parent: Where it is made; None: where the system keeps temporary files.
    """
    base = parent or Path(tempfile.gettempdir())
    _sweep(base, prefix)
    folder = base / f"{prefix}{secrets.token_hex(4)}"
    lock = _lock_of(folder)
    with contextlib.suppress(NotImplementedError):  # a file system without locks: nothing is swept there
        lock.acquire()
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _end(lock)


def _sweep(base: Path, prefix: str) -> None:
    # A folder goes before its lock, so that one that is interrupted is taken up by the next.
    for name in sorted({path.name.removesuffix(_LOCK) for path in base.glob(f"{prefix}*")}):
        lock = _lock_of(base / name)
        with contextlib.suppress(OSError, NotImplementedError):  # held, or another user's
            lock.acquire(timeout=0)
            shutil.rmtree(base / name, ignore_errors=True)
            _end(lock)


def _lock_of(folder: Path) -> FileLock:
    return FileLock(f"{folder}{_LOCK}", thread_local=False)


def _end(lock: FileLock) -> None:
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release(force=True)
