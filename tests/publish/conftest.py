from pathlib import Path

import pytest
from huggingface_hub import HfApi

from hubpublish.hub import connect
from hubpublish.layout import MANIFEST
from hubpublish.localhub import LocalHub
from hubpublish.publish import StagedFile, make_manifest, stage
from tests.publish.publishing import FILES, REPO, Stage


@pytest.fixture
def api(hub: LocalHub) -> HfApi:
    return connect(hub.endpoint, "hf_alice_write")


@pytest.fixture
def staging(tmp_path: Path) -> Stage:
    def make(files: dict[str, bytes] = FILES, key: str = "key 1") -> list[StagedFile]:
        folder = tmp_path / f"staged-{len(list(tmp_path.iterdir()))}"
        made = []
        for path, content in files.items():
            local = folder / path
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(content)
            made.append(stage(path, local))
        (folder / MANIFEST).write_text(make_manifest(made, key=key, source_commit="c" * 40))
        return [*made, stage(MANIFEST, folder / MANIFEST)]

    return make


@pytest.fixture
def target(api: HfApi) -> str:
    api.create_repo(REPO)
    return REPO
