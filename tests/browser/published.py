"""The demo model, published by a run on the local Hub, and what the CPU makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from huggingface_hub import HfApi
from PIL import Image

from hubpublish.demo.config import SMALL, Dtype
from hubpublish.demo.model import INPUT
from hubpublish.demo.repo import MODEL_FILES, write_repo
from hubpublish.localhub import LocalHub
from hubpublish.verify import images
from tests.publication import SOURCE, TARGET, TOKEN, Publication

Floats = np.ndarray[Any, np.dtype[np.float32]]

# Every kind of node of the demo model, in half its blocks and as few pixels as it takes. Its channels are
# multiples of four: where three divides them and four does not, the runtime's own Conv is wrong on WebGPU.
TINY: Final = replace(
    SMALL, size=64, embed=8, depths=(2, 2, 2, 2), heads=(2, 2, 4, 4), inner=8, aspp=8, edge=8
)
PREPROCESSOR: Final = "preprocessor_config.json"


@dataclass(frozen=True)
class Published:
    """The original and the published repo on a local Hub, and an image.

    Attributes:
        hub: The Hub's address.
        original: The repo of the original.
        rewritten: The repo that was published.
        image: A picture of the model's own size, so that no resampling comes between runtimes.
        folder: The published files.
    """

    hub: str
    original: str
    rewritten: str
    image: Path
    folder: Path

    def pixels(self) -> Floats:
        """The image as the model takes it: [1, 3, H, W]."""
        return images.load(self.image, self.folder / PREPROCESSOR, [1, 3, TINY.size, TINY.size])

    def on_cpu(self, dtype: Dtype, pixels: Floats) -> Floats:
        """What the CPU makes of the published file: the sigmoid of the logits, [H, W]."""
        path = next(path for path, each in MODEL_FILES.items() if each == dtype)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            self.folder / path, options, providers=["CPUExecutionProvider"]
        )
        batch = pixels.reshape(1, 3, TINY.size, TINY.size)
        (logits,) = session.run(None, {INPUT: batch})
        return np.asarray(1 / (1 + np.exp(-logits[0, 0])), np.float32)


def mask_of(probabilities: Floats) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A mask as Transformers.js makes it: cut off, not rounded."""
    return np.asarray(255 * probabilities, np.uint8)


@contextmanager
def published(folder: Path) -> Iterator[Published]:
    """Build the model, publish it with the passes that it needs, and keep the Hub until the end."""
    source = folder / "source"
    paths = write_repo(source, TINY)
    image = folder / "images" / "image.png"
    image.parent.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (TINY.size, TINY.size, 3), np.uint8)
    Image.fromarray(noise).save(image)
    with LocalHub(folder / "hub") as hub:
        files = {path: (source / path).read_bytes() for path in paths}
        models = {path: files.pop(path) for path in MODEL_FILES}
        publication = Publication(hub, HfApi(endpoint=hub.endpoint, token=TOKEN), folder, models)
        publication.seed(files)
        recipe = publication.recipe(
            source={"copy": ["config.json", PREPROCESSOR]},
            passes="auto",
            verify={"inputs": {"noise": 1}},
        )
        assert publication.run(recipe).status == "published"
        local = folder / "published"
        publication.api.snapshot_download(TARGET, local_dir=local)
        yield Published(hub.endpoint, SOURCE, TARGET, image, local)
    assert not hub.errors, "\n".join(hub.errors)
