"""What these tests need beyond Python, and whether it is there."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
LOCK: Final = "package-lock.json"
INSTALLED: Final = "node_modules/.package-lock.json"  # npm's own note of what it installed
BROWSERS: Final = ("chromium", "chromium-browser")


class MissingError(Exception):
    """Something that these tests need is not here; it says what to do."""


def chromium() -> str:
    """The path of the system's Chromium.

    Raises:
        MissingError: There is none, or nothing to drive it with.
    """
    if find_spec("playwright") is None:
        raise MissingError("playwright is not installed; pip install playwright")
    return _program(*BROWSERS)


def node() -> str:
    """The path of Node.js.

    Raises:
        MissingError: There is none.
    """
    return _program("node", package="nodejs")


def packages(folder: Path = FOLDER) -> Path:
    """The folder of the npm packages, which are those of the lock.

    Raises:
        MissingError: They are not installed, or others are.
    """
    if not (folder / INSTALLED).is_file():
        raise MissingError("the npm packages are not installed; run tests/browser/install.sh")
    if _versions(folder / INSTALLED).items() - _versions(folder / LOCK).items():
        raise MissingError(f"the npm packages are not those of {LOCK}; run tests/browser/install.sh")
    return folder / "node_modules"


def _program(*names: str, package: str | None = None) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise MissingError(f"{names[0]} is not installed; apt-get install {package or names[0]}")
    return found


def _versions(lock: Path) -> dict[str, str]:
    """Path of each package to the hash of what it is."""
    listed = json.loads(lock.read_text("utf-8"))["packages"]
    return {path: package["integrity"] for path, package in listed.items() if path}
