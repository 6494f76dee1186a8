from __future__ import annotations

import json

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

from hubpublish.localhub import LocalHub
from hubpublish.localhub.api import history

from .conftest import Filled


def test_tags(api: HfApi, filled: Filled) -> None:
    api.create_tag(filled.id, tag="v1", tag_message="first release")
    api.delete_file("config.json", filled.id)
    [tag] = api.list_repo_refs(filled.id).tags
    assert (tag.name, tag.ref, tag.target_commit) == ("v1", "refs/tags/v1", filled.commit)
    assert api.model_info(filled.id, revision="v1").sha == filled.commit
    with pytest.raises(HfHubHTTPError) as taken:
        api.create_tag(filled.id, tag="v1")
    assert taken.value.response.status_code == 409
    api.create_tag(filled.id, tag="v1", exist_ok=True)
    api.delete_tag(filled.id, tag="v1")
    assert not api.revision_exists(filled.id, "v1")
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(filled.id, tag="v1")


def test_tag_of_a_revision(api: HfApi, filled: Filled) -> None:
    initial = api.list_repo_commits(filled.id)[1].commit_id
    api.create_tag(filled.id, tag="zero", revision=initial)
    assert api.model_info(filled.id, revision="zero").sha == initial
    with pytest.raises(RevisionNotFoundError):
        api.create_tag(filled.id, tag="none", revision="nope")


def test_branches(api: HfApi, filled: Filled) -> None:
    api.create_branch(filled.id, branch="feature/x")
    api.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=filled.id, revision="feature/x")
    assert "x" in api.list_repo_files(filled.id, revision="feature/x")
    assert "x" not in api.list_repo_files(filled.id)
    assert {branch.name for branch in api.list_repo_refs(filled.id).branches} == {"main", "feature/x"}
    with pytest.raises(HfHubHTTPError) as taken:
        api.create_branch(filled.id, branch="feature/x")
    assert taken.value.response.status_code == 409
    api.delete_branch(filled.id, branch="feature/x")
    assert not api.revision_exists(filled.id, "feature/x")


def test_the_default_branch_stays(api: HfApi, filled: Filled) -> None:
    with pytest.raises(HfHubHTTPError) as refused:
        api.delete_branch(filled.id, branch="main")
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("name", ["a..b", "x.lock", "a b", "x~1", "@{"])
def test_names_that_git_does_not_take(api: HfApi, filled: Filled, name: str) -> None:
    with pytest.raises(HfHubHTTPError) as branch:
        api.create_branch(filled.id, branch=name)
    with pytest.raises(HfHubHTTPError) as tag:
        api.create_tag(filled.id, tag=name)
    assert (branch.value.response.status_code, tag.value.response.status_code) == (400, 400)


def test_pull_requests_among_the_refs_when_asked(api: HfApi, filled: Filled) -> None:
    api.create_pull_request(filled.id, "empty")
    assert api.list_repo_refs(filled.id).pull_requests is None
    [ref] = api.list_repo_refs(filled.id, include_pull_requests=True).pull_requests
    assert (ref.ref, ref.target_commit) == ("refs/pr/1", filled.commit)


def test_squash(api: HfApi, filled: Filled, download) -> None:
    api.super_squash_history(filled.id, commit_message="all of it")
    [only] = api.list_repo_commits(filled.id)
    assert only.title == "all of it"
    assert download("onnx/model.onnx") == filled.model


def test_commits_in_pages(hub: LocalHub, api: HfApi, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "COMMITS_PAGE", 2)
    for number in range(3):
        api.upload_file(path_or_fileobj=b"%d" % number, path_in_repo="n", repo_id=filled.id)
    before = len(hub.log)
    assert len({each.commit_id for each in api.list_repo_commits(filled.id)}) == 5
    paths = [entry.path for entry in hub.log[before:]]
    assert paths == [f"/api/models/{filled.id}/commits/main{query}" for query in ("", "?p=1", "?p=2")]


def test_commits_of_any_page(http_request, api: HfApi, filled: Filled) -> None:
    path = f"/api/models/{filled.id}/commits/main"
    newest, oldest = (each.commit_id for each in api.list_repo_commits(filled.id))
    for query, found, more in (
        ("limit=1", [newest], True),
        ("limit=1&p=1", [oldest], False),
        ("limit=0", [newest, oldest], False),
        ("p=99999999999999999999&limit=1000", [], False),
    ):
        answer = http_request("GET", f"{path}?{query}")
        assert [each["id"] for each in json.loads(answer.body)] == found
        assert ("Link" in answer.headers) == more
    assert http_request("GET", f"{path}?p=x").status == 400
