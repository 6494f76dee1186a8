from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from hubpublish.localhub import LocalHub

from .conftest import Filled


def test_create_is_idempotent_only_when_asked(api: HfApi, hub: LocalHub) -> None:
    url = api.create_repo("alice/new")
    assert (url.repo_id, url.endpoint) == ("alice/new", hub.endpoint)
    assert api.create_repo("alice/new", exist_ok=True).repo_id == "alice/new"
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_repo("alice/new")
    assert refused.value.response.status_code == 409


def test_a_name_that_differs_in_case_only_is_taken(api: HfApi) -> None:
    api.create_repo("alice/new")
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_repo("alice/New")
    assert refused.value.response.status_code == 409


def test_create_in_the_namespaces_of_the_user_only(api: HfApi) -> None:
    assert api.create_repo("acme/shared").repo_id == "acme/shared"
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_repo("bob/stolen")
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("kind", ["dataset", "space", "kernel"])
def test_other_kinds_live_apart(api: HfApi, kind: str) -> None:
    api.create_repo("alice/same")
    extra = {"space_sdk": "static"} if kind == "space" else {}
    url = api.create_repo("alice/same", repo_type=kind, **extra)
    assert url.endswith(f"/{kind}s/alice/same")
    if kind != "kernel":
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id="alice/same", repo_type=kind)
        assert "x.txt" in api.list_repo_files("alice/same", repo_type=kind)
    assert "x.txt" not in api.list_repo_files("alice/same")


def test_a_new_repo_tracks_models_in_lfs(api: HfApi, hub: LocalHub) -> None:
    api.create_repo("alice/new")
    assert api.list_repo_files("alice/new") == [".gitattributes"]
    assert [commit.title for commit in api.list_repo_commits("alice/new")] == ["initial commit"]


def test_whoami(api: HfApi) -> None:
    me = api.whoami()
    assert me["name"] == "alice"
    assert [org["name"] for org in me["orgs"]] == ["acme"]
    assert me["auth"]["accessToken"]["role"] == "write"


def test_delete(api: HfApi, filled: Filled) -> None:
    assert api.repo_exists(filled.id)
    api.delete_repo(filled.id)
    assert not api.repo_exists(filled.id)
    api.create_repo(filled.id)
    assert api.list_repo_files(filled.id) == [".gitattributes"]


def test_list_shows_what_may_be_seen(api: HfApi, anonymous: HfApi) -> None:
    api.create_repo("alice/open")
    api.create_repo("alice/secret", private=True)
    api.create_repo("acme/open")
    assert {model.id for model in api.list_models(author="alice")} == {"alice/open", "alice/secret"}
    assert {model.id for model in anonymous.list_models(search="open")} == {"alice/open", "acme/open"}
    assert {model.id for model in anonymous.list_models(author="alice")} == {"alice/open"}


def test_a_moved_repo_is_found_under_its_old_name(api: HfApi, filled: Filled, download) -> None:
    api.move_repo(filled.id, "acme/moved")
    assert api.model_info(filled.id).id == "acme/moved"
    assert download("onnx/model.onnx", filled.id) == filled.model
    api.move_repo("acme/moved", "acme/again")
    api.create_repo("acme/moved")
    assert api.model_info(filled.id).id == "acme/again"
    api.create_repo(filled.id)
    assert api.model_info(filled.id).id == filled.id


def test_repos_outlive_the_hub(api: HfApi, hub: LocalHub, filled: Filled, tmp_path: Path) -> None:
    api.move_repo(filled.id, "alice/kept")
    api.create_pull_request("alice/kept", "to be kept")
    hub.stop()
    with LocalHub(tmp_path / "hub") as again:
        second = HfApi(endpoint=again.endpoint, token="hf_alice_write")
        assert second.model_info(filled.id).sha == filled.commit
        assert second.get_discussion_details("alice/kept", 1).title == "to be kept"
        copy = second.hf_hub_download("alice/kept", "onnx/model.onnx", cache_dir=tmp_path / "cache")
        assert Path(copy).read_bytes() == filled.model
