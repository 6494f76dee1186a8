"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_text_atomically(path: Path, text: str) -> None:
    """Put a text file in place; a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
