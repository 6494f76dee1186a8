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
