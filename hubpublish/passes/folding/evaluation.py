"""Running small models without inputs in a child process, which a bad one may take down."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from hubpublish.errors import HubpublishError

CHILD = Path(__file__).with_name("child.py")
SECONDS = 600.0  # for all models together

Outputs: TypeAlias = list[npt.NDArray[Any]]
Model: TypeAlias = tuple[Callable[[], bytes], int]
"""What makes the bytes of a model, which may hold large constants, and how many outputs it has."""


def run_each(models: Sequence[Model]) -> Iterator[Outputs | str]:
    """Run models one after another with optimizations off; yields of each its outputs, or how it failed.

    Args:
        models: Each is made when it is written down for the child process, and not kept.

    Raises:
        HubpublishError: The child process itself does not work, or they take too long: what becomes of them
            must not depend on how fast the machine is.
    """
    done = 0
    while done < len(models):
        with tempfile.TemporaryDirectory(prefix="hubpublish-fold-") as folder:
            results, death = _run(models[done:], Path(folder))
            for result in results:
                done += 1
                yield result
        if done < len(models):
            done += 1
            yield death


def _run(models: Sequence[Model], folder: Path) -> tuple[Iterator[Outputs | str], str]:
    """The results of the models up to the one that ends the process, and how that ended."""
    request, response = folder / "request", folder / "response"
    with request.open("wb") as file:
        for make, _ in models:
            model = make()
            file.write(len(model).to_bytes(8, "little"))
            file.write(model)
    death = _start(request, response, folder / "log")
    if not response.exists() or not response.stat().st_size:
        words = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise HubpublishError(
            f"the process that computes constants does not work: {words[-1] if words else death}",
            hint="check that numpy and onnxruntime import in this Python, and that the disk is not full",
        )
    return _read(response, [count for _, count in models]), death


def _start(request: Path, response: Path, log: Path) -> str:
    """Run the child process; returns how it would have ended if it has not run every model."""
    # -P: this folder must not become sys.path[0].
    command = [sys.executable, "-P", str(CHILD), str(request), str(response)]
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise HubpublishError(
                f"its constants take more than {SECONDS:g} seconds to compute",
                hint="run it again on a machine that is less busy, or leave fold_constants out",
            ) from late
    return f"the runtime crashes on it, with exit code {done.returncode}"


def _read(response: Path, counts: Sequence[int]) -> Iterator[Outputs | str]:
    """The results that are complete."""
    with response.open("rb") as file:
        try:
            _array(file)
            for count in counts:
                error = _array(file).tobytes().decode()
                yield error or [_array(file) for _ in range(count)]
        except (EOFError, ValueError):  # cut off
            return


def _array(file: BinaryIO) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array
