"""A device for the tests: they are skipped where there is none, and with CI=true fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from hubpublish.errors import UsageError
from hubpublish.recipe import InputSpec, WebGpuSpec
from hubpublish.verify import RunLimits
from hubpublish.verify.webgpu import WebGpuVerification, verify_webgpu
from hubpublish.verify.webgpu.bench import Device, find_device
from tests.last_lines import NOT_TESTED

LIMIT = 8


class Verify(Protocol):
    def __call__(self, original: Path, rewritten: Path, /, **spec: Any) -> WebGpuVerification: ...


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Device:
    """The device, which grants eight storage buffers."""
    try:
        found = find_device(LIMIT, tmp_path_factory.mktemp("cache"), RunLimits())
    except UsageError as error:
        why = f"{error.what}; {error.hint}"
        pytestconfig.stash.setdefault(NOT_TESTED, {})["WebGPU"] = why
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true it must be tested", pytrace=False)
        pytest.skip(why)
    return found


@pytest.fixture
def on_gpu(device: Device, tmp_path: Path) -> Verify:
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
