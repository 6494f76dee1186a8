"""Fewer storage buffers for a shader than the adapter grants, by a Vulkan layer, compiled on first use.

No execution provider has an option for it yet. The layer works where the adapter is one of Vulkan's, on
Linux; elsewhere, and without a C compiler, what the adapter grants is what is tested, and what is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

SOURCE: Final = "cap_storage_buffers.c"
LIBRARY, MANIFEST, DIGEST = "layer.so", "layer.json", "layer.sha256"
LAYER: Final = "VK_LAYER_HUBPUBLISH_cap_storage_buffers"
COMPILERS: Final = ("cc", "gcc", "clang")
COMPILE_SECONDS: Final = 120


@dataclass(frozen=True)
class Cap:
    """How the limit is lowered.

    Attributes:
        environment: Variables for the process that uses the device; none if it is not lowered.
        why_not: Why it is not; None if it is.
    """

    environment: dict[str, str]
    why_not: str | None = None


def cap(storage_buffers: int, cache: Path) -> Cap:
    """The environment in which a Vulkan device grants at most so many storage buffers.

    Args:
        storage_buffers: How many.
        cache: Where the compiled layer is kept.
    """
    if not sys.platform.startswith("linux"):
        return Cap({}, "it can be lowered on Linux only")
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    source = (files("hubpublish.verify.webgpu") / SOURCE).read_bytes()
    folder = cache / "vulkan" / f"{hashlib.sha256(source).hexdigest()[:16]}-{platform.machine()}"
    if not _is_whole(folder):
        if compiler is None:
            return Cap({}, "it takes a C compiler to lower it, and there is none")
        if error := _compile(compiler, source, folder):
            return Cap({}, f"the layer that lowers it does not compile: {error}")
    layers = [os.environ["VK_INSTANCE_LAYERS"]] if os.environ.get("VK_INSTANCE_LAYERS") else []
    return Cap(
        {
            "VK_LAYER_PATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("VK_LAYER_PATH")))),
            "VK_INSTANCE_LAYERS": os.pathsep.join([*layers, LAYER]),
            "HUBPUBLISH_STORAGE_BUFFERS": str(storage_buffers),
        }
    )


def _is_whole(folder: Path) -> bool:
    """Whether the layer in it is the one that was compiled: a cache may lose a part of what it keeps."""
    try:
        return (folder / DIGEST).read_bytes() == _digest(folder)
    except OSError:
        return False


def _digest(folder: Path) -> bytes:
    parts = b"".join((folder / name).read_bytes() for name in (MANIFEST, LIBRARY))
    return hashlib.sha256(parts).hexdigest().encode("ascii")


def _compile(compiler: str, source: bytes, folder: Path) -> str | None:
    """Compile the layer into ``folder``, all of it or nothing; returns what went wrong."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        unfinished = Path(made) / "layer"
        unfinished.mkdir()
        (unfinished / SOURCE).write_bytes(source)
        command = [compiler, "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-o", LIBRARY, SOURCE]
        try:
            done = subprocess.run(
                command, cwd=unfinished, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        manifest = {
            "name": LAYER,
            "type": "INSTANCE",
            "library_path": f"./{LIBRARY}",
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "Lowers the storage buffers that a shader may bind",
        }
        document = json.dumps({"file_format_version": "1.2.0", "layer": manifest})
        (unfinished / MANIFEST).write_text(document, encoding="utf-8")
        (unfinished / DIGEST).write_bytes(_digest(unfinished))
        try:
            if folder.exists() and not _is_whole(folder):  # a folder is not renamed over another's files
                folder.rename(Path(made) / "broken")
            unfinished.rename(folder)
        except OSError:  # another process was quicker
            if not _is_whole(folder):
                raise
    return None
