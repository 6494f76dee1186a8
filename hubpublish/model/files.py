"""ONNX files: loading without losing anything, saving atomically, external data kept external."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google.protobuf.message
import onnx
import onnx_ir as ir

from hubpublish.errors import SourceError, UnsupportedModelError, UsageError
from hubpublish.model import external, leftovers, undefined, unsupported


@dataclass(frozen=True)
class SavedModel:
    """A model on disk: the ``.onnx`` file and, if there is one, its external data file."""

    path: Path
    data: Path | None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal; the file is streamed, not read whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(path: Path) -> ir.Model:
    """Load an ONNX file; external data is mapped into memory, not read.

    Raises:
        SourceError: The file or its external data is missing, or its location leaves the folder.
        UnsupportedModelError: It is no ONNX file, or holds what a rewrite would lose; see
            `unsupported.refuse`; or it uses values that nothing gives.
    """
    proto = _parsed(path)
    unsupported.refuse(proto, path)
    undefined.refuse(proto, path)
    try:
        model = ir.from_proto(proto)
        leftovers.remember(proto, model)
    except Exception as error:  # onnx_ir raises many types for an invalid model
        raise UnsupportedModelError(
            f"the model is not valid: {_root_cause(error)}",
            where=str(path),
            hint="check the file with onnx.checker.check_model",
        ) from error
    external.attach(model, path.parent)
    return model


def save(model: ir.Model, path: Path) -> SavedModel:
    """Write a model so that ``path`` holds either what it held before or all of the new model.

    Initializers that were external go to ``<name>.onnx_data`` beside it, and so do all but the
    smallest when the file would exceed protobuf's 2 GiB. The model is the same afterwards; what it
    had mapped from a data file that is now overwritten, it maps from the new one.

    Raises:
        UsageError: The file cannot be written there.
        UnsupportedModelError: Even without initializers it exceeds what protobuf can hold.
    """
    try:
        return _save(model, path)
    except OSError as error:
        raise UsageError(
            f"cannot write the model: {error.strerror or error}",
            where=str(path),
            hint="check that the folder can be written to and has room",
            kind="cannot_write",
        ) from error


def _save(model: ir.Model, path: Path) -> SavedModel:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.with_name(f"{path.name}_data")
    for target in (path, data):
        if target.exists() and not target.is_file():  # a device, perhaps, which would be gone
            raise UsageError(
                "cannot write the model: what is there is no file",
                where=str(target),
                hint="name another file to write to",
                kind="cannot_write",
            )
    with _staging_folder(path) as folder:
        written = external.write(model, folder / data.name)
        with external.replaced(written):
            (folder / path.name).write_bytes(_serialized(model, path))
        overwritten = external.read_from(model, data) & written.keys()
        # The data first: a model without its data is worse than data that nobody refers to.
        _move_together([folder / data.name] * bool(written) + [folder / path.name], path.parent)
    external.repoint({value: tensor for value, tensor in written.items() if value in overwritten}, data)
    return SavedModel(path, data if written else None)


def _parsed(path: Path) -> onnx.ModelProto:
    try:
        proto = onnx.load(path, format="protobuf", load_external_data=False)
    except OSError as error:
        raise SourceError(
            f"cannot read the model: {error.strerror or error}",
            where=str(path),
            hint="check the path",
            kind="file_not_found",
        ) from error
    except google.protobuf.message.DecodeError as error:
        raise _not_onnx(path, "it cannot be parsed as one") from error
    if not proto.HasField("graph"):
        raise _not_onnx(path, "it holds no graph")
    return proto


def _serialized(model: ir.Model, path: Path) -> bytes:
    try:
        proto = ir.to_proto(model)
        leftovers.restore(proto, model)
        return bytes(proto.SerializeToString())
    except Exception as error:  # protobuf and onnx_ir raise many types
        raise UnsupportedModelError(
            f"the model cannot be written: {_root_cause(error)}",
            where=str(path),
            hint="constants of nodes cannot be external data; make the large ones initializers first",
        ) from error


@contextlib.contextmanager
def _staging_folder(path: Path) -> Iterator[Path]:
    """A folder beside ``path``, so that its files can be moved there; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move_together(files: list[Path], folder: Path) -> None:
    """Move files into ``folder``; if one cannot be, what the others replaced comes back."""
    moved: list[tuple[Path, Path]] = []
    try:
        for file in files:
            target, before = folder / file.name, file.with_name(f"{file.name}.before")
            with contextlib.suppress(OSError):  # there is none, or a file system without links
                os.link(target, before, follow_symlinks=False)
            file.replace(target)
            moved.append((target, before))
    except BaseException:
        for target, before in reversed(moved):
            if before.exists():
                before.replace(target)
            else:
                target.unlink(missing_ok=True)
        raise


def _not_onnx(path: Path, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"this is not an ONNX file: {why}",
        where=str(path),
        hint="check that the file was downloaded whole, and not as a Git LFS pointer",
    )


def _root_cause(error: BaseException) -> str:
    # Also the context: onnx_ir itself fails when it words some errors.
    while inner := error.__cause__ or error.__context__:
        error = inner
    return " ".join(str(error).split())[:300]
