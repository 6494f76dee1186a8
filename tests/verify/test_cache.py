from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from hubpublish.verify import bench, cache, runner, signature
from hubpublish.verify.cache import ReferenceCache

from .conftest import OnnxFile, Verify


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are really run, in order."""
    names: list[str] = []

    def counted(model: Path, *args: object, **kwargs: object) -> object:
        names.append(model.stem)
        return runner.run(model, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(bench, "run", counted)
    return names


@pytest.fixture
def pair(onnx_file: OnnxFile) -> tuple[Path, Path]:
    original = onnx_file("g (float[3] x) => (float[3] y) { y = Neg(x) }", name="original.onnx")
    rewritten = onnx_file("g (float[3] x) => (float[3] y) { z = Neg(x) y = Identity(z) }", name="new.onnx")
    return original, rewritten


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_an_original_runs_once_for_all_rewrites(
    pair: tuple[Path, Path], check: Verify, tmp_path: Path, runs: list[str]
) -> None:
    first = check(*pair, cache=tmp_path / "cache", noise=2)
    assert first.passed
    assert runs.count("original") == 4
    runs.clear()
    second = check(*pair, cache=tmp_path / "cache", noise=2)
    assert runs == ["new"] * 4
    assert second == first.model_copy(update={"runs": second.runs})
    assert [run.cached for run in second.runs if run.model == "original"] == [True] * 4
    assert all((path / "outputs.json").exists() for path in entries(tmp_path / "cache"))


def test_a_cached_reference_still_finds_a_difference(
    pair: tuple[Path, Path], onnx_file: OnnxFile, check: Verify, tmp_path: Path
) -> None:
    check(*pair, cache=tmp_path / "cache")
    other = onnx_file("g (float[3] x) => (float[3] y) { y = Abs(x) }")
    assert check(pair[0], other, cache=tmp_path / "cache").kind == "different"


def test_whatever_the_bits_depend_on_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**changed: Any) -> str:
        about = {"model": "m", "inputs": "i", "level": "disabled", "threads": 2, "runtime": "onnxruntime 1"}
        return cache.key(**{**about, **changed})

    changes: list[dict[str, Any]] = [
        {"model": "n"},
        {"inputs": "j"},
        {"level": "default"},
        {"threads": 1},
        {"runtime": "onnxruntime 2"},
    ]
    keys = [key(), *(key(**change) for change in changes)]
    monkeypatch.setattr(cache, "cpu_model", lambda: "another")
    keys.append(key())
    monkeypatch.setattr(cache, "PROVIDER", "another")
    keys.append(key())
    assert len(set(keys)) == len(keys)


def test_a_damaged_entry_is_made_again(
    pair: tuple[Path, Path], check: Verify, tmp_path: Path, runs: list[str]
) -> None:
    check(*pair, cache=tmp_path / "cache", noise=2)
    truncated, flipped, garbage, missing = entries(tmp_path / "cache")
    os.truncate(truncated / "0.bin", 3)
    data = (flipped / "0.bin").read_bytes()
    (flipped / "0.bin").write_bytes(bytes([data[0] ^ 1]) + data[1:])
    (garbage / "outputs.json").write_text('{"outputs": [{"file": "../0.bin"}]}')
    (missing / "0.bin").unlink()
    runs.clear()
    assert check(*pair, cache=tmp_path / "cache", noise=2).passed
    assert runs.count("original") == 4
    runs.clear()
    check(*pair, cache=tmp_path / "cache", noise=2)
    assert "original" not in runs


def test_what_went_wrong_is_not_kept(onnx_file: OnnxFile, check: Verify, tmp_path: Path) -> None:
    failing = onnx_file("g (float[3] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }")
    check(failing, failing, cache=tmp_path / "cache", values={"i": [9]})
    assert entries(tmp_path / "cache") == []


def test_unfinished_folders_of_killed_processes_go(tmp_path: Path) -> None:
    references = ReferenceCache(tmp_path)
    dead = tmp_path / ".unfinished-dead"
    dead.mkdir()
    (dead / "0.bin").write_bytes(b"1234")
    with references.workspace() as one, references.workspace() as other:
        assert not dead.exists()
        assert one.exists()
        assert other.exists()
    assert entries(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_two_makers_of_one_entry(tmp_path: Path) -> None:
    references = ReferenceCache(tmp_path)

    @contextmanager
    def made() -> Iterator[tuple[Path, runner.Output]]:
        with references.workspace() as folder:
            (folder / "0.bin").write_bytes(b"1234")
            digest = "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4"
            yield folder, runner.Output("y", "float32", (1,), folder / "0.bin", digest)

    with made() as (first, output), made() as (second, same):
        assert references.put("key", first, [output]) == references.put("key", second, [same])
    assert [path.name for path in entries(tmp_path)] == ["key"]


def test_external_data_is_part_of_the_model(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[300] x) => (float[300] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(300, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1)
    found = signature.read(tmp_path / "m.onnx")
    assert found.external == ("m.data",)
    before = cache.model_digest(found)
    (tmp_path / "m.data").write_bytes(b"\0" * 1200)
    assert cache.model_digest(found) != before
