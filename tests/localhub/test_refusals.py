"""What is not well formed, or wants to lead out of the Hub's folder, changes nothing and is no bug."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import RevisionNotFoundError

from hubpublish.localhub import LocalHub

from .conftest import Filled, running_and_filled
from .test_commits import COMMIT, SIGNED_IN, ndjson, text


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


@pytest.mark.parametrize(
    "name", ["../up", "..", ".hidden", "a--b", "a..b", "x.git", "", "a/b", "a b", "-a", "x\n", "ü", "n" * 97]
)
def test_names_that_the_hub_does_not_take(hub: LocalHub, http_request, name: str) -> None:
    before = sorted(hub.state.root.parent.rglob("*"))
    reply = http_request(
        "POST", "/api/repos/create", json.dumps({"name": name}), Authorization="Bearer hf_alice_write"
    )
    assert reply.status == 400, reply.body
    assert sorted(hub.state.root.parent.rglob("*")) == before


@pytest.mark.parametrize("namespace", ["..", ".", "", "alice/..", "alice/../.."])
def test_a_namespace_is_no_way_out(http_request, namespace: str) -> None:
    body = json.dumps({"name": "x", "organization": namespace})
    reply = http_request("POST", "/api/repos/create", body, Authorization="Bearer hf_alice_write")
    assert reply.status in (200, 403)
    if reply.status == 200:
        assert json.loads(reply.body)["name"] == "alice/x"


@pytest.mark.parametrize(
    "path",
    ["../up.txt", "a/../../up.txt", ".git/config", "a/.GIT/hooks/x", "", ".", "a//b", "a\\b", "a\nb", "a\0b"],
)
def test_paths_that_cannot_be(http_request, api: HfApi, filled: Filled, path: str) -> None:
    reply = http_request("POST", COMMIT, ndjson(text(path)), **SIGNED_IN)
    assert (reply.status, b"Invalid path" in reply.body) == (400, True)
    assert api.model_info(filled.id).sha == filled.commit


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 400),
        ("no json\n", 400),
        ("[]\n", 400),
        (json.dumps({"key": "file", "value": {}}) + "\n", 400),
        (ndjson(summary=""), 400),
        (ndjson(("rename", {"path": "a"})), 400),
        (ndjson(("file", {"path": "a", "content": "%%%", "encoding": "base64"})), 400),
        (ndjson(text("config.json/below")), 400),
        (ndjson(text("onnx")), 400),
        (ndjson(text("a"), text("a/b")), 400),
        (ndjson(("lfsFile", {"path": "a", "algo": "sha256", "oid": "../../etc/passwd"})), 400),
        (ndjson(("lfsFile", {"path": "a", "algo": "sha256", "oid": "0" * 64})), 400),
        (ndjson(text("a"), parentCommit="0" * 40), 412),
    ],
)
def test_commits_that_are_refused(http_request, api: HfApi, filled: Filled, body: str, status: int) -> None:
    assert http_request("POST", COMMIT, body, **SIGNED_IN).status == status
    assert api.model_info(filled.id).sha == filled.commit


def test_a_large_file_must_go_to_lfs(http_request, filled: Filled) -> None:
    content = base64.b64encode(bytes(10 * 1024 * 1024)).decode()
    body = ndjson(("file", {"path": "big.txt", "content": content, "encoding": "base64"}))
    reply = http_request("POST", COMMIT, body, **SIGNED_IN)
    assert (reply.status, b"Use git-lfs" in reply.body) == (400, True)


@pytest.mark.parametrize(
    "revision", ["nope", "main~1", "main^{tree}", "-x", "a..b", "refs/../HEAD", "@{-1}", "a b"]
)
def test_revisions_that_are_none(api: HfApi, filled: Filled, revision: str) -> None:
    with pytest.raises(RevisionNotFoundError):
        api.model_info(filled.id, revision=revision)


@pytest.mark.parametrize(
    "path",
    [
        "/alice/target/resolve/main/../../../../../etc/passwd",
        "/alice/target/resolve/main/..%2f..%2f..%2fmeta.json",
        "/alice/target/resolve/main/%2e%2e/meta.json",
        "/alice/..%2falice%2ftarget/resolve/main/config.json",
        "/../../etc/passwd",
        "/_storage/..%2fmeta.json",
        "/..%2f..%2f/target/resolve/main/config.json",
        "/api/models/..%2f..%2fetc/passwd",
        "/api/models/alice/target/tree/main/..%2f..",
    ],
)
def test_paths_do_not_lead_out(http_request, filled: Filled, path: str) -> None:
    assert http_request("GET", path, Authorization="Bearer hf_alice_write").status == 404


@pytest.mark.parametrize("oid", ["../../../x", "0" * 63, "Z" * 64, "0" * 64 + "\n"])
def test_an_object_id_is_no_path(filled: Filled, http_request, oid: str) -> None:
    body = {"operation": "upload", "transfers": ["basic"], "objects": [{"oid": oid, "size": 1}]}
    for path in ("objects/batch", "verify"):
        document = json.dumps({**body, "oid": oid, "size": 1})
        target = f"/alice/target.git/info/lfs/{path}"
        assert http_request("POST", target, document, **SIGNED_IN).status == 400


def test_xet_is_refused_with_the_remedy(filled: Filled, http_request) -> None:
    reply = http_request("GET", "/api/models/alice/target/xet-write-token/main", **SIGNED_IN)
    assert (reply.status, b"HF_HUB_DISABLE_XET=1" in reply.body) == (501, True)


API = "/api/models/alice/target"
ODD_BODIES = (
    b"null",
    b"[]",
    b"\xff\xfe",
    b"{",
    b'{"name": {}, "organization": [], "type": 1, "fromRepo": 1, "toRepo": null, "tag": "\\u0000"}',
    b'{"operation": "upload", "transfers": null, "objects": [{"oid": 1, "size": "x"}], "size": -1}',
    b'{"files": [{"path": 1}], "parts": [{"partNumber": "x"}], "paths": 1, "gated": {}, "content": []}',
    b'{"summary": "x", "title": 1, "comment": {}, "status": [], "subject_token": 1, "startingPoint": {}}',
    b'{"key": "header", "value": {"summary": "x", "parentCommit": [1]}}\n{"key": 1, "value": {"path": "x"}}',
)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/repos/create"),
        ("DELETE", "/api/repos/delete"),
        ("POST", "/api/repos/move"),
        ("POST", "/api/validate-yaml"),
        ("POST", "/oauth/token"),
        ("PUT", f"{API}/settings"),
        ("POST", f"{API}/user-access-request/grant"),
        ("POST", f"{API}/paths-info/main"),
        ("POST", f"{API}/branch/a%00b"),
        ("DELETE", f"{API}/branch/a%00b"),
        ("POST", f"{API}/tag/main"),
        ("DELETE", f"{API}/tag/%ff"),
        ("POST", f"{API}/super-squash/nope"),
        ("POST", f"{API}/preupload/main"),
        ("POST", f"{API}/commit/main"),
        ("POST", f"{API}/discussions"),
        ("POST", f"{API}/discussions/1/comment"),
        ("POST", f"{API}/discussions/1/merge"),
        ("POST", f"{API}/discussions/999999999/status"),
        ("POST", "/alice/target.git/info/lfs/objects/batch"),
        ("POST", "/alice/target.git/info/lfs/verify"),
    ],
)
def test_odd_bodies_are_refused_and_no_bug(
    hub: LocalHub, api: HfApi, filled: Filled, http_request, method: str, path: str
) -> None:
    for body in ODD_BODIES:
        assert http_request(method, path, body, **SIGNED_IN).status < 500, body
    assert not hub.errors
    assert api.model_info(filled.id).sha == filled.commit
