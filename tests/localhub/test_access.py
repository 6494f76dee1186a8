from __future__ import annotations

import time

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from hubpublish.localhub import LocalHub, Token

from .conftest import Filled


def status_of(error: pytest.ExceptionInfo[HfHubHTTPError]) -> int:
    return error.value.response.status_code


def upload(api: HfApi, repo_id: str, **options: object) -> object:
    return api.create_commit(repo_id, [CommitOperationAdd("x.txt", b"x")], commit_message="x", **options)


def test_a_missing_repo(api: HfApi, anonymous: HfApi) -> None:
    with pytest.raises(RepositoryNotFoundError) as known:
        api.model_info("alice/nope")
    with pytest.raises(RepositoryNotFoundError) as unknown:
        anonymous.model_info("alice/nope")
    assert (status_of(known), status_of(unknown)) == (404, 401)


def test_a_private_repo_is_missing_to_others(api: HfApi, anonymous: HfApi, as_user) -> None:
    api.create_repo("alice/secret", private=True)
    assert api.model_info("alice/secret").private
    for other in (anonymous, as_user("hf_bob_write")):
        with pytest.raises(RepositoryNotFoundError):
            other.model_info("alice/secret")
    api.update_repo_settings("alice/secret", private=False)
    assert not anonymous.model_info("alice/secret").private


def test_a_wrong_token_is_not_a_missing_repo(filled: Filled, as_user) -> None:
    with pytest.raises(HfHubHTTPError) as refused:
        as_user("hf_wrong").model_info(filled.id)
    assert status_of(refused) == 401
    assert not isinstance(refused.value, RepositoryNotFoundError)
    assert "hf_wrong" not in str(refused.value)


def test_a_read_token_reads(filled: Filled, as_user) -> None:
    reader = as_user("hf_alice_read")
    assert reader.model_info(filled.id).sha == filled.commit
    reader.auth_check(filled.id)
    with pytest.raises(HfHubHTTPError) as checked:
        reader.auth_check(filled.id, write=True)
    with pytest.raises(HfHubHTTPError) as uploaded:
        upload(reader, filled.id)
    with pytest.raises(HfHubHTTPError) as created:
        reader.create_repo("alice/other")
    assert {status_of(checked), status_of(uploaded), status_of(created)} == {403}


def test_a_stranger_proposes_but_does_not_write(api: HfApi, filled: Filled, as_user) -> None:
    bob = as_user("hf_bob_write")
    assert upload(bob, filled.id, create_pr=True).pr_num == 1
    assert upload(bob, filled.id, revision="refs/pr/1").oid
    with pytest.raises(HfHubHTTPError) as refused:
        upload(bob, filled.id)
    assert status_of(refused) == 403
    api.create_pull_request(filled.id, "alice's")
    with pytest.raises(HfHubHTTPError) as foreign:
        upload(bob, filled.id, revision="refs/pr/2")
    assert status_of(foreign) == 403
    assert api.model_info(filled.id).sha == filled.commit


def test_a_gated_repo_shows_itself_but_not_its_files(api: HfApi, filled: Filled, as_user, tmp_path) -> None:
    bob = as_user("hf_bob_write")
    api.update_repo_settings(filled.id, gated="manual")
    assert bob.model_info(filled.id).gated == "manual"
    for other in (bob, as_user(False)):
        with pytest.raises(GatedRepoError):
            other.hf_hub_download(filled.id, "config.json", cache_dir=tmp_path)
        with pytest.raises(GatedRepoError):
            other.auth_check(filled.id)
    api.grant_access(filled.id, "bob")
    assert bob.hf_hub_download(filled.id, "config.json", cache_dir=tmp_path)


def test_a_scoped_token_writes_in_its_scope_only(api: HfApi, hub: LocalHub, filled: Filled, as_user) -> None:
    api.create_repo("alice/other")
    api.create_repo("alice/secret", private=True)
    hub.tokens["hf_scoped"] = Token("alice", repos=frozenset({filled.id}))
    scoped = as_user("hf_scoped")
    assert upload(scoped, filled.id).oid
    assert scoped.model_info("alice/other")
    with pytest.raises(HfHubHTTPError) as outside:
        upload(scoped, "alice/other")
    with pytest.raises(HfHubHTTPError) as created:
        scoped.create_repo("alice/third")
    assert {status_of(outside), status_of(created)} == {403}
    with pytest.raises(RepositoryNotFoundError):
        scoped.model_info("alice/secret")


def test_an_expired_token_is_a_wrong_one(hub: LocalHub, filled: Filled, as_user) -> None:
    hub.tokens["hf_old"] = Token("alice", expires=time.time() - 1)
    with pytest.raises(HfHubHTTPError) as refused:
        as_user("hf_old").whoami()
    assert status_of(refused) == 401


def test_no_token_gets_into_the_log(api: HfApi, hub: LocalHub, filled: Filled, http_request) -> None:
    upload(api, filled.id)
    http_request("GET", "/api/models/alice/x?token=hf_alice_write")
    assert "hf_alice_write" not in repr(hub.log)
    assert hub.requests(r"^GET /api/models/alice/x\?token=\*\*\*$")
    assert {entry.has_auth for entry in hub.requests("/commit/")} == {True}
