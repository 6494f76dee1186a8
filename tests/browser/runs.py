"""Runs of a repo through Transformers.js, and what came out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tests.browser import needs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Device = Literal["webgpu", "wasm"]
Dtype = Literal["fp32", "fp16"]

SECONDS: Final = 300  # of a run, on a machine that does much else too
FLAGS: Final = (
    *("--enable-unsafe-webgpu", "--no-first-run", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
# As the runtime logs it: `All nodes placed on [X]. Number of nodes: 7`, or ` Node(s) placed on [X]. ...`.
PLACED: Final = re.compile(r"odes?(?:\(s\))? placed on \[(\w+)\]\. Number of nodes: (\d+)")


@dataclass(frozen=True)
class Segmented:
    """What the pipeline gave, or the message of its failure.

    Attributes:
        error: The message; None if there is a mask.
        nodes: Execution provider to the nodes that the runtime placed on it.
        mask: uint8 [H, W].
        pixels: The model's input as the pipeline prepared it, float32, flat.
        adapter: Of the page's GPU device; None if it asked for none.
        storage_buffers: That the device grants a shader.
        submits: How often the GPU was given work.
    """

    error: str | None
    nodes: Mapping[str, int]
    mask: np.ndarray[Any, np.dtype[np.uint8]]
    pixels: np.ndarray[Any, np.dtype[np.float32]]
    adapter: str | None = None
    storage_buffers: int | None = None
    submits: int | None = None


@contextmanager
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a window.

    Raises:
        needs.MissingError: It is not there.
    """
    program = needs.chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox refuses to start for root, and every page here is ours.
        chromium = playwright.chromium.launch(
            executable_path=program, headless=True, args=[*FLAGS], chromium_sandbox=False
        )
        yield chromium
        chromium.close()


def in_page(
    chromium: Browser, address: str, hub: str, repo: str, device: Device, *, storage_buffers: int
) -> Segmented:
    """Run the fp32 model of a repo in a new page, whose GPU grants so many storage buffers."""
    what = {
        "hub": hub,
        "repo": repo,
        "runsOn": device,
        "dtype": "fp32",
        "image": f"{address}/images/image.png",
        "storageBuffers": storage_buffers,
    }
    with chromium.new_context() as context:  # after a failure a runtime's page is of no more use
        page = context.new_page()
        log: list[str] = []
        page.on("console", lambda message: log.append(message.text))
        page.on("pageerror", lambda error: log.append(error.message))
        page.goto(f"{address}/pages/pipeline.html")
        page.wait_for_function("typeof run === 'function'")
        # Not to be awaited: what a page is asked to evaluate has no time limit.
        page.evaluate("what => void run(what).then(found => { globalThis.found = found })", what)
        found = page.wait_for_function("globalThis.found", timeout=1000 * SECONDS).json_value()
    used = found["device"]
    return _segmented(
        found,
        "\n".join(log),
        adapter=used["adapter"],
        storage_buffers=used["storageBuffers"],
        submits=used["submits"],
    )


def in_node(
    hub: str, repo: str, dtype: Dtype, image: Path, cache: Path, environment: Mapping[str, str]
) -> Segmented:
    """Run a model of a repo in Node, on WebGPU.

    Args:
        hub: The Hub's address.
        repo: The repo's id there.
        dtype: Which of its files.
        image: What to segment.
        cache: An empty folder, through which the files go.
        environment: Variables of the process beside those of this one.

    Raises:
        needs.MissingError: Node.js is not there.
    """
    what = {"hub": hub, "repo": repo, "runsOn": "webgpu", "dtype": dtype, "image": str(image)}
    command = [needs.node(), str(needs.FOLDER / "node.mjs"), json.dumps({**what, "cache": str(cache)})]
    # Node makes pipes non-blocking; the runtime, which writes past it, ends its log at the first full one.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        log.seek(0)
        told = log.read()
    assert done.returncode == 0, told[-2000:]
    return _segmented(json.loads(done.stdout), told)


def _segmented(found: Mapping[str, Any], log: str, **used: Any) -> Segmented:
    height, width, channels = found.get("size", (0, 0, 1))
    assert channels == 1
    return Segmented(
        error=found["error"],
        nodes={provider: int(count) for provider, count in PLACED.findall(log)},
        mask=np.asarray(found.get("mask", ()), np.uint8).reshape(height, width),
        pixels=np.asarray(found.get("pixels", ()), np.float32),
        **used,
    )
