from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hubpublish.verify.webgpu.bench import TOO_MANY
from tests.browser.published import Published, mask_of
from tests.browser.runs import Segmented, in_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LIMIT = 8  # storage buffers of a shader: what every WebGPU device grants, and some do not grant more

PROVIDERS = {"webgpu": "WebGpuExecutionProvider", "wasm": "CPUExecutionProvider"}


def assert_as_on_the_cpu(demo: Published, found: Segmented) -> None:
    assert found.error is None
    np.testing.assert_allclose(found.pixels, demo.pixels().ravel(), rtol=0, atol=1e-6)
    expected = mask_of(demo.on_cpu("fp32", found.pixels))
    assert expected.std() > 50  # an empty mask would be equal whatever it was computed from
    assert np.abs(found.mask.astype(int) - expected.astype(int)).max() <= 1


def test_the_published_model_gives_the_same_mask_on_webgpu(
    chromium: Browser, demo: Published, address: str
) -> None:
    found = in_page(chromium, address, demo.hub, demo.rewritten, "webgpu", storage_buffers=LIMIT)
    assert_as_on_the_cpu(demo, found)
    assert found.adapter
    assert found.storage_buffers == LIMIT
    assert found.submits
    assert set(found.nodes) == {PROVIDERS["webgpu"]}
    assert found.nodes[PROVIDERS["webgpu"]] > 1000


def test_the_published_model_gives_the_same_mask_without_a_gpu(
    chromium: Browser, demo: Published, address: str
) -> None:
    found = in_page(chromium, address, demo.hub, demo.rewritten, "wasm", storage_buffers=LIMIT)
    assert_as_on_the_cpu(demo, found)
    assert (found.adapter, found.submits) == (None, 0)
    assert set(found.nodes) == {PROVIDERS["wasm"]}


def test_the_original_does_not_run_on_webgpu(chromium: Browser, demo: Published, address: str) -> None:
    found = in_page(chromium, address, demo.hub, demo.original, "webgpu", storage_buffers=LIMIT)
    told = TOO_MANY.search(found.error or "")
    assert told, found.error
    assert told[1] == str(LIMIT)
    assert found.storage_buffers == LIMIT
