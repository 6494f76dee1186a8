from __future__ import annotations

import base64
import json

import pytest
from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi
from huggingface_hub._oidc import oidc_login
from huggingface_hub.errors import HfHubHTTPError

from hubpublish.localhub import LocalHub

from .conftest import Filled

JOB = "repo:alice/publish:ref:refs/heads/main"


@pytest.fixture
def job(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What GitHub Actions gives a job that may ask for an id token."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", hub.identity_url)
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", JOB)


def test_a_trusted_job_publishes_to_its_repo_only(
    hub: LocalHub, api: HfApi, filled: Filled, job: None
) -> None:
    api.create_repo("alice/other")
    hub.publishers[filled.id] = JOB
    token = oidc_login(resource=filled.id, endpoint=hub.endpoint)["access_token"]
    keyless = HfApi(endpoint=hub.endpoint, token=token)

    def commit(repo_id: str) -> CommitInfo:
        return keyless.create_commit(repo_id, [CommitOperationAdd("x", b"x")], commit_message="keyless")

    assert commit(filled.id).oid
    for forbidden in (
        lambda: commit("alice/other"),
        lambda: keyless.create_repo("alice/third"),
    ):
        with pytest.raises(HfHubHTTPError) as refused:
            forbidden()
        assert refused.value.response.status_code == 403
    assert token not in repr(hub.log)


@pytest.mark.parametrize("trusted", [None, "repo:alice/publish:ref:refs/heads/other"])
def test_another_job_is_refused(hub: LocalHub, filled: Filled, job: None, trusted: str | None) -> None:
    if trusted:
        hub.publishers[filled.id] = trusted
    with pytest.raises(HfHubHTTPError, match="no trusted publisher matches"):
        oidc_login(resource=filled.id, endpoint=hub.endpoint)


def test_a_token_for_another_hub_is_refused(hub: LocalHub, filled: Filled, job: None) -> None:
    hub.publishers[filled.id] = JOB
    with pytest.raises(HfHubHTTPError, match="no trusted publisher matches"):
        oidc_login(resource=filled.id, endpoint=hub.endpoint, audience="https://elsewhere.example")


@pytest.mark.parametrize("token", ["", "x", "a.%%%.b", f"a.{base64.b64encode(b'[]').decode()}.b"])
def test_what_is_no_token(hub: LocalHub, http_request, token: str) -> None:
    body = {"grant_type": "x", "subject_token": token, "resource": "alice/target"}
    assert http_request("POST", "/oauth/token", json.dumps(body)).status == 400
