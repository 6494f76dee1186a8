from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hubpublish.verify.webgpu import limit
from hubpublish.verify.webgpu.limit import LAYER, cap

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the layer is Linux's"),
    pytest.mark.skipif(not any(map(shutil.which, limit.COMPILERS)), reason="there is no C compiler"),
]


def test_the_layer_is_compiled_once_and_kept(tmp_path: Path) -> None:
    first = cap(8, tmp_path)
    assert first.why_not is None
    folder = Path(first.environment["VK_LAYER_PATH"].split(":")[0])
    made = (folder / "layer.so").stat().st_mtime_ns
    manifest = json.loads((folder / "layer.json").read_text("utf-8"))["layer"]
    assert (manifest["name"], manifest["library_path"]) == (LAYER, "./layer.so")
    assert first.environment["VK_INSTANCE_LAYERS"] == LAYER
    again = cap(12, tmp_path)
    assert again.environment["HUBPUBLISH_STORAGE_BUFFERS"] == "12"
    assert (folder / "layer.so").stat().st_mtime_ns == made
    assert [path.name for path in (tmp_path / "vulkan").iterdir()] == [folder.name]


@pytest.mark.parametrize("damaged", ["layer.so", "layer.json", "layer.sha256"])
@pytest.mark.parametrize("content", [b"", None, b"\xff" * 100])
def test_a_damaged_layer_is_made_anew(tmp_path: Path, damaged: str, content: bytes | None) -> None:
    folder = Path(cap(8, tmp_path).environment["VK_LAYER_PATH"].split(":")[0])
    library = (folder / "layer.so").read_bytes()
    if content is None:
        (folder / damaged).unlink()
    else:
        (folder / damaged).write_bytes(content)
    assert cap(8, tmp_path).why_not is None
    assert (folder / "layer.so").read_bytes() == library
    assert json.loads((folder / "layer.json").read_text("utf-8"))["layer"]["name"] == LAYER
    assert [path.name for path in (tmp_path / "vulkan").iterdir()] == [folder.name]


def test_two_at_once_do_not_clash(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads:
        found = [*threads.map(lambda _: cap(8, tmp_path), range(4))]
    assert {each.why_not for each in found} == {None}
    assert len({each.environment["VK_LAYER_PATH"] for each in found}) == 1
    assert len([*(tmp_path / "vulkan").iterdir()]) == 1


def test_layers_of_the_environment_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_other")
    monkeypatch.setenv("VK_LAYER_PATH", "/elsewhere")
    environment = cap(8, tmp_path).environment
    assert environment["VK_INSTANCE_LAYERS"] == f"VK_LAYER_other:{LAYER}"
    assert environment["VK_LAYER_PATH"].endswith(":/elsewhere")


@pytest.mark.parametrize(
    ("attribute", "value", "why"),
    [
        ("COMPILERS", ("no-such-compiler",), "it takes a C compiler to lower it, and there is none"),
        ("SOURCE", "system.py", "the layer that lowers it does not compile: "),
    ],
)
def test_without_it_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str, value: object, why: str
) -> None:
    monkeypatch.setattr(limit, attribute, value)
    found = cap(8, tmp_path)
    assert found.environment == {}
    assert str(found.why_not).startswith(why)
    assert not [*tmp_path.glob("vulkan/*")]


def test_the_layer_compiles_without_a_warning(tmp_path: Path) -> None:
    compiler = next(filter(None, map(shutil.which, limit.COMPILERS)))
    source = Path(limit.__file__).with_name(limit.SOURCE)
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(tmp_path / "x.so")]
    subprocess.run([*command, str(source)], check=True)
