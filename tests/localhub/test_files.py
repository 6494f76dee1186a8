from __future__ import annotations

import hashlib

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import RemoteEntryNotFoundError
from huggingface_hub.hf_api import RepoFolder

from hubpublish.localhub import LocalHub
from hubpublish.localhub.api import files
from hubpublish.localhub.git import Change
from hubpublish.localhub.repo import MAIN

from .conftest import CARD, Filled


def test_model_info_with_hashes(api: HfApi, filled: Filled) -> None:
    info = api.model_info(filled.id, files_metadata=True, securityStatus=True)
    sizes = {sibling.rfilename: sibling for sibling in info.siblings}
    large, small = sizes["onnx/model.onnx"], sizes["config.json"]
    assert (large.lfs.sha256, large.size) == (hashlib.sha256(filled.model).hexdigest(), 200_000)
    git_id = hashlib.sha1(b"blob 8\0" + b'{"a": 1}').hexdigest()
    assert (small.lfs, small.size, small.blob_id) == (None, 8, git_id)


def test_model_info_reads_the_card(api: HfApi, filled: Filled) -> None:
    info = api.model_info(filled.id)
    assert info.card_data.base_model == "someone/model"
    assert info.library_name == "transformers.js"
    assert {"webgpu", "base_model:someone/model"} <= set(info.tags)


@pytest.mark.parametrize("card", ["a: [", "- a", "1: 2024-01-01\nbase_model: null\ntags: x"])
def test_a_card_that_was_pushed_past_the_check_harms_nothing(
    hub: LocalHub, api: HfApi, filled: Filled, card: str
) -> None:
    repo = hub.state.registry.get("model", filled.id)
    assert repo
    blob = repo.git.store_bytes(f"---\n{card}\n---\n".encode())
    commit = repo.git.commit([filled.commit], Change({"README.md": blob}), "card\n", "alice")
    repo.git.set_ref(MAIN, commit, filled.commit)
    assert api.model_info(filled.id).sha == commit


def test_paths_info(api: HfApi, filled: Filled) -> None:
    found = api.get_paths_info(filled.id, ["onnx/model.onnx", "onnx", "nope"])
    assert [type(entry).__name__ for entry in found] == ["RepoFile", "RepoFolder"]
    assert found[0].lfs.sha256 == hashlib.sha256(filled.model).hexdigest()
    expanded = api.get_paths_info(filled.id, ["config.json"], expand=True)[0]
    assert (expanded.last_commit.title, expanded.last_commit.oid) == ("first", filled.commit)
    assert expanded.security.safe


def test_paths_info_of_another_revision(api: HfApi, filled: Filled) -> None:
    api.delete_file("config.json", filled.id)
    assert not api.get_paths_info(filled.id, "config.json")
    assert api.get_paths_info(filled.id, "config.json", revision=filled.commit)


def test_tree(api: HfApi, filled: Filled) -> None:
    flat = {entry.path: entry for entry in api.list_repo_tree(filled.id)}
    assert set(flat) == {".gitattributes", "README.md", "config.json", "onnx"}
    assert isinstance(flat["onnx"], RepoFolder)
    deep = {entry.path for entry in api.list_repo_tree(filled.id, recursive=True, expand=True)}
    assert deep == {*flat, "onnx/model.onnx"}
    below = [entry.path for entry in api.list_repo_tree(filled.id, "onnx")]
    assert below == ["onnx/model.onnx"]
    with pytest.raises(RemoteEntryNotFoundError):
        list(api.list_repo_tree(filled.id, "nope"))


def test_tree_in_pages(api: HfApi, hub: LocalHub, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PAGE", 2)
    assert sorted(api.list_repo_files(filled.id)) == [
        ".gitattributes",
        "README.md",
        "config.json",
        "onnx/model.onnx",
    ]
    assert len(hub.requests("GET .*/tree/main")) == 3


@pytest.mark.parametrize("length", [40, 7])
def test_a_revision_may_be_a_commit(api: HfApi, filled: Filled, length: int) -> None:
    api.delete_file("config.json", filled.id)
    assert api.model_info(filled.id, revision=filled.commit[:length]).sha == filled.commit


def test_names_of_all_sorts(api: HfApi, filled: Filled, download) -> None:
    names = ["a b.txt", "ü/日本.txt", "100%.txt", "#?&+.txt", '"quoted".txt', "-dash", "*.glob", "[x].bin"]
    operations = [CommitOperationAdd(name, name.encode()) for name in names]
    api.create_commit(filled.id, operations, commit_message="names")
    assert set(names) <= set(api.list_repo_files(filled.id))
    for name in names:
        assert download(name) == name.encode()
        assert api.get_paths_info(filled.id, name, expand=True)[0].last_commit.title == "names"


def test_the_card_is_as_it_was_sent(download, filled: Filled) -> None:
    assert download("README.md") == CARD
