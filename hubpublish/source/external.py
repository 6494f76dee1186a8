"""Which other files an ONNX file reads its tensors from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hubpublish.errors import SourceError


def external_locations(path: Path, where: str) -> frozenset[str]:
    """The locations of external data, relative to the model's folder; no external file is opened.

    Every tensor counts wherever it stands: initializers, attributes of nodes in the main graph, in
    subgraphs and in functions, sparse ones, training information. A file that is no ONNX model has
    none; loading it says what is wrong with it.

    Raises:
        SourceError: ``external_data_location``: a location could leave the folder.
    """
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except DecodeError:
        return frozenset()
    return frozenset(_checked(location, where) for location in _locations(model))


def _locations(model: onnx.ModelProto) -> Iterator[str]:
    pending: list[Message] = [model]
    while pending:
        message = pending.pop()
        if isinstance(message, onnx.TensorProto):
            found = [entry.value for entry in message.external_data if entry.key == "location"]
            if message.data_location == onnx.TensorProto.EXTERNAL and not found:
                found = [""]
            yield from found
            continue
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                pending.extend([value] if isinstance(value, Message) else value)


def _checked(location: str, where: str) -> str:
    """The location in its normal form, if it cannot lead out of the folder on any system."""
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
