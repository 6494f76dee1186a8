import pytest
from huggingface_hub import HfApi

from hubpublish.errors import HubError
from hubpublish.hub import connect
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    ensure_target,
    publish,
)
from tests.publish.publishing import MESSAGE, REPO, Stage, commits, error_of


def test_a_read_only_token_is_found_out_first(hub: LocalHub, api: HfApi, target: str) -> None:
    reader = connect(hub.endpoint, "hf_alice_read")
    for options in ({}, {"create": True}, {"as_pr": True}):
        error = error_of(lambda options=options: ensure_target(reader, target, **options))
        assert error.kind == "read_only_token"
    error = error_of(lambda: ensure_target(reader, "alice/new", create=True))
    assert error.kind == "read_only_token"
    assert not api.repo_exists("alice/new")
    assert commits(api) == ["initial commit"]


def test_a_read_only_token_at_the_commit(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    reader = connect(hub.endpoint, "hf_alice_read")
    assert error_of(lambda: publish(reader, target, staging(), MESSAGE)).kind == "read_only_token"
    assert commits(api) == ["initial commit"]


def test_somebody_elses_repo(hub: LocalHub, target: str) -> None:
    bob = connect(hub.endpoint, "hf_bob_write")
    assert error_of(lambda: ensure_target(bob, target)).kind == "forbidden"
    ensure_target(bob, target, as_pr=True)


def test_no_token_and_a_wrong_one(hub: LocalHub, target: str) -> None:
    assert error_of(lambda: ensure_target(connect(hub.endpoint, False), target)).kind == "unauthorized"
    before = len(hub.log)
    assert error_of(lambda: ensure_target(connect(hub.endpoint, None), target)).kind == "unauthorized"
    assert len(hub.log) == before
    wrong = connect(hub.endpoint, "hf_wrong")
    with pytest.raises(HubError) as caught:
        ensure_target(wrong, target)
    assert caught.value.kind == "unauthorized"


def test_a_missing_repo_is_created_only_on_demand(hub: LocalHub, api: HfApi, staging: Stage) -> None:
    error = error_of(lambda: ensure_target(api, REPO))
    assert error.kind == "repo_not_found"
    assert "create: true" in str(error.hint)
    assert not api.repo_exists(REPO)
    ensure_target(api, REPO, create=True, private=True)
    assert api.model_info(REPO).private
    ensure_target(api, REPO, create=True)
    assert publish(api, REPO, staging(), MESSAGE).changed
    assert len(hub.requests("POST /api/repos/create")) == 1
