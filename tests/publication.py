"""A small publication for tests: a source repo on the local Hub, a recipe, and what a run leaves behind."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import yaml
from huggingface_hub import CommitOperationAdd, HfApi

from hubpublish import pipeline
from hubpublish import recipe as recipes
from hubpublish.job import RunOptions
from hubpublish.localhub import LocalHub
from hubpublish.pipeline import RunResult
from hubpublish.recipe import Recipe

SOURCE, TARGET = "acme/small", "acme/small-webgpu"
TOKEN, READ_TOKEN = "hf_alice_write", "hf_alice_read"

# A Split of nine and a Concat of nine bind ten buffers each; the Sum has no kernel.
SMALL = """<ir_version: 8, opset_import: ["": 13]>
small (float[2,18] x) => (float[2,18] y)
<float[18] w = {0.5, -1.0, 2.0, 0.25, 1.5, -0.75, 3.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3}>
{
  [cut] p0, p1, p2, p3, p4, p5, p6, p7, p8 = Split <axis = 1> (x)
  [relu] r0 = Relu (p0)
  [neg] n1 = Neg (p1)
  [tanh] t2 = Tanh (p2)
  [join] c = Concat <axis = 1> (r0, n1, t2, p3, p4, p5, p6, p7, p8)
  [scale] s = Mul (c, w)
  [total] z = Sum (s, x, w)
  [last] y = Sigmoid (z)
}"""

CARD = "---\nlicense: mit\npipeline_tag: image-segmentation\n---\n# Small\n"
FILES: dict[str, bytes] = {
    "README.md": CARD.encode(),
    "LICENSE": b"MIT License\n",
    "config.json": b'{"model_type": "small"}\n',
}
# Reference outputs are cached by content: tests of the same model need not run it again and again.
_REFERENCES = Path(os.environ["HF_HOME"]) / "references"


def model_bytes(text: str = SMALL) -> bytes:
    """A model from ONNX text, as a file's bytes."""
    return bytes(onnx.parser.parse_model(text).SerializeToString(deterministic=True))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def commit(api: HfApi, repo: str, files: Mapping[str, bytes]) -> str:
    """Commit files as one commit to a repo that is made if it is not there; its id."""
    api.create_repo(repo, exist_ok=True)
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    return api.create_commit(repo, operations, commit_message="files").oid


def recipe_data(models: Mapping[str, bytes], **changes: Any) -> dict[str, Any]:
    """A recipe as plain data: these models with their pins; ``changes`` replaces parts of it.

    A part that is a mapping is merged, so that ``target={"create": False}`` keeps the repo.
    """
    data: dict[str, Any] = {
        "schema": 1,
        "source": {"repo": SOURCE, "copy": ["config.json"]},
        "variants": [
            {"path": path, "dtype": "fp16" if "fp16" in path else "fp32", "sha256": sha256(content)}
            for path, content in models.items()
        ],
        "passes": ["concat_tree", "split_tree", "sum_to_add"],
        "device": "webgpu-min",
        "verify": {"gate": "exact", "inputs": {"noise": 1}},
        "target": {"repo": TARGET, "create": True},
        "card": {"license": "mit", "tags": ["webgpu"], "pipeline_tag": "image-segmentation"},
    }
    for key, value in changes.items():
        merged = isinstance(value, dict) and isinstance(data[key], dict)
        data[key] = {**data[key], **value} if merged else value
    return data


def recipe_of(models: Mapping[str, bytes], **changes: Any) -> Recipe:
    return recipes.loads(yaml.safe_dump(recipe_data(models, **changes)), "recipe.yaml")


@dataclass
class Publication:
    """A source repo on the local Hub, and everything to run a recipe against it."""

    hub: LocalHub
    api: HfApi
    folder: Path
    models: dict[str, bytes] = field(default_factory=lambda: {"onnx/model.onnx": model_bytes()})
    said: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def staged(self) -> Path:
        return self.out / "staged"

    def seed(self, files: Mapping[str, bytes] | None = None) -> str:
        """Publish the source as its author would; the commit."""
        return commit(self.api, SOURCE, {**FILES, **self.models, **(files or {})})

    def recipe(self, **changes: Any) -> Recipe:
        return recipe_of(self.models, **changes)

    def options(self, **options: Any) -> RunOptions:
        cache = self.folder / "cache"
        if not (cache / "references").exists() and _REFERENCES.exists():
            shutil.copytree(_REFERENCES, cache / "references")
        given = {"out": self.out, "cache": cache, "endpoint": self.hub.endpoint, "token": TOKEN, **options}
        return RunOptions(**given)

    def run(self, recipe: Recipe | None = None, **options: Any) -> RunResult:
        """Run a recipe, by default the plain one, as alice."""
        chosen = self.options(**options)
        try:
            return pipeline.run(recipe or self.recipe(), self.folder, chosen, {}, self.said.append)
        finally:
            if (chosen.cache / "references").exists():
                shutil.copytree(chosen.cache / "references", _REFERENCES, dirs_exist_ok=True)

    def published(self, repo: str = TARGET, revision: str = "main") -> dict[str, bytes]:
        """Every file of the target but the Hub's own, as the Hub serves it."""
        paths = self.api.list_repo_files(repo, revision=revision)
        return {path: self.read(path, repo, revision) for path in paths if path != ".gitattributes"}

    def read(self, path: str, repo: str = TARGET, revision: str = "main") -> bytes:
        local = self.folder / "read" / revision.replace("/", "-")
        shutil.rmtree(local, ignore_errors=True)  # so that the client cannot answer from what it has
        got = self.api.hf_hub_download(repo, path, revision=revision, local_dir=local)
        return Path(got).read_bytes()

    def commits(self, repo: str = TARGET) -> list[str]:
        return [each.title for each in self.api.list_repo_commits(repo)]

    def nothing_is_published(self, repo: str = TARGET) -> bool:
        """Whether the target does not exist, or holds nothing but what the Hub puts there."""
        return not self.api.repo_exists(repo) or self.api.list_repo_files(repo) == [".gitattributes"]


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path, with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
