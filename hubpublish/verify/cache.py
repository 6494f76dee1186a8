"""Reference outputs of originals, kept from one verification to the next.

An entry is a folder named by a hash over everything that its bits depend on: the model and its
external data, the inputs, runtime, level, provider, threads and CPU. It appears whole or not at all,
and is checked against its hashes before use; one that is not whole counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from hubpublish.model import sha256_of
from hubpublish.verify.result import Level
from hubpublish.verify.runner import PROVIDER, Output
from hubpublish.verify.scratch import scratch
from hubpublish.verify.signature import Signature

FORMAT = 2  # counts up when entries are written differently
ENTRY = "outputs.json"
UNFINISHED = ".unfinished-"


class ReferenceCache:
    """The entries under ``folder``, which is made when there is something to put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A new folder on the cache's disk, gone afterwards unless an entry was made of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with scratch(UNFINISHED, self.folder) as path:
            yield path

    def get(self, key: str) -> tuple[Output, ...] | None:
        """The outputs under ``key``, or None when there are none that are whole."""
        folder = self.folder / key
        try:
            entry = json.loads((folder / ENTRY).read_text(encoding="utf-8"))
            outputs = tuple(_output(folder, output) for output in entry["outputs"])
            whole = all(output.file is None or sha256_of(output.file) == output.sha256 for output in outputs)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return outputs if whole else None

    def put(self, key: str, workspace: Path, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """Make an entry of the outputs in ``workspace``; returns them where they are now."""
        kept = {output.file for output in outputs}
        for file in workspace.iterdir():
            if file not in kept:
                file.unlink()
        described = [
            {**vars(output), "file": output.file.name if output.file else None} for output in outputs
        ]
        (workspace / ENTRY).write_text(json.dumps({"outputs": described}), encoding="utf-8")
        folder = self.folder / key
        if folder.exists() and self.get(key) is None:
            shutil.rmtree(folder)
        try:
            workspace.rename(folder)
        except OSError:  # somebody else has made the same entry meanwhile
            existing = self.get(key)
            if existing is None:
                raise
            return existing
        return tuple(_output(folder, output) for output in described)


def _output(folder: Path, entry: dict[str, object]) -> Output:
    file = entry["file"]
    shape = entry["shape"]
    if not isinstance(shape, list | tuple) or not (file is None or Path(str(file)).name == file):
        raise ValueError("not an entry of this cache")
    return Output(
        name=str(entry["name"]),
        dtype=str(entry["dtype"]),
        shape=tuple(int(size) for size in shape),
        file=folder / str(file) if file else None,
        sha256=str(entry["sha256"]),
    )


def model_digest(signature: Signature) -> str:
    """SHA-256 over the model's file and its external data files; all are read."""
    hashes = {location: sha256_of(signature.path.parent / location) for location in signature.external}
    return _digest({"model": sha256_of(signature.path), "external": hashes})


def key(model: str, inputs: str, level: Level, threads: int, runtime: str) -> str:
    """The key of an entry, from the digests of model and inputs and what else the bits depend on."""
    return _digest(
        {
            "format": FORMAT,
            "model": model,
            "inputs": inputs,
            "level": level,
            "threads": threads,
            "runtime": runtime,
            "provider": PROVIDER,
            "cpu": cpu_model(),
        }
    )


def _digest(what: object) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


@cache
def cpu_model() -> str:
    """What the processor calls itself: kernels are chosen by it, and their bits can differ."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    # Virtual machines share a model name over processors with other instructions.
    wanted = ("model name", "flags", "CPU part", "Features")
    found = {line.split(":")[0].strip(): line for line in lines if line.startswith(wanted)}
    return " ".join([platform.machine(), platform.processor(), *found.values()])
