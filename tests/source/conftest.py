import pytest
from huggingface_hub import HfApi

from hubpublish.hub import connect
from hubpublish.localhub import LocalHub


@pytest.fixture
def api(hub: LocalHub) -> HfApi:
    return connect(hub.endpoint, "hf_alice_write")
