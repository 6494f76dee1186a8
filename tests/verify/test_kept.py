from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from hubpublish.recipe import InputSpec, VerifySpec
from hubpublish.verify import InputResult, Verification, kept, signature, verify
from hubpublish.verify.cache import ReferenceCache
from hubpublish.verify.inputs import InputMaker, InputSet

from .conftest import OnnxFile

NEG = (
    "g (float[1,3,4,4] x) => (float[1,3,4,4] y, float[1] m) { y = Neg(x) m = ReduceMax<keepdims=0>(x, axes) }"
)
CHANGED = NEG.replace("y = Neg(x)", "z = Neg(x) t = Tanh(tiny) y = Add(z, t)")
WEIGHTS = {"axes": np.array([1, 2, 3]), "tiny": np.array([0, 0, 0, 1e-3], np.float32)}


class Case:
    """An original, rewrites of it, and a folder to keep their outputs in."""

    def __init__(self, folder: Path, onnx_file: OnnxFile) -> None:
        self.folder = folder
        self.original = onnx_file(NEG, axes=WEIGHTS["axes"])
        self.same = onnx_file(NEG.replace("y = Neg(x)", "z = Neg(x) y = Identity(z)"), axes=WEIGHTS["axes"])
        self.changed = onnx_file(CHANGED, **WEIGHTS)
        self.keep, self.cache = folder / "keep" / "model", folder / "cache"
        self.said: list[str] = []

    def verify(
        self, rewritten: Path, *, keep: bool = True, gate: Any = "exact", **inputs: Any
    ) -> Verification:
        return verify(
            self.original,
            rewritten,
            spec=VerifySpec(gate=gate, inputs=InputSpec(**{"noise": 1, **inputs})),
            base_dir=self.folder,
            preprocessor=self.folder / "preprocessor_config.json",
            cache=self.cache,
            keep=self.keep if keep else None,
            progress=self.said.append,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that is kept, by name; the rewritten's with a prime."""
        found = kept.read(self.keep)
        assert found is not None
        tensors = {tensor.name: tensor for tensor in found.inputs}
        tensors |= {output.original.name: output.original for output in found.outputs}
        tensors |= {f"{output.rewritten.name}'": output.rewritten for output in found.outputs}
        arrays = {name: kept.array(self.keep, tensor) for name, tensor in tensors.items()}
        return {name: array for name, array in arrays.items() if array is not None}

    def files(self) -> list[str]:
        return sorted(path.name for path in self.keep.iterdir())


@pytest.fixture
def case(tmp_path: Path, onnx_file: OnnxFile) -> Case:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"do_rescale": True}))
    PIL.Image.new("RGB", (4, 4), (255, 51, 102)).save(tmp_path / "red.png")
    return Case(tmp_path, onnx_file)


def test_an_input_and_the_outputs_of_both_are_kept(case: Case) -> None:
    result = case.verify(case.changed, gate={"max_abs": 0.01})
    found, arrays = kept.read(case.keep), case.arrays()
    assert found is not None
    assert (found.label, found.image, found.level) == ("noise 0", False, "default")
    assert np.array_equal(arrays["y"], -arrays["x"])
    assert np.allclose(arrays["y'"][..., 3], arrays["y"][..., 3] + 1e-3)
    assert arrays["m"] == arrays["m'"] == arrays["x"].max()
    (level,) = [level for level in result.levels if level.level == "default"]
    counted = {output.name: output for output in level.inputs[0].outputs}
    assert int(np.count_nonzero(arrays["y"] != arrays["y'"])) == counted["y"].distance.differing == 12  # type: ignore[union-attr]


def test_identical_outputs_are_one_file(case: Case) -> None:
    case.verify(case.same)
    assert case.files() == ["0.bin", "1.bin", "2.bin", "kept.json"]
    case.verify(case.changed, gate={"max_abs": 0.01})
    assert case.files() == ["0.bin", "1.bin", "2.bin", "3.bin", "kept.json"]


def test_an_image_is_kept_rather_than_noise(case: Case) -> None:
    case.verify(case.same, images=("red.png",))
    found, arrays = kept.read(case.keep), case.arrays()
    assert found is not None
    assert (found.label, found.image) == ("image red.png", True)
    assert np.allclose(arrays["x"][0, :, 0, 0], [1, 0.2, 0.4])


def test_outputs_from_the_cache_are_kept_too(case: Case) -> None:
    case.verify(case.same, keep=False)
    assert not case.keep.exists()
    case.said.clear()
    case.verify(case.same)
    assert not [line for line in case.said if "original" in line]
    assert np.array_equal(case.arrays()["y'"], -case.arrays()["x"])


def test_what_is_kept_next_leaves_the_cache_as_it_is(case: Case, onnx_file: OnnxFile) -> None:
    case.verify(case.same)
    entries = {path.name for path in case.cache.iterdir()}
    case.original = case.same = onnx_file(NEG.replace("Neg", "Abs"), axes=WEIGHTS["axes"])
    case.verify(case.same)  # its outputs have the names that links to the cache had
    assert np.array_equal(case.arrays()["y"], np.abs(case.arrays()["x"]))
    assert all(ReferenceCache(case.cache).get(key) for key in entries)


def test_the_result_is_the_same_with_and_without(case: Case) -> None:
    without, kept_too = case.verify(case.same, keep=False), case.verify(case.same)
    assert without.model_dump_json() == kept_too.model_dump_json()
    assert len(without.runs) == len(kept_too.runs)


def test_a_failure_leaves_nothing_of_an_earlier_run(case: Case) -> None:
    case.verify(case.same)
    assert not case.verify(case.changed)
    assert kept.read(case.keep) is None


def test_there_is_a_bound(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGEST", 100)  # bytes; x and y have 192
    case.verify(case.same)
    assert set(case.arrays()) == {"m", "m'"}
    monkeypatch.undo()
    monkeypatch.setattr(kept, "ROOM", 192)
    case.verify(case.same)
    assert set(case.arrays()) == {"x"}


def test_a_disk_that_takes_nothing_ends_no_verification(case: Case) -> None:
    case.keep.parent.write_text("a file where the folder should be")
    assert case.verify(case.same).passed
    assert any(line.startswith("the outputs are not kept for pictures: ") for line in case.said)
    assert kept.read(case.keep) is None


def test_what_has_no_bytes_of_its_own_is_named_only(tmp_path: Path, onnx_file: OnnxFile) -> None:
    model = onnx_file("g (float[2] x) => (seq(float[2]) y) { z = Neg(x) y = SequenceConstruct(x, z) }")
    verify(model, model, spec=VerifySpec(), base_dir=tmp_path, keep=tmp_path / "keep")
    found = kept.read(tmp_path / "keep")
    assert found is not None
    arrays = {each.original.name: kept.array(tmp_path / "keep", each.original) for each in found.outputs}
    assert arrays["y"] is None
    assert np.array_equal(arrays["y[0]"], -arrays["y[1]"])  # type: ignore[arg-type,operator]


def test_of_text_and_packed_values_there_is_no_array(tmp_path: Path) -> None:
    (tmp_path / "0.bin").write_bytes(b'["a"]')
    for dtype in ("string", "int4"):
        assert kept.array(tmp_path, kept.KeptTensor(name="y", dtype=dtype, shape=(1,), file="0.bin")) is None
    short = kept.KeptTensor(name="y", dtype="float32", shape=(2,), file="0.bin")
    assert kept.array(tmp_path, short) is None
    empty = kept.array(tmp_path, short.model_copy(update={"shape": (0, 2)}))
    assert empty is not None
    assert empty.shape == (0, 2)


def sets_of(onnx_file: OnnxFile, **inputs: Any) -> tuple[InputSet, ...]:
    model = onnx_file(NEG, axes=WEIGHTS["axes"])
    config = model.parent / "preprocessor_config.json"
    return InputMaker(signature.read(model), InputSpec(**inputs), model.parent, config).sets()


@pytest.mark.usefixtures("case")
@pytest.mark.parametrize(
    ("failing", "label"),
    [
        ([], "image red.png"),
        (["image red.png"], "noise 0"),
        (["noise 0", "image red.png"], "noise 1"),
        (["noise 0", "noise 1", "image red.png"], None),
    ],
)
def test_what_fails_is_not_chosen(onnx_file: OnnxFile, failing: list[str], label: str | None) -> None:
    sets = sets_of(onnx_file, noise=2, images=("red.png",))
    results = [
        InputResult(label=each.label, status="both_fail" if each.label in failing else "compared")
        for each in sets
    ]
    found = kept.chosen(sets, results)
    assert (found.label if found else None) == label
