"""What a preview leaves for the comment, read from an artifact as if an enemy had made it: it may be so.

Nothing is unpacked: two small texts are read in memory, under their exact names.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass

NAME = re.compile(r"preview-\d{1,3}")
PREVIEW, ABOUT = "preview.md", "about.json"
ARCHIVE_LIMIT = 32 * 2**20  # bytes; the pictures are most of it
_ENTRIES = 200
_LIMITS = {PREVIEW: 2**20, ABOUT: 4096}  # bytes
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may ask for any amount of memory
# Whatever zipfile raises on bytes that somebody made up.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError),
)
_RECIPE = re.compile(r"configs/[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.yaml")


class ArtifactError(Exception):
    """Why an artifact is not taken, in words of ours."""


@dataclass(frozen=True)
class Preview:
    """The preview of one recipe; its text is as the artifact had it."""

    recipe: str
    failed: bool
    text: str


def read(archive: bytes) -> Preview:
    """The preview in an artifact.

    Raises:
        ArtifactError: It is not what preview.yml uploads.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            about, text = (_member(packed, name) for name in (ABOUT, PREVIEW))
    except _UNREADABLE as error:
        raise ArtifactError("it is no readable archive") from error
    try:
        document = json.loads(about)
        recipe, failed = document["recipe"], document["failed"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{ABOUT} does not say what it is of") from error
    if not isinstance(recipe, str) or not _RECIPE.fullmatch(recipe) or not isinstance(failed, bool):
        raise ArtifactError(f"{ABOUT} names no recipe")
    return Preview(recipe, failed, text)


def _member(packed: zipfile.ZipFile, name: str) -> str:
    entries = packed.infolist()
    if len(entries) > _ENTRIES:
        raise ArtifactError(f"it has more than {_ENTRIES} files")
    found = [entry for entry in entries if entry.filename == name]
    if len(found) != 1:
        raise ArtifactError(f"it has {'several' if found else 'no'} {name}")
    if found[0].compress_type not in _COMPRESSIONS:
        raise ArtifactError(f"its {name} is compressed in an unusual way")
    with packed.open(found[0]) as stream:
        data = stream.read(_LIMITS[name] + 1)  # whatever size the archive declares
    if len(data) > _LIMITS[name]:
        raise ArtifactError(f"its {name} is too large")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"its {name} is not text") from error
    if "\0" in text:
        raise ArtifactError(f"its {name} is not text")
    return text
