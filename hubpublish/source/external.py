"""Which other files an ONNX file reads its tensors from."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from hubpublish.model.external import checked_location, locations


def external_locations(path: Path, where: str) -> frozenset[str]:
    """The locations of external data, relative to the model's folder; no external file is opened.

    A file that is no ONNX model has none; loading it says what is wrong with it.

    Raises:
        SourceError: ``external_data_location``: a location could leave the folder.
    """
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except DecodeError:
        return frozenset()
    return frozenset(checked_location(location, where) for location in locations(model))
