"""Artifacts of previews, as preview.yml uploads them, and as it never would."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from typing import Any

RECIPE = "configs/small.yaml"


def packed(*files: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in files:
            archive.writestr(name, content)
    return stream.getvalue()


def unpacked(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        return {name: files.read(name) for name in files.namelist()}


def about(recipe: Any = RECIPE, failed: Any = False) -> tuple[str, bytes]:
    return "about.json", json.dumps({"recipe": recipe, "failed": failed}).encode()


def preview(text: str = "All is well.", recipe: str = RECIPE) -> bytes:
    return packed(about(recipe), ("preview.md", text.encode()))
