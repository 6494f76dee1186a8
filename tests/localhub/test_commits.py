from __future__ import annotations

import hashlib
import json
import threading

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError, RemoteEntryNotFoundError

from hubpublish.localhub import LocalHub

from .conftest import Filled

COMMIT = "/api/models/alice/target/commit/main"
SIGNED_IN = {"Authorization": "Bearer hf_alice_write"}


def ndjson(*operations: tuple[str, dict[str, object]], **header: object) -> str:
    lines = [("header", {"summary": "x", "description": "", **header}), *operations]
    return "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in lines)


def text(path: str, content: str = "x") -> tuple[str, dict[str, object]]:
    return "file", {"path": path, "content": content, "encoding": "utf-8"}


def test_one_commit_for_all_files(api: HfApi, filled: Filled) -> None:
    newest, oldest = api.list_repo_commits(filled.id)
    assert (newest.commit_id, newest.title, newest.message) == (filled.commit, "first", "with a body")
    assert newest.authors == ["alice"]
    assert oldest.title == "initial commit"


def test_the_commit_url_leads_to_the_commit(hub: LocalHub, api: HfApi, filled: Filled) -> None:
    info = api.create_commit(filled.id, [CommitOperationAdd("x", b"x")], commit_message="m")
    assert info.commit_url == f"{hub.endpoint}/{filled.id}/commit/{info.oid}"
    assert info.repo_url.repo_id == filled.id


def test_the_same_content_again_is_no_commit(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    operations = [
        CommitOperationAdd("onnx/model.onnx", filled.model),
        CommitOperationAdd("config.json", b'{"a": 1}'),
    ]
    assert api.create_commit(filled.id, operations, commit_message="again").oid == filled.commit
    assert not hub.requests("/commit/main")
    assert not hub.requests("^PUT ")


def test_a_stale_parent_is_412(api: HfApi, filled: Filled) -> None:
    initial = api.list_repo_commits(filled.id)[1].commit_id
    with pytest.raises(HfHubHTTPError) as refused:
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=filled.id, parent_commit=initial)
    assert refused.value.response.status_code == 412
    assert "commit has happened since" in str(refused.value)
    assert api.model_info(filled.id).sha == filled.commit


def test_of_concurrent_commits_on_one_parent_one_wins(api: HfApi, filled: Filled) -> None:
    outcomes: list[int] = []

    def commit(number: int) -> None:
        operation = CommitOperationAdd(f"{number}.txt", b"%d" % number)
        try:
            api.create_commit(filled.id, [operation], commit_message="race", parent_commit=filled.commit)
            outcomes.append(200)
        except HfHubHTTPError as error:
            outcomes.append(error.response.status_code)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [200, 412, 412, 412, 412]
    assert [item.title for item in api.list_repo_commits(filled.id)].count("race") == 1


def test_concurrent_commits_without_a_parent_all_land(api: HfApi, filled: Filled) -> None:
    def commit(number: int) -> None:
        operation = CommitOperationAdd(f"{number}.txt", b"%d" % number)
        api.create_commit(filled.id, [operation], commit_message="race")

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"{number}.txt" for number in range(4)} <= set(api.list_repo_files(filled.id))


def test_delete_files_and_folders(api: HfApi, filled: Filled) -> None:
    added = [CommitOperationAdd(path, path.encode()) for path in ("old/a.txt", "old/deep/b.txt", "z.txt")]
    api.create_commit(filled.id, added, commit_message="add")
    gone = [CommitOperationDelete("old/"), CommitOperationDelete("z.txt")]
    api.create_commit(filled.id, gone, commit_message="delete")
    assert set(api.list_repo_files(filled.id)) == {
        ".gitattributes",
        "README.md",
        "config.json",
        "onnx/model.onnx",
    }


@pytest.mark.parametrize("path", ["nope.txt", "nope/"])
def test_deleting_what_is_not_there_is_404(api: HfApi, filled: Filled, path: str) -> None:
    operations = [CommitOperationDelete(path), CommitOperationAdd("x.txt", b"x")]
    with pytest.raises(RemoteEntryNotFoundError):
        api.create_commit(filled.id, operations, commit_message="delete")
    assert api.model_info(filled.id).sha == filled.commit


def test_replace_a_folder_by_a_file_in_one_commit(api: HfApi, filled: Filled, download) -> None:
    operations = [CommitOperationDelete("onnx/"), CommitOperationAdd("onnx", b"now a file")]
    api.create_commit(filled.id, operations, commit_message="replace")
    assert download("onnx") == b"now a file"


def test_copy(api: HfApi, filled: Filled, download) -> None:
    operations = [
        CommitOperationCopy("onnx/model.onnx", "copy.onnx"),
        CommitOperationCopy("config.json", "copy.json"),
    ]
    api.create_commit(filled.id, operations, commit_message="copy")
    assert (
        api.get_paths_info(filled.id, "copy.onnx")[0].lfs.sha256 == hashlib.sha256(filled.model).hexdigest()
    )
    assert download("copy.json") == b'{"a": 1}'


def test_copy_of_an_older_revision_restores_it(api: HfApi, filled: Filled, download) -> None:
    changed = [CommitOperationAdd("config.json", b"{}"), CommitOperationAdd("onnx/model.onnx", b"other")]
    api.create_commit(filled.id, changed, commit_message="change")
    restored = [
        CommitOperationCopy(path, path, src_revision=filled.commit)
        for path in ("config.json", "onnx/model.onnx")
    ]
    api.create_commit(filled.id, restored, commit_message="rollback")
    assert download("config.json") == b'{"a": 1}'
    assert download("onnx/model.onnx") == filled.model


def test_upload_folder_with_patterns_to_delete(api: HfApi, filled: Filled, tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "new.txt").write_text("new")
    api.upload_folder(repo_id=filled.id, folder_path=tmp_path / "folder", delete_patterns="*")
    assert set(api.list_repo_files(filled.id)) == {".gitattributes", "new.txt"}


def test_gitignored_files_stay_away(api: HfApi, filled: Filled) -> None:
    api.upload_file(path_or_fileobj=b"*.log\ncache/\n", path_in_repo=".gitignore", repo_id=filled.id)
    paths = ("a.log", "cache/b.txt", "kept.txt")
    operations = [CommitOperationAdd(path, path.encode()) for path in paths]
    api.create_commit(filled.id, operations, commit_message="some")
    assert set(paths) & set(api.list_repo_files(filled.id)) == {"kept.txt"}


def test_a_chunked_body(http_request, api: HfApi, filled: Filled) -> None:
    body = ndjson(text("chunked.txt", "content")).encode()
    pieces = (body[at : at + 7] for at in range(0, len(body), 7))
    assert http_request("POST", COMMIT, pieces, **SIGNED_IN).status == 200
    assert "chunked.txt" in api.list_repo_files(filled.id)
