"""Runs originals and candidates on input sets: feeds on disk, references from the cache, measurements."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from hubpublish.verify import cache as references
from hubpublish.verify.cache import ReferenceCache
from hubpublish.verify.inputs import InputSet
from hubpublish.verify.result import Level, RunMeasurement
from hubpublish.verify.runner import Feed, Run, RunLimits, run
from hubpublish.verify.signature import Signature

LEVEL_NAMES: Mapping[Level, str] = {
    "disabled": "optimizations disabled",
    "default": "default optimization level",
}


@dataclass
class Bench:
    """Everything that is run in one verification, in a temporary folder that its maker removes.

    Args:
        original: Whose outputs are the reference.
        folder: For inputs and outputs; must exist.
        limits: Of every run.
        cache: For the reference outputs; None: every one is computed.
        progress: Told what is about to run.
    """

    original: Signature
    folder: Path
    limits: RunLimits
    cache: ReferenceCache | None = None
    progress: Callable[[str], None] | None = None
    measurements: list[RunMeasurement] = field(default_factory=list)
    _feeds: dict[str, tuple[Feed, ...]] = field(default_factory=dict)
    _references: dict[tuple[Level, str], Run] = field(default_factory=dict)
    _count: int = 0

    def reference(self, level: Level, inputs: InputSet) -> Run:
        """The original's run on ``inputs``: remembered, from the cache, or made now. Its outputs stay."""
        known = self._references.get((level, inputs.digest))
        if known is None:
            known = self._cached(level, inputs)
            self._references[level, inputs.digest] = known
        return known

    def again(self, level: Level, inputs: InputSet) -> Run:
        """The original's run once more, whatever is known; to see whether it repeats."""
        return self._run(self.original.path, "original", level, inputs, self.new_folder())

    @contextmanager
    def candidate(self, model: Path, level: Level, inputs: InputSet) -> Iterator[Run]:
        """A run of another model; its outputs are gone afterwards."""
        folder = self.new_folder()
        try:
            yield self._run(model, "rewritten", level, inputs, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, model: Path, level: Level, inputs: InputSet, *, external_folder: Path) -> Run:
        """A run of another model whose external data lies elsewhere; its outputs stay."""
        return self._run(model, "rewritten", level, inputs, self.new_folder(), external_folder)

    @cached_property
    def _model_digest(self) -> str:
        return references.model_digest(self.original)

    def _cached(self, level: Level, inputs: InputSet) -> Run:
        if self.cache is None:
            return self._run(self.original.path, "original", level, inputs, self.new_folder())
        key = references.key(self._model_digest, inputs.digest, level, self.limits.threads, runtime_name())
        outputs = self.cache.get(key)
        if outputs is not None:
            self._measure(
                "original", level, inputs, Run("ok", None, "cached", outputs, 0.0, None), cached=True
            )
            return Run("ok", None, "cached", outputs, 0.0, None)
        with self.cache.workspace() as folder:
            made = self._run(self.original.path, "original", level, inputs, folder)
            if made.status == "ok":
                made = replace(made, outputs=self.cache.put(key, folder, made.outputs))
        return made

    def _run(
        self,
        model: Path,
        role: Literal["original", "rewritten"],
        level: Level,
        inputs: InputSet,
        folder: Path,
        external_folder: Path | None = None,
    ) -> Run:
        if self.progress:
            self.progress(f"running the {role} model on {inputs.label}, {LEVEL_NAMES[level]}")
        made = run(model, level, self.feeds(inputs), folder, self.limits, external_folder=external_folder)
        self._measure(role, level, inputs, made)
        return made

    def _measure(
        self,
        role: Literal["original", "rewritten"],
        level: Level,
        inputs: InputSet,
        made: Run,
        cached: bool = False,
    ) -> None:
        self.measurements.append(
            RunMeasurement(
                model=role,
                level=level,
                input=inputs.label,
                status=made.status,
                seconds=made.seconds,
                peak_bytes=made.peak_bytes,
                cached=cached,
            )
        )

    def feeds(self, inputs: InputSet) -> tuple[Feed, ...]:
        """The input set on disk, written once."""
        if inputs.digest not in self._feeds:
            folder = self.new_folder()
            feeds = []
            for number, tensor in enumerate(inputs.tensors):
                file = folder / f"{number}.bin"
                file.write_bytes(tensor.data)
                feeds.append(
                    Feed(
                        name=tensor.input.name,
                        dtype=tensor.input.dtype,
                        onnx=tensor.input.onnx,
                        storage=_storage(tensor.input.dtype, tensor.array.dtype.itemsize),
                        shape=tensor.array.shape,
                        file=file,
                    )
                )
            self._feeds[inputs.digest] = tuple(feeds)
        return self._feeds[inputs.digest]

    def new_folder(self) -> Path:
        """A new empty folder inside the bench's."""
        self._count += 1
        folder = self.folder / str(self._count)
        folder.mkdir()
        return folder


def _storage(dtype: str, itemsize: int) -> str:
    """The numpy type that a process without ml_dtypes reads the bytes as."""
    return f"uint{8 * itemsize}" if dtype.startswith(("bfloat", "float8")) else dtype


def runtime_name() -> str:
    """The runtime and its version, such as ``onnxruntime 1.32.0``."""
    import onnxruntime  # here, as nothing but a verification needs it

    return f"onnxruntime {onnxruntime.__version__}"
