"""Verifying on the device that the tests found."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from hubpublish.devices import Runtime, read_runtime, runtime_names
from hubpublish.recipe import InputSpec, WebGpuSpec
from hubpublish.verify.webgpu import WebGpuVerification, verify_webgpu
from hubpublish.verify.webgpu.bench import Device
from hubpublish.verify.webgpu.system import PLUGIN

LIMIT = 8


class Verify(Protocol):
    def __call__(self, original: Path, rewritten: Path, /, **spec: Any) -> WebGpuVerification: ...


@pytest.fixture
def on_gpu(webgpu_device: Device, tmp_path: Path) -> Verify:
    """Verifies on the device that was found."""

    def check(original: Path, rewritten: Path, /, **spec: Any) -> WebGpuVerification:
        given = {name: np.asarray(array) for name, array in spec.pop("given", {}).items()}
        return verify_webgpu(
            original,
            rewritten,
            spec=WebGpuSpec(**{"storage_buffers": LIMIT, **spec}),
            inputs=InputSpec(noise=1),
            base_dir=tmp_path,
            cache=tmp_path / "cache",
            given=given,
        )

    return check


@pytest.fixture(scope="session")
def native(webgpu_device: Device) -> Runtime:
    """The kernel table of the plugin that is installed."""
    name = f"native-{version(PLUGIN)}"
    if name not in runtime_names():
        pytest.skip(f"there is no table {name}; python -m hubpublish.devices.refresh writes it")
    return read_runtime(name)
