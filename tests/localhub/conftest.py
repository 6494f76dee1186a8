from __future__ import annotations

import http.client
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, HfApi, constants, hf_api

from hubpublish.localhub import LocalHub
from hubpublish.localhub.registry import Registry

REPO = "alice/target"
CARD = (
    b"---\nlicense: mit\nbase_model: someone/model\ntags: [webgpu]\nlibrary_name: transformers.js\n---\n# x\n"
)


@dataclass(frozen=True)
class Filled:
    """A repo with a first commit: its id, that commit, and the bytes of its large file."""

    id: str
    commit: str
    model: bytes


def fill(api: HfApi) -> Filled:
    api.create_repo(REPO)
    model = os.urandom(200_000)
    first = api.create_commit(
        REPO,
        [
            CommitOperationAdd("onnx/model.onnx", model),
            CommitOperationAdd("config.json", b'{"a": 1}'),
            CommitOperationAdd("README.md", CARD),
        ],
        commit_message="first",
        commit_description="with a body",
    )
    return Filled(REPO, first.oid, model)


@pytest.fixture(scope="session")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Filled]:
    with running_and_filled(tmp_path_factory.mktemp("filled")) as (running, filled):
        return running.state.root, filled


@pytest.fixture
def filled(hub: LocalHub, filled_root: tuple[Path, Filled]) -> Filled:
    """The repo in the test's own Hub. Copied, since a commit through the client takes its time."""
    root, filled = filled_root
    for folder in ("models", "lfs"):
        shutil.copytree(root / folder, hub.state.root / folder, dirs_exist_ok=True)
    hub.state.registry = Registry(hub.state.root)
    return filled


@pytest.fixture
def as_user(hub: LocalHub) -> Callable[[str | bool], HfApi]:
    """A client with another token; False: with none."""
    return lambda token: HfApi(endpoint=hub.endpoint, token=token)


@pytest.fixture
def anonymous(hub: LocalHub) -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=False)


@pytest.fixture
def download(api: HfApi, tmp_path: Path) -> Callable[..., bytes]:
    """The bytes of a file, through the client's cache (empty at first)."""

    def run(path: str, repo_id: str = REPO, **options: object) -> bytes:
        options = {"cache_dir": tmp_path / "cache", **options}
        return Path(api.hf_hub_download(repo_id, path, **options)).read_bytes()

    return run


@pytest.fixture
def default_endpoint(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the Hub the client's default: some of its classes know no other."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(hf_api.api, "endpoint", hub.endpoint)


@contextmanager
def running_and_filled(root: Path) -> Iterator[tuple[LocalHub, Filled]]:
    """One Hub for all tests of a module that only read, or are refused."""
    with LocalHub(root) as running:
        yield running, fill(HfApi(endpoint=running.endpoint, token="hf_alice_write"))
    assert not running.errors, "\n".join(running.errors)


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]


@pytest.fixture
def http_request(hub: LocalHub) -> Callable[..., Reply]:
    """A plain HTTP request, for what the client would never send."""

    def run(method: str, target: str, body: object = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(hub.endpoint.removeprefix("http://"), timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, target, body=body, headers=named)
            response = connection.getresponse()
            return Reply(response.status, response.read(), dict(response.headers.items()))
        finally:
            connection.close()

    return run
