"""External data: where it may lie, finding it without reading it, and writing it to one new file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hubpublish.errors import SourceError
from hubpublish.model.scopes import scopes

PROTOBUF_LIMIT = 2**31 - 1  # bytes; no protobuf message can be larger
INLINE_LIMIT = PROTOBUF_LIMIT - 2**26  # leaves 64 MiB for nodes and names
FILES = "hubpublish.data_files"  # in a model's meta: where its external data was when it was loaded
EXTERNAL_THRESHOLD = 1024  # bytes; smaller tensors stay inline, where shape inference reads them


def locations(model: onnx.ModelProto) -> Iterator[str]:
    """Every location that a tensor names, wherever it stands; empty where one should be named.

    That is: initializers, attributes of nodes in the main graph, in bodies and in functions, sparse
    tensors, training information.
    """
    pending: list[Message] = [model]
    while pending:
        message = pending.pop()
        if isinstance(message, onnx.TensorProto):
            found = [entry.value for entry in message.external_data if entry.key == "location"]
            yield from found or [""] * (message.data_location == onnx.TensorProto.EXTERNAL)
            continue
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                pending.extend([value] if isinstance(value, Message) else value)


def checked_location(location: str, where: str) -> str:
    """A location in its normal form, if it cannot lead out of the model's folder on any system.

    Raises:
        SourceError: ``external_data_location``.
    """
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    unsafe = (
        posix.is_absolute()
        or windows.anchor
        or ".." in posix.parts
        # A backslash separates on one system and is part of the name on another.
        or "\\" in location
        or "\0" in location
        or not posix.parts
    )
    if unsafe:
        raise SourceError(
            f"the model reads external data at {location!r}, which is not a plain path in its folder",
            where=where,
            hint="do not use this file: such a location can read any file of this machine",
            kind="external_data_location",
            details={"location": location},
        )
    return str(posix)


def external_path(folder: Path, location: str) -> Path:
    """Where external data lies, given the model's folder and the location in the file.

    Raises:
        SourceError: ``external_data_location``.
    """
    return folder / checked_location(location, str(folder))


def attach(model: ir.Model, folder: Path) -> None:
    """Point external tensors to their files, where they are mapped and not read.

    Those of attributes come into memory, since ``onnx_ir`` saves only initializers as external data;
    so do empty ones, which have no data.

    Raises:
        SourceError: A file is missing or too short, or its location leaves the folder.
    """
    files: set[Path] = set()
    for scope in scopes(model):
        for value in scope.graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                tensor = _mapped(value.const_value, folder)
                files.add(Path(tensor.path))
                value.const_value = tensor if tensor.nbytes else _in_memory(tensor)
        for node in scope.graph:
            _read_in(node.attributes, folder, files)
    for function in model.functions.values():
        _read_in(function.attributes, folder, files)
    model.meta[FILES] = files


def came_from(model: ir.Model, path: Path) -> bool:
    """Whether ``path`` is a data file of the model as it was loaded, whether or not it is mapped now."""
    return any(_same_file(file, path) for file in model.meta.get(FILES, ()))


def write(model: ir.Model, path: Path) -> dict[ir.Value, ir.ExternalTensor]:
    """Write to ``path`` the initializers that are external, or must be for the file to be small enough.

    Data that several of them share is written once. The model is unchanged.

    Returns:
        For each value that was written, where it is now; the location is the name of ``path``. Empty,
        and no file, if nothing needs to be external.
    """
    values = _to_be_external(model)
    tensors = {_identity(tensor): tensor for tensor in values.values()}
    if not tensors:
        return {}
    written = ir.external_data.convert_tensors_to_external(list(tensors.values()), path.parent, path.name)
    places = dict(zip(tensors, written, strict=True))
    return {value: _like(tensor, places[_identity(tensor)], path.name) for value, tensor in values.items()}


@contextmanager
def replaced(tensors: dict[ir.Value, ir.ExternalTensor]) -> Iterator[None]:
    """Give values other tensors for a while."""
    before = {value: value.const_value for value in tensors}
    try:
        for value, tensor in tensors.items():
            value.const_value = tensor
        yield
    finally:
        for value, original in before.items():
            value.const_value = original


def repoint(tensors: dict[ir.Value, ir.ExternalTensor], path: Path) -> None:
    """Let values find their data in ``path``, once the file that they were mapped from is gone."""
    for value, tensor in tensors.items():
        value.const_value = _like(tensor, tensor, os.path.abspath(path))


def read_from(model: ir.Model, path: Path) -> set[ir.Value]:
    """The values whose data is mapped from the file ``path``."""
    return {
        value
        for value in _initialized(model)
        if isinstance(value.const_value, ir.ExternalTensor) and _same_file(value.const_value.path, path)
    }


def _initialized(model: ir.Model) -> Iterator[ir.Value]:
    for scope in scopes(model):
        yield from scope.graph.initializers.values()


def _to_be_external(model: ir.Model) -> dict[ir.Value, ir.TensorProtocol]:
    tensors = {value: value.const_value for value in _initialized(model) if value.const_value is not None}
    mapped = {value for value, each in tensors.items() if isinstance(each, ir.ExternalTensor)}
    inline = sum(tensor.nbytes for value, tensor in tensors.items() if value not in mapped)
    too_large = inline + _bytes_of_attributes(model) > INLINE_LIMIT
    return {
        value: tensor
        for value, tensor in tensors.items()
        if value in mapped
        or (too_large and tensor.nbytes > EXTERNAL_THRESHOLD and tensor.dtype != ir.DataType.STRING)
    }


def _bytes_of_attributes(model: ir.Model) -> int:
    return sum(
        attribute.value.nbytes
        for scope in scopes(model)
        for node in scope.graph
        for attribute in node.attributes.values()
        if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref()
    )


def _identity(tensor: ir.TensorProtocol) -> tuple[object, ...]:
    if isinstance(tensor, ir.ExternalTensor):
        return (tensor.path, tensor.offset or 0, tensor.nbytes)
    return (id(tensor),)


def _read_in(attributes: MutableMapping[str, ir.Attr], folder: Path, files: set[Path]) -> None:
    for attribute in list(attributes.values()):
        if attribute.is_ref() or attribute.value is None:
            continue
        if isinstance(attribute.value, ir.ExternalTensor):
            tensor = _mapped(attribute.value, folder)
            files.add(Path(tensor.path))
            attributes[attribute.name] = ir.AttrTensor(
                attribute.name, _in_memory(tensor), doc_string=attribute.doc_string
            )
        elif attribute.type == ir.AttributeType.TENSORS:
            tensors = [
                _mapped(tensor, folder) if isinstance(tensor, ir.ExternalTensor) else tensor
                for tensor in attribute.as_tensors()
            ]
            files |= {Path(tensor.path) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
            tensors = [
                _in_memory(tensor) if isinstance(tensor, ir.ExternalTensor) else tensor for tensor in tensors
            ]
            attributes[attribute.name] = ir.AttrTensors(
                attribute.name, tensors, doc_string=attribute.doc_string
            )


def _mapped(tensor: ir.ExternalTensor, folder: Path) -> ir.ExternalTensor:
    path = external_path(folder, os.fspath(tensor.location))
    if tensor.dtype == ir.DataType.STRING:
        raise _bad(
            tensor, path, "holds strings, which cannot be external", "export the model again", "invalid"
        )
    if not os.path.isfile(path):  # Path.is_file raises for a name that is too long
        raise _bad(tensor, path, "is missing", "put the file beside the model", "missing")
    offset = tensor.offset or 0
    if offset < 0 or (tensor.length is not None and tensor.length != tensor.nbytes):
        what = f"has offset {offset} and length {tensor.length}, but its shape takes {tensor.nbytes} bytes"
        raise _bad(tensor, path, what, "export the model again", "invalid")
    if offset + tensor.nbytes > path.stat().st_size:
        raise _bad(tensor, path, "ends too early", "fetch the file again", "truncated")
    # The absolute path and no base_dir: the files of the Hub's cache are symbolic links out of
    # their folder, which onnx_ir would refuse; the location itself is checked above.
    return _like(tensor, tensor, os.path.abspath(path))


def _bad(tensor: ir.ExternalTensor, path: Path, what: str, hint: str, kind: str) -> SourceError:
    return SourceError(
        f"external data of tensor {tensor.name!r} {what}",
        where=str(path),
        hint=hint,
        kind=f"external_data_{kind}",
    )


def _like(tensor: ir.TensorProtocol, place: ir.ExternalTensor, location: str) -> ir.ExternalTensor:
    """All that ``tensor`` is, with its data at the offset of ``place`` in the file ``location``."""
    assert tensor.name is not None
    return ir.ExternalTensor(
        location,
        place.offset,
        place.length,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    return ir.Tensor(
        tensor.numpy().copy(),
        dtype=tensor.dtype,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _same_file(path: str | os.PathLike[str], other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def let_go(tensor: ir.TensorProtocol) -> None:
    """Unmap what was read of an external tensor: its pages count as memory of this process until then.

    It is mapped again when it is read again. Where an array of it is still in use, nothing happens.
    """
    if isinstance(tensor, ir.ExternalTensor):
        with contextlib.suppress(BufferError):
            tensor.release()
