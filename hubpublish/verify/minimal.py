"""Writes the smallest pair of models that shows a difference, with the input that shows it."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from hubpublish.verify import cut, pair
from hubpublish.verify import signature as signatures
from hubpublish.verify.bench import Bench
from hubpublish.verify.compare import PACKED_BITS, numpy_type
from hubpublish.verify.inputs import InputSet, Tensor
from hubpublish.verify.result import Level
from hubpublish.verify.runner import Output
from hubpublish.verify.signature import TensorInput

if TYPE_CHECKING:
    from hubpublish.recipe import Gate

HOPS = 3  # how far around the node to cut before giving up on a small model


@dataclass(frozen=True)
class Evidence:
    """The files; ``minimal`` is false when they are the whole models."""

    minimal: bool
    before: Path
    after: Path
    inputs: Path


def write(
    before: Path, after: Path, bench: Bench, level: Level, inputs: InputSet, gate: Gate, out: Path
) -> Evidence:
    """Cut out where two models differ, as small as still shows the difference, and write it to ``out``.

    The part's inputs are what the model without the rewrite feeds it on ``inputs``. Where no part shows
    the difference, both models are copied whole, with ``inputs``.
    """
    models = cut.load(before), cut.load(after)
    for hops in range(HOPS + 1):
        region = cut.difference(*models, hops)
        captured = _capture(before, models[0], region, bench, inputs) if region else None
        if region is None or captured is None:
            continue
        folder = bench.new_folder()
        for path, model, nodes, name in (
            (before, models[0], region.before, "before.onnx"),
            (after, models[1], region.after, "after.onnx"),
        ):
            onnx.save(cut.cut(model, nodes, region, captured, path.parent), folder / name)
        fed = InputSet("input.npz", tuple(_tensor(name, captured[name]) for name in region.inputs))
        if _shows(folder, bench, level, fed, gate):
            for name in ("before.onnx", "after.onnx"):
                shutil.copyfile(folder / name, out / name)
            return Evidence(True, out / "before.onnx", out / "after.onnx", _write_npz(out, fed))
    return Evidence(
        False, _copy_model(before, out / "before"), _copy_model(after, out / "after"), _write_npz(out, inputs)
    )


def _shows(folder: Path, bench: Bench, level: Level, inputs: InputSet, gate: Gate) -> bool:
    """Whether the two small models in ``folder`` differ as the whole ones do."""
    small = Bench(
        signatures.read(folder / "before.onnx"), bench.new_folder(), bench.limits, None, bench.progress
    )
    if small.reference(level, inputs).status not in ("ok", "fails"):
        return False
    return pair.failure(small, folder / "after.onnx", level, inputs, gate) is not None


def _capture(
    path: Path, model: onnx.ModelProto, region: cut.Region, bench: Bench, inputs: InputSet
) -> dict[str, Output] | None:
    """What crosses the region's boundary when the model runs; None: something that is no plain tensor."""
    names = (*region.inputs, *region.outputs)
    exposed = bench.new_folder() / "exposed.onnx"
    onnx.save(cut.exposing(model, names), exposed)
    run = bench.keep(exposed, "disabled", inputs, external_folder=path.parent)
    outputs = {output.name: output for output in run.outputs}
    unfit = ("string", *PACKED_BITS)
    usable = all(
        name in outputs and outputs[name].file and outputs[name].dtype not in unfit for name in names
    )
    return {name: outputs[name] for name in names} if usable else None


def _tensor(name: str, captured: Output) -> Tensor:
    assert captured.file is not None
    array = np.fromfile(captured.file, dtype=numpy_type(captured.dtype)).reshape(captured.shape)
    number = signatures.onnx_type(captured.dtype)
    return Tensor(TensorInput(name, captured.dtype, number, captured.shape, optional=False), array)


def _write_npz(folder: Path, inputs: InputSet) -> Path:
    arrays: Mapping[str, np.ndarray[Any, Any]] = {
        tensor.input.name: tensor.array for tensor in inputs.tensors
    }
    path = folder / "input.npz"
    # numpy.savez does not take every name.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=array.dtype.kind == "O")
    return path


def _copy_model(path: Path, folder: Path) -> Path:
    """The model and its external data, copied into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for location in signatures.read(path).external:
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path.parent / location, folder / location)
    return Path(shutil.copyfile(path, folder / path.name))
