from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi, HfFileSystem, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, RemoteEntryNotFoundError, RevisionNotFoundError

from hubpublish.localhub import LocalHub

from .conftest import Filled, running_and_filled

MODEL = "/alice/target/resolve/main/onnx/model.onnx"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalHub, Filled]]:
    with running_and_filled(tmp_path_factory.mktemp("hub")) as both:
        yield both


@pytest.fixture
def hub(shared: tuple[LocalHub, Filled]) -> LocalHub:
    return shared[0]


@pytest.fixture
def filled(shared: tuple[LocalHub, Filled]) -> Filled:
    return shared[1]


def test_download_and_cache(api: HfApi, hub: LocalHub, filled: Filled, tmp_path: Path) -> None:
    first = api.hf_hub_download(filled.id, "onnx/model.onnx", cache_dir=tmp_path)
    assert Path(first).read_bytes() == filled.model
    assert Path(first).resolve().name == hashlib.sha256(filled.model).hexdigest()
    hub.log.clear()
    second = api.hf_hub_download(filled.id, "onnx/model.onnx", revision=filled.commit, cache_dir=tmp_path)
    assert (second, hub.log) == (first, [])


def test_snapshot(api: HfApi, filled: Filled, tmp_path: Path) -> None:
    folder = Path(api.snapshot_download(filled.id, cache_dir=tmp_path))
    assert {path.name for path in folder.iterdir()} == {".gitattributes", "README.md", "config.json", "onnx"}


def test_metadata(hub: LocalHub, filled: Filled) -> None:
    large = get_hf_file_metadata(hf_hub_url(filled.id, "onnx/model.onnx", endpoint=hub.endpoint))
    assert large.etag == hashlib.sha256(filled.model).hexdigest()
    assert (large.size, large.commit_hash) == (len(filled.model), filled.commit)
    small = get_hf_file_metadata(hf_hub_url(filled.id, "config.json", endpoint=hub.endpoint))
    assert (small.etag, small.size) == (hashlib.sha1(b'blob 8\0{"a": 1}').hexdigest(), 8)


def test_file_system(filled: Filled, hub: LocalHub, default_endpoint: None) -> None:
    files = HfFileSystem(endpoint=hub.endpoint, token="hf_alice_write", skip_instance_cache=True)
    assert files.cat(f"{filled.id}/config.json") == b'{"a": 1}'


def test_what_is_not_there(download, filled: Filled) -> None:
    with pytest.raises(RemoteEntryNotFoundError):
        download("nope.txt")
    with pytest.raises(RemoteEntryNotFoundError):
        download("onnx")
    with pytest.raises(RevisionNotFoundError):
        download("config.json", revision="nope")


def test_checksums(api: HfApi, filled: Filled, tmp_path: Path) -> None:
    api.snapshot_download(filled.id, local_dir=tmp_path / "copy")
    assert not api.verify_repo_checksums(filled.id, local_dir=tmp_path / "copy").mismatches
    (tmp_path / "copy/onnx/model.onnx").write_bytes(b"x")
    found = api.verify_repo_checksums(filled.id, local_dir=tmp_path / "copy").mismatches
    assert [mismatch["path"] for mismatch in found] == ["onnx/model.onnx"]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=100-", 100, 200_000),
        ("bytes=-7", 199_993, 200_000),
        ("bytes=199999-999999", 199_999, 200_000),
        ("bytes=-999999", 0, 200_000),
    ],
)
def test_ranges(http_request, filled: Filled, asked: str, start: int, end: int) -> None:
    reply = http_request("GET", MODEL, Range=asked)
    assert (reply.status, reply.body) == (206, filled.model[start:end])
    assert reply.headers["Content-Range"] == f"bytes {start}-{end - 1}/200000"


def test_a_range_of_a_small_file(http_request, filled: Filled) -> None:
    reply = http_request("GET", "/alice/target/resolve/main/config.json", Range="bytes=1-3")
    assert (reply.status, reply.body) == (206, b'"a"')


@pytest.mark.parametrize("asked", ["bytes=200000-", "bytes=5-4", "bytes=-0"])
def test_ranges_outside(http_request, filled: Filled, asked: str) -> None:
    reply = http_request("GET", MODEL, Range=asked)
    assert (reply.status, reply.headers["Content-Range"]) == (416, "bytes */200000")


@pytest.mark.parametrize("asked", ["bytes=-", "lines=1-2", "bytes=0-1,5-6", "bytes"])
def test_ranges_that_are_none_give_the_whole(http_request, filled: Filled, asked: str) -> None:
    reply = http_request("GET", MODEL, Range=asked)
    assert (reply.status, reply.body) == (200, filled.model)


def test_head_has_the_length_and_no_body(http_request, filled: Filled) -> None:
    reply = http_request("HEAD", MODEL)
    assert (reply.status, reply.headers["Content-Length"], reply.body) == (200, "200000", b"")


def test_who_has_it_is_not_sent_it_again(http_request, filled: Filled) -> None:
    etag = http_request("HEAD", MODEL).headers["ETag"]
    reply = http_request("GET", MODEL, If_None_Match=etag)
    assert (reply.status, reply.body) == (304, b"")


def test_raw_is_the_pointer(http_request, filled: Filled) -> None:
    pointer = http_request("GET", "/alice/target/raw/main/onnx/model.onnx").body.decode()
    assert f"oid sha256:{hashlib.sha256(filled.model).hexdigest()}\nsize 200000\n" in pointer


def test_a_page_of_another_origin_may_load(http_request, filled: Filled) -> None:
    reply = http_request("GET", MODEL, Origin="http://localhost:8000")
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert "X-Repo-Commit" in reply.headers["Access-Control-Expose-Headers"]


def test_a_page_of_another_origin_may_not_send_a_token(http_request, filled: Filled) -> None:
    reply = http_request(
        "OPTIONS", MODEL, Origin="http://localhost:8000", Access_Control_Request_Headers="range"
    )
    assert reply.status == 204
    allowed = reply.headers["Access-Control-Allow-Headers"].lower()
    assert "range" in allowed
    assert "authorization" not in allowed


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("config.json", "application/json"),
        ("x.html", "text/plain; charset=utf-8"),
        ("LICENSE", "application/octet-stream"),
    ],
)
def test_content_types(api: HfApi, http_request, filled: Filled, path: str, kind: str) -> None:
    api.create_repo("alice/types", exist_ok=True)
    api.upload_file(path_or_fileobj=b"<b>", path_in_repo=path, repo_id="alice/types")
    assert http_request("GET", f"/alice/types/resolve/main/{path}").headers["Content-Type"] == kind


def test_a_pointer_to_nothing_is_missing(hub: LocalHub) -> None:
    api = HfApi(endpoint=hub.endpoint, token="hf_alice_write")
    api.create_repo("alice/pointer")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 5\n"
    api.upload_file(path_or_fileobj=pointer.encode(), path_in_repo="a.json", repo_id="alice/pointer")
    with pytest.raises(HfHubHTTPError) as caught:
        get_hf_file_metadata(hf_hub_url("alice/pointer", "a.json", endpoint=hub.endpoint))
    assert caught.value.response.status_code == 404
