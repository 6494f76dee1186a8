"""A publication whose source moves on, and its recipe in a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from hubpublish import hub, upstream
from hubpublish.localhub import LocalHub
from hubpublish.upstream import Bump, RecipeStatus
from tests.publication import SMALL, SOURCE, TOKEN, Publication, model_bytes, recipe_data

OTHER_WEIGHTS = SMALL.replace("0.5, -1.0", "0.5, -1.5")
OTHER_GRAPH = SMALL.replace("Neg (p1)", "Abs (p1)")
MODEL = "onnx/model.onnx"


@dataclass
class Upstream:
    """What happens to the source, and what status and bump say of it."""

    publication: Publication
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.publication.folder / "small.yaml"

    def recipe(self, name: str = "small.yaml", **changes: Any) -> Path:
        """Write a recipe that pins what the models are by now."""
        path = self.publication.folder / name
        path.write_text(yaml.safe_dump(recipe_data(self.publication.models, **changes), sort_keys=False))
        return path

    def moves(self, files: Mapping[str, bytes | None]) -> str:
        """A commit to the source; None deletes a file."""
        operations = [
            CommitOperationDelete(path, is_folder=False) if data is None else CommitOperationAdd(path, data)
            for path, data in files.items()
        ]
        return self.publication.api.create_commit(SOURCE, operations, commit_message="moved").oid

    def gets_a_model(self, text: str = OTHER_WEIGHTS) -> str:
        return self.moves({MODEL: model_bytes(text)})

    def head(self) -> str:
        return str(self.publication.api.model_info(SOURCE).sha)

    def status(self, *paths: Path, token: str = TOKEN) -> RecipeStatus:
        """The status of the one recipe, or of the last of these."""
        api = hub.connect(self.publication.hub.endpoint, token)
        return upstream.status(paths or (self.path,), api, self.environ)[-1]

    def bump(self, path: Path | None = None, **options: Any) -> Bump:
        api = hub.connect(self.publication.hub.endpoint, TOKEN)
        cache = self.publication.folder / "cache"
        return upstream.plan_bump(path or self.path, api, cache, self.publication.said.append, **options)

    def downloads(self, pattern: str = r"\.onnx") -> int:
        return len(self.publication.hub.requests(rf"GET /{SOURCE}/resolve/.*{pattern}"))


@pytest.fixture
def source(publication: Publication) -> Upstream:
    """The source as it was when its recipe was written; nothing is published."""
    publication.seed()
    made = Upstream(publication)
    made.recipe()
    return made


@pytest.fixture(scope="session")
def hub_with_publication(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a Hub with the source and its publication, made once: a run takes a second."""
    folder = tmp_path_factory.mktemp("published")
    with LocalHub(folder / "hub") as running:
        made = Publication(running, HfApi(endpoint=running.endpoint, token=TOKEN), folder)
        made.seed()
        made.run()
    return folder / "hub"


@pytest.fixture
def published(hub_with_publication: Path, tmp_path: Path) -> Iterator[Upstream]:
    """The source and its publication, on a Hub of the test's own."""
    shutil.copytree(hub_with_publication, tmp_path / "hub")
    with LocalHub(tmp_path / "hub") as running:
        made = Upstream(Publication(running, HfApi(endpoint=running.endpoint, token=TOKEN), tmp_path))
        made.recipe()
        yield made
    assert not running.errors, "\n".join(running.errors)
