"""One input of a verification and what both models made of it, kept as files for whoever wants to look.

They are raw bytes in C order, with an index beside them; see `Kept`.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from hubpublish.verify.compare import PACKED_BITS, numpy_type
from hubpublish.verify.inputs import InputSet
from hubpublish.verify.result import InputResult, Level
from hubpublish.verify.runner import Output

LEVEL: Final[Level] = "default"
"""What users run; and where gate ``exact_unoptimized`` holds, the level at which values can differ."""

INDEX: Final = "kept.json"
LARGEST: Final = 2**26  # bytes of a tensor: 4096 x 4096 of float32
ROOM: Final = 2**28  # bytes of all tensors of a verification


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeptTensor(_Frozen):
    """A tensor; ``file`` is its name beside the index, None when there was no room for it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str | None


class KeptOutput(_Frozen):
    """An output of both models. Identical ones name the same file."""

    original: KeptTensor
    rewritten: KeptTensor


class Kept(_Frozen):
    """What is in the folder: the input set by its label, and the level that both models ran at.

    ``image`` says that the set is an image, and not noise.
    """

    label: str
    image: bool
    level: Level
    inputs: tuple[KeptTensor, ...]
    outputs: tuple[KeptOutput, ...]


def read(folder: Path) -> Kept | None:
    """What a verification kept in ``folder``; None when it kept nothing."""
    try:
        return Kept.model_validate_json((folder / INDEX).read_bytes())
    except (OSError, ValidationError):
        return None


def array(folder: Path, tensor: KeptTensor) -> np.ndarray[Any, Any] | None:
    """The tensor, mapped from its file; None when it is not there, or is not made of whole bytes."""
    if tensor.file is None or tensor.dtype == "string" or tensor.dtype in PACKED_BITS:
        return None
    if math.prod(tensor.shape) == 0:
        return np.zeros(tensor.shape, numpy_type(tensor.dtype))
    try:
        return np.memmap(folder / tensor.file, numpy_type(tensor.dtype), "r", shape=tensor.shape)
    except (OSError, ValueError):
        return None


def chosen(sets: Sequence[InputSet], results: Sequence[InputResult]) -> InputSet | None:
    """The set to keep: the first image, else the first of all, of those on which the models ran."""
    ran = {result.label for result in results if result.status == "compared"}
    candidates = [inputs for inputs in sets if inputs.label in ran]
    return next((each for each in candidates if each.image), candidates[0] if candidates else None)


class Keeper:
    """Puts one input set and its outputs into ``folder``, and takes out what an earlier one put there.

    Without room on the disk nothing is kept: what is only looked at must not end a verification.

    Args:
        folder: Made when there is something to put into it.
        progress: Told when there is no room.
    """

    def __init__(self, folder: Path, progress: Callable[[str], None] | None) -> None:
        self.folder = folder
        self.inputs: InputSet | None = None  # the one to keep
        self._progress = progress
        self._left = ROOM
        self._count = 0
        with contextlib.suppress(OSError):
            (folder / INDEX).unlink(missing_ok=True)

    def wants(self, level: Level, inputs: InputSet) -> bool:
        """Whether this is what to keep."""
        return level == LEVEL and self.inputs is not None and inputs.digest == self.inputs.digest

    def keep(self, inputs: InputSet, original: Sequence[Output], rewritten: Sequence[Output]) -> None:
        """Keep the inputs and the outputs of the same place of both models."""
        with self._as_far_as_there_is_room():
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = Kept(
                label=inputs.label,
                image=inputs.image,
                level=LEVEL,
                inputs=tuple(self._inputs(inputs)),
                outputs=tuple(self._outputs(pair) for pair in zip(original, rewritten, strict=False)),
            )
            (self.folder / INDEX).write_text(kept.model_dump_json(indent=2), encoding="utf-8")

    @contextmanager
    def _as_far_as_there_is_room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._progress:
                self._progress(f"the outputs are not kept for pictures: {error.strerror or error}")

    def _inputs(self, inputs: InputSet) -> Iterator[KeptTensor]:
        for tensor in inputs.tensors:
            about = tensor.summary
            file = self._new_file(len(tensor.data))
            if file is not None:
                file.write_bytes(tensor.data)
            yield KeptTensor(
                name=about.name, dtype=about.dtype, shape=about.shape, file=file.name if file else None
            )

    def _outputs(self, pair: tuple[Output, Output]) -> KeptOutput:
        before = self._output(pair[0])
        same = (pair[0].dtype, pair[0].shape, pair[0].sha256) == (
            pair[1].dtype,
            pair[1].shape,
            pair[1].sha256,
        )
        return KeptOutput(original=before, rewritten=before if same else self._output(pair[1]))

    def _output(self, output: Output) -> KeptTensor:
        file = self._new_file(output.file.stat().st_size) if output.file else None
        if file is not None and output.file is not None:
            try:
                os.link(output.file, file)
            except OSError:  # another disk, or one without links
                shutil.copyfile(output.file, file)
        return KeptTensor(
            name=output.name, dtype=output.dtype, shape=output.shape, file=file.name if file else None
        )

    def _new_file(self, size: int) -> Path | None:
        """Where a tensor of ``size`` bytes goes, and nothing is; None when it is too large."""
        if size > min(LARGEST, self._left):
            return None
        self._left -= size
        file = self.folder / f"{self._count}.bin"
        self._count += 1
        file.unlink(missing_ok=True)  # a link to the cache: to write into it would change what is there
        return file
