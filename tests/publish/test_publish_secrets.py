import logging
import os
import subprocess
import sys

import pytest
from huggingface_hub import HfApi

from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    publish,
    read_target,
)
from tests.publish.publishing import MESSAGE, Stage, commits, error_of


def test_keyless(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    hub.publishers[target] = "repo:alice/recipes:ref:refs/heads/main"
    code = (
        "import sys; from pathlib import Path; from hubpublish.hub import connect\n"
        "from hubpublish.publish import *\n"
        "files = [stage(path, Path(local)) for path, local in zip(sys.argv[1::2], sys.argv[2::2])]\n"
        "api = connect(None, None)\n"
        f"ensure_target(api, {target!r}); publish(api, {target!r}, files, Message('Keyless'))\n"
    )
    environment = {
        "HF_ENDPOINT": hub.endpoint,
        "HF_OIDC_RESOURCE": target,
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_URL": hub.identity_url,
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": hub.publishers[target],
    }
    argv = [part for file in staging() for part in (file.path, str(file.local))]
    subprocess.run(
        [sys.executable, "-c", code, *argv], env={**os.environ, **environment}, check=True, timeout=60
    )
    assert commits(api)[0] == "Keyless"


def test_no_token_in_any_log(
    hub: LocalHub, api: HfApi, target: str, staging: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    client = logging.getLogger("huggingface_hub")
    client.addHandler(caplog.handler)
    level = client.level
    try:
        with caplog.at_level(logging.DEBUG):
            client.setLevel(logging.DEBUG)
            publish(api, target, staging(), MESSAGE)
            hub.fault(r"GET /api/models", "status", status=500, times=None)
            error_of(lambda: read_target(api, target))
    finally:
        client.removeHandler(caplog.handler)
        client.setLevel(level)
    assert "Request" in caplog.text  # it did log
    assert "hf_alice" not in caplog.text
    assert "sig=" not in caplog.text
