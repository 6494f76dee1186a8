"""Whole runs on real files: a repo with the file on the local Hub, a recipe, `pipeline.run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from huggingface_hub import CommitOperationAdd

from hubpublish import hub, pipeline
from hubpublish.job import RunOptions
from hubpublish.localhub import LocalHub
from hubpublish.recipe import Recipe
from hubpublish.report import Report, VariantReport
from tests.real.files import FILES

TOKEN = "hf_alice_write"
LOWERED = {"concat_tree": {"max_inputs": 2}, "split_tree": {"max_outputs": 2}}
DEFAULT: dict[str, dict[str, int]] = {"concat_tree": {}, "split_tree": {}}

# One chunk of speech is 32 ms with 4 ms of the chunk before; the state is zero at the start of a recording.
_16K = {"input": [1, 512 + 64], "state": [2, 1, 128]}
_8K = {"input": [1, 256 + 32], "state": [2, 1, 128]}
_START = {"shapes": _16K, "values": {"sr": 16000, "state": 0}}
_LATER = {"shapes": _16K, "values": {"sr": 16000}}
_START_8K = {"shapes": _8K, "values": {"sr": 8000, "state": 0}}
_LATER_8K = {"shapes": _8K, "ranges": {"sr": [8000, 8000]}}
INPUTS: dict[str, dict[str, dict[str, Any]]] = {
    "silero-vad": {
        "onnx/model.onnx": _START,
        "onnx/model_later.onnx": _LATER,
        "onnx/model_8k.onnx": _START_8K,
        "onnx/model_8k_later.onnx": _LATER_8K,
    },
    "silero-vad-op18": {"onnx/model.onnx": _LATER, "onnx/model_8k.onnx": _LATER_8K},
    "captcha-recognizer": {"onnx/model.onnx": {}},
    "nudenet": {
        "onnx/model.onnx": {"shapes": {"images": [1, 3, 320, 320]}},
        "onnx/model_two_wide.onnx": {"shapes": {"images": [2, 3, 192, 352]}},
    },
    # A run of it takes seconds, and two for each level tell as much of a model that is only sorted.
    "isnet-fp16": {"onnx/model.onnx": {"noise": 1}},
}
"""What each file is verified on. A file with several kinds of input is published once for each of them."""


@dataclass(frozen=True)
class Publication:
    """A run that ended, and what is on the Hub since.

    Attributes:
        original: The file as it was.
        published: Path in the repo to the file as the Hub serves it.
        card: The model card, likewise.
    """

    original: Path
    report: Report
    published: dict[str, Path]
    card: str

    @property
    def models(self) -> list[tuple[VariantReport, onnx.ModelProto]]:
        """Each variant's report, with its published model."""
        return [(each, onnx.load(self.published[each.path])) for each in self.report.variants]


@dataclass
class Publications:
    """Makes each run once, and raises once more what it raised."""

    hub: LocalHub
    folder: Path
    real_file: Callable[[str], Path]
    _done: dict[str, Publication | Exception] = field(default_factory=dict)

    def lowered(self, name: str) -> Publication:
        """Every Concat and Split narrowed to 2, on every kind of input."""
        return self._once(f"{name}-lowered", name, LOWERED, INPUTS[name])

    def default(self, name: str) -> Publication:
        """As a recipe without options has it, on the first kind of input."""
        path, inputs = next(iter(INPUTS[name].items()))
        return self._once(f"{name}-default", name, DEFAULT, {path: inputs})

    def _once(
        self,
        label: str,
        name: str,
        trees: Mapping[str, Mapping[str, int]],
        inputs: Mapping[str, Mapping[str, Any]],
    ) -> Publication:
        original = self.real_file(name)
        if label not in self._done:
            try:
                self._done[label] = self._publish(label, name, original, trees, inputs)
            except Exception as error:
                self._done[label] = error
        done = self._done[label]
        if isinstance(done, Exception):
            raise done
        return done

    def _publish(
        self,
        label: str,
        name: str,
        original: Path,
        trees: Mapping[str, Mapping[str, int]],
        inputs: Mapping[str, Mapping[str, Any]],
    ) -> Publication:
        api = hub.connect(self.hub.endpoint, TOKEN)
        file, source, target = FILES[name], f"acme/{label}", f"alice/{label}-webgpu"
        api.create_repo(source)
        card = f"---\nlicense: {file.license}\n---\n# {file.package} {file.version}\n".encode()
        files = [CommitOperationAdd("README.md", card), *(CommitOperationAdd(p, original) for p in inputs)]
        api.create_commit(source, files, commit_message="As it was published")
        recipe = Recipe.model_validate(
            {
                "schema": 1,
                "source": {"repo": source},
                "variants": [
                    {
                        "path": path,
                        "dtype": file.dtype,
                        "sha256": file.sha256,
                        "verify": {"inputs": dict(spec)},
                    }
                    for path, spec in inputs.items()
                ],
                "passes": [*({k: dict(v)} for k, v in trees.items()), "sum_to_add", "gather_nd_to_gather"],
                "device": "webgpu-min",
                "target": {"repo": target, "create": True},
                "card": {"license": file.license},
            }
        )
        options = RunOptions(
            out=self.folder / label,
            cache=self.folder / "cache",  # one for all: an original is run once on an input
            endpoint=self.hub.endpoint,
            token=TOKEN,
        )
        result = pipeline.run(recipe, self.folder, options, {}, print)
        assert result.status == "published"
        assert result.report is not None
        served = Path(api.snapshot_download(target, local_dir=self.folder / f"{label}-served"))
        return Publication(
            original=original,
            report=result.report,
            published={record.path: served / record.path for record in result.report.outputs},
            card=(served / "README.md").read_text("utf-8"),
        )
