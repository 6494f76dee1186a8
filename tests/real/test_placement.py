"""Where the nodes of ONNX files that others made run, as measured with the native plugin 0.4.0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hubpublish.devices.loaded import load_like_a_runtime
from hubpublish.devices.placement import place
from hubpublish.devices.runtimes import read_runtime
from hubpublish.model import load
from tests.real.files import FILES

pytestmark = pytest.mark.real

#: Copies from the GPU and to it.
COPIES = {
    "silero-vad": (4, 6),
    "silero-vad-op18": (0, 0),
    "captcha-recognizer": (0, 0),
    "nudenet": (0, 3),
    "isnet-fp16": (0, 0),
}


@pytest.mark.parametrize("name", FILES)
def test_copies_are_those_that_were_measured(name: str, real_file: Callable[[str], Path]) -> None:
    loaded = load_like_a_runtime(load(real_file(name)))
    copies = place(loaded, [read_runtime("native-0.4.0")]).copies
    from_gpu = sum(copy.to_host for copy in copies)
    assert (from_gpu, len(copies) - from_gpu) == COPIES[name]
