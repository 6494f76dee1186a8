import socket
from collections.abc import Iterator

import pytest
from huggingface_hub import HfApi

from hubpublish.hub import connect, retry
from hubpublish.localhub import LocalHub


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE_DELAY", 0.0)


@pytest.fixture
def api(hub: LocalHub) -> HfApi:
    return connect(hub.endpoint, "hf_alice_write")


@pytest.fixture
def closed_port() -> Iterator[str]:
    with socket.socket() as taken:  # bound and never listening, so that nobody else gets it either
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
