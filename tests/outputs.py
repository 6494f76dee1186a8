"""Outputs for tests of pictures, kept as a verification would, without one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hubpublish import pictures
from hubpublish.pictures import Pictures
from hubpublish.verify import InputResult, compare, kept
from hubpublish.verify.kept import Kept, KeptOutput, KeptTensor
from hubpublish.verify.result import LevelResult
from hubpublish.verify.runner import Output
from tests.reports import report_of, variant_report, verification

PATH = "onnx/model.onnx"


class Outputs:
    """A folder of outputs as a verification keeps them, of arrays, and the report that goes with them."""

    def __init__(self, folder: Path, path: str = PATH) -> None:
        self.folder, self.path = folder / "outputs" / path, path
        self.folder.mkdir(parents=True)
        self.report = report_of()

    def hold(
        self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray | tuple[np.ndarray, ...]]
    ) -> None:
        pairs = {name: each if isinstance(each, tuple) else (each, each) for name, each in outputs.items()}
        files = {name: tuple(self._file(name, each) for each in pair) for name, pair in pairs.items()}
        held = Kept(
            label="noise 0",
            image=False,
            level="default",
            inputs=tuple(_kept(self._file(name, array)) for name, array in inputs.items()),
            outputs=tuple(KeptOutput(original=_kept(a), rewritten=_kept(b)) for a, b in files.values()),
        )
        (self.folder / kept.INDEX).write_text(held.model_dump_json())
        compared = tuple(compare.output(*pair) for pair in files.values())
        result = InputResult(label="noise 0", status="compared", outputs=compared)
        levels = (LevelResult(level="default", inputs=(result,)),)
        proof = verification().model_copy(update={"levels": levels})
        self.report = report_of(variant_report(self.path, proof=proof))

    def _file(self, name: str, array: np.ndarray) -> Output:
        file = self.folder / f"{len(list(self.folder.iterdir()))}.bin"
        file.write_bytes(array.tobytes())
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return Output(name, array.dtype.name.replace("_", ""), array.shape, file, digest)

    def draw(self, folder: str = "pictures") -> Pictures:
        out = self.folder.parents[len(Path(self.path).parts)]
        return pictures.draw(self.report, out / "outputs", out / folder)


def _kept(output: Output) -> KeptTensor:
    assert output.file is not None
    return KeptTensor(name=output.name, dtype=output.dtype, shape=output.shape, file=output.file.name)
