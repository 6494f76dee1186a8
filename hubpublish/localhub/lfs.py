"""The store of large files: one file for each SHA-256, written and hashed as it streams in."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from hubpublish.localhub.protocol import BLOCK_BYTES, HubHTTPError

_OID = re.compile(r"[0-9a-f]{64}")


class Readable(Protocol):
    """Anything that is read in blocks."""

    def read(self, size: int, /) -> bytes: ...


class LfsStore:
    """Objects below ``root/lfs``; what is not complete yet below ``root/uploads``."""

    def __init__(self, root: Path) -> None:
        self._objects = root / "lfs"
        self._uploads = root / "uploads"
        self._objects.mkdir(parents=True, exist_ok=True)
        self._uploads.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._part_hashes: dict[str, dict[int, str]] = {}

    def path(self, oid: str) -> Path:
        """Where an object is kept, whether it is there or not.

        Raises:
            HubHTTPError: 400 when the id is no SHA-256.
        """
        if not _OID.fullmatch(oid):
            raise HubHTTPError(400, f"Invalid LFS object id: {oid!r}")
        return self._objects / oid

    def size(self, oid: str) -> int | None:
        """Size of an object in bytes; None when it is not there."""
        try:
            return self.path(oid).stat().st_size
        except FileNotFoundError:
            return None

    def receive(self, oid: str, source: Readable) -> None:
        """Take an object in.

        Raises:
            HubHTTPError: 400 when the bytes are not those that the id names.
        """
        target = self.path(oid)
        with self._temporary() as (temporary, file):
            digest = hashlib.sha256()
            for block in _blocks(source):
                digest.update(block)
                file.write(block)
            file.close()
            if digest.hexdigest() != oid:
                raise HubHTTPError(400, "BadDigest: the content does not match the object id")
            os.replace(temporary, target)

    def receive_part(self, oid: str, number: int, source: Readable) -> str:
        """Take one part of an object in; the part's ETag (MD5, as S3 does)."""
        folder = self._parts_folder(oid)
        with self._temporary() as (temporary, file):
            digest = hashlib.md5(usedforsecurity=False)
            for block in _blocks(source):
                digest.update(block)
                file.write(block)
            file.close()
            folder.mkdir(exist_ok=True)
            os.replace(temporary, folder / str(number))
        with self._lock:
            self._part_hashes.setdefault(oid, {})[number] = digest.hexdigest()
        return digest.hexdigest()

    def complete(self, oid: str, parts: Iterable[tuple[int, str]]) -> None:
        """Join the parts (number from 1, ETag) to the object; again is fine.

        Raises:
            HubHTTPError: 400 when the parts are not those received, or not the object's bytes.
        """
        with self._lock:
            received = sorted(self._part_hashes.get(oid, {}).items())
        if not received and self.size(oid) is not None:
            return
        if [number for number, _ in received] != list(range(1, len(received) + 1)):
            raise HubHTTPError(400, "InvalidPart: some parts are missing")
        if sorted(parts) != received:
            raise HubHTTPError(400, "InvalidPart: the parts are not those received")
        folder = self._parts_folder(oid)
        self.receive(oid, _Joined([folder / str(number) for number, _ in received]))
        with self._lock:
            self._part_hashes.pop(oid, None)
        shutil.rmtree(folder, ignore_errors=True)

    def _parts_folder(self, oid: str) -> Path:
        return self._uploads / self.path(oid).name

    @contextmanager
    def _temporary(self) -> Iterator[tuple[Path, BinaryIO]]:
        path = self._uploads / f"{secrets.token_hex(8)}.part"
        try:
            with path.open("xb") as file:
                yield path, file
        finally:
            path.unlink(missing_ok=True)


class _Joined:
    """Files read as one."""

    def __init__(self, paths: list[Path]) -> None:
        self._blocks = (block for path in paths for block in _file_blocks(path))

    def read(self, size: int, /) -> bytes:
        return next(self._blocks, b"")


def _file_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from _blocks(file)


def _blocks(source: Readable) -> Iterator[bytes]:
    while block := source.read(BLOCK_BYTES):
        yield block
