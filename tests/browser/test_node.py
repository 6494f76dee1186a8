from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hubpublish.verify.webgpu.bench import Device
from tests.browser.published import Published, mask_of
from tests.browser.runs import in_node

# Compiling shaders is most of a run on a software adapter; these make it half as long. Others ignore them.
QUICKLY = {"GALLIVM_PERF": "nopt", "LP_NATIVE_VECTOR_WIDTH": "128"}

# A device accumulates in float16 where the CPU computes a float16 file in float32. Its masks are so many
# times as far from the CPU's as storing the weights in float16 alone moves those: 6 here, 10 at the model's
# own widths, more for some trained models. The mask of another image is about a thousand times as far.
TIMES_THE_FLOOR = 20


@pytest.mark.webgpu
@pytest.mark.usefixtures("node")
def test_the_float16_model_gives_the_same_mask_on_webgpu(
    webgpu_device: Device, demo: Published, tmp_path: Path
) -> None:
    environment = {**webgpu_device.webgpu.environment, **QUICKLY}
    found = in_node(demo.hub, demo.rewritten, "fp16", demo.image, tmp_path, environment)
    assert found.error is None
    assert set(found.nodes) == {"WebGpuExecutionProvider"}
    np.testing.assert_allclose(found.pixels, demo.pixels().ravel(), rtol=0, atol=1e-6)
    on_cpu = demo.on_cpu("fp16", found.pixels)
    floor = np.abs(on_cpu - demo.on_cpu("fp32", found.pixels)).mean()
    apart = np.abs(found.mask.astype(int) - mask_of(on_cpu).astype(int))
    assert mask_of(on_cpu).std() > 50
    assert apart.mean() <= 255 * TIMES_THE_FLOOR * floor
