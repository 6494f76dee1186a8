from __future__ import annotations

import hashlib
import os

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from hubpublish.localhub import LocalHub

from .conftest import Filled


def uploaded(hub: LocalHub) -> list[int]:
    return [entry.request_bytes for entry in hub.requests("^PUT ")]


def test_large_files_go_through_storage_without_the_token(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    api.upload_file(path_or_fileobj=os.urandom(50_000), path_in_repo="m.onnx", repo_id=filled.id)
    [put] = hub.requests("^PUT ")
    assert (put.request_bytes, put.has_auth) == (50_000, False)


def test_what_is_there_already_is_not_sent_again(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    api.create_repo("alice/other")
    api.upload_file(path_or_fileobj=filled.model, path_in_repo="m.onnx", repo_id="alice/other")
    assert not uploaded(hub)
    assert api.get_paths_info("alice/other", "m.onnx")[0].lfs


@pytest.mark.parametrize(
    ("path", "content", "lfs"),
    [
        ("a.onnx", b"text", True),
        ("a.txt", b"text", False),
        ("a.txt", "ü".encode() * 1000, False),
        ("a.txt", b"x" + "ü".encode() * 1000, False),
        ("a.txt", "日本".encode() * 1000, False),
        ("a.txt", b"\xff\xfe", True),
        ("a.dat", b"\0binary", True),
        ("a.onnx", b"", False),
    ],
)
def test_what_goes_to_lfs(api: HfApi, filled: Filled, download, path: str, content: bytes, lfs: bool) -> None:
    api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=filled.id)
    assert bool(api.get_paths_info(filled.id, path)[0].lfs) == lfs
    assert download(path) == content


def test_large_text_goes_to_lfs_and_is_tracked(api: HfApi, filled: Filled, download) -> None:
    api.upload_file(path_or_fileobj=b"a" * (11 << 20), path_in_repo="some dir/big.txt", repo_id=filled.id)
    assert api.get_paths_info(filled.id, "some dir/big.txt")[0].lfs
    assert b"some[[:space:]]dir/big.txt filter=lfs" in download(".gitattributes")
    api.upload_file(path_or_fileobj=b"small", path_in_repo="some dir/big.txt", repo_id=filled.id)
    assert api.get_paths_info(filled.id, "some dir/big.txt")[0].lfs


def test_parts(api: HfApi, hub: LocalHub, filled: Filled, download) -> None:
    hub.lfs_part_size = 60_000
    content = os.urandom(200_001)
    api.upload_file(path_or_fileobj=content, path_in_repo="parts.bin", repo_id=filled.id)
    assert uploaded(hub) == [60_000, 60_000, 60_000, 20_001]
    assert download("parts.bin") == content
    assert not [path for path in (hub.state.root / "uploads").rglob("*") if path.is_file()]


def test_a_lost_answer_to_the_last_step_of_parts_is_no_loss(
    api: HfApi, hub: LocalHub, filled: Filled, download
) -> None:
    hub.lfs_part_size = 60_000
    hub.fault("POST /_storage/.*/complete", "drop_response")
    content = os.urandom(130_000)
    api.upload_file(path_or_fileobj=content, path_in_repo="parts.bin", repo_id=filled.id)
    assert [entry.status for entry in hub.requests("/complete")] == [200, 200]
    assert download("parts.bin") == content


def test_a_file_is_hashed_as_it_comes(hub: LocalHub, api: HfApi, filled: Filled, http_request) -> None:
    oid = hashlib.sha256(b"announced").hexdigest()
    target = hub.state.signed("", f"/_storage/{oid}")
    reply = http_request("PUT", target, b"something else")
    assert (reply.status, b"BadDigest" in reply.body) == (400, True)
    assert hub.state.lfs.size(oid) is None
    assert not list((hub.state.root / "uploads").iterdir())


def test_storage_takes_nothing_that_was_not_agreed_upon(hub: LocalHub, filled: Filled, http_request) -> None:
    oid = hashlib.sha256(filled.model).hexdigest()
    other = hub.state.signed("", f"/_storage/{'0' * 64}")
    assert http_request("GET", hub.state.signed("", f"/_storage/{oid}")).body == filled.model
    for target in (f"/_storage/{oid}", f"/_storage/{oid}?sig=0", other.replace("0" * 64, oid)):
        assert http_request("PUT", target, b"x").status == 403
        assert http_request("GET", target).status == 403


def test_an_upload_that_did_not_arrive_is_not_committed(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    hub.fault("^PUT ", "status", status=403, body="denied")
    with pytest.raises(RuntimeError, match="Error while uploading") as failed:
        api.upload_file(path_or_fileobj=os.urandom(5000), path_in_repo="x.bin", repo_id=filled.id)
    assert isinstance(failed.value.__cause__, HfHubHTTPError)
    assert api.model_info(filled.id).sha == filled.commit


def test_the_storage_of_a_real_hub_is_another_origin(tmp_path) -> None:
    with LocalHub(tmp_path / "hub", separate_cdn=True) as hub:
        api = HfApi(endpoint=hub.endpoint, token="hf_alice_write")
        api.create_repo("alice/cdn")
        content = os.urandom(100_000)
        api.upload_file(path_or_fileobj=content, path_in_repo="m.onnx", repo_id="alice/cdn")
        copy = api.hf_hub_download("alice/cdn", "m.onnx", cache_dir=tmp_path / "cache")
        with open(copy, "rb") as file:
            assert file.read() == content
        fetched = hub.requests("GET /_storage/")
        assert [(entry.status, entry.has_auth) for entry in fetched] == [(200, False)]
        assert [entry.status for entry in hub.requests("HEAD .*/resolve/")] == [302]
        assert not hub.errors
