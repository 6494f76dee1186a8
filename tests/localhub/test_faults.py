from __future__ import annotations

import http.client
import os
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError

from hubpublish.localhub import LocalHub

from .conftest import Filled

GET_MODEL = r"^GET /.*/resolve/.*model\.onnx"
COMMIT = r"^POST .*/commit/"


def upload(api: HfApi, content: bytes, path: str = "x.txt", **options: object) -> object:
    operations = [CommitOperationAdd(path, content)]
    return api.create_commit("alice/target", operations, commit_message="x", **options)


def test_truncate_makes_the_client_resume(api: HfApi, hub: LocalHub, download) -> None:
    api.create_repo("alice/target")
    content = os.urandom(12 << 20)
    upload(api, content, "model.onnx")
    fault = hub.fault(GET_MODEL, "truncate", after=11 << 20)
    assert download("model.onnx") == content
    assert fault.fired == 1
    got = [(entry.range, entry.status, entry.fault) for entry in hub.requests(GET_MODEL)]
    assert got == [(None, 200, "truncate"), (f"bytes={10 << 20}-", 206, None)]


def test_truncate_without_a_length_takes_half(hub: LocalHub, filled: Filled) -> None:
    hub.fault(GET_MODEL, "truncate")
    connection = http.client.HTTPConnection(hub.endpoint.removeprefix("http://"), timeout=30)
    connection.request("GET", f"/{filled.id}/resolve/main/onnx/model.onnx")
    with pytest.raises(http.client.IncompleteRead) as ended:
        connection.getresponse().read()
    connection.close()
    assert ended.value.partial == filled.model[:100_000]


def test_corrupt_is_of_the_right_size_and_stays_in_the_cache(hub: LocalHub, filled: Filled, download) -> None:
    hub.fault(GET_MODEL, "corrupt")
    wrong = download("onnx/model.onnx")
    assert (wrong[:-1], wrong[-1]) == (filled.model[:-1], filled.model[-1] ^ 0xFF)
    assert download("onnx/model.onnx") == wrong
    assert download("onnx/model.onnx", force_download=True) == filled.model


def test_corrupt_of_a_small_answer(hub: LocalHub, filled: Filled, download) -> None:
    hub.fault("GET .*/config.json", "corrupt")
    assert download("config.json") == b'{"a": 1\x82'


def test_status_with_message_and_headers(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    hub.fault("GET /api/models/alice", "status", status=418, body="out of tea", headers={"X-Kind": "pot"})
    with pytest.raises(HfHubHTTPError, match="out of tea") as refused:
        api.model_info(filled.id)
    assert refused.value.response.status_code == 418
    assert refused.value.response.headers["X-Kind"] == "pot"
    assert api.model_info(filled.id)


def test_reads_of_metadata_are_retried(hub: LocalHub, filled: Filled, download) -> None:
    hub.fault("^HEAD .*/resolve/", "status")
    assert download("onnx/model.onnx") == filled.model
    assert [entry.status for entry in hub.requests("^HEAD ")] == [503, 200]


def test_a_download_that_is_refused_is_not_retried(hub: LocalHub, filled: Filled, download) -> None:
    hub.fault(GET_MODEL, "status", status=503)
    with pytest.raises(HfHubHTTPError):
        download("onnx/model.onnx")


def test_a_commit_is_not_retried(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    hub.fault(COMMIT, "status", status=503)
    with pytest.raises(HfHubHTTPError):
        upload(api, b"x")
    assert api.model_info(filled.id).sha == filled.commit


def test_a_lost_answer_to_a_commit_that_happened(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    hub.fault(COMMIT, "drop_response")
    with pytest.raises(httpx2.TransportError):
        upload(api, b"lost", parent_commit=filled.commit)
    head = api.model_info(filled.id).sha
    assert head != filled.commit
    assert upload(api, b"lost", parent_commit=filled.commit).oid == head


def test_reset_comes_before_the_work(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    hub.fault(COMMIT, "reset")
    with pytest.raises(httpx2.TransportError):
        upload(api, b"x")
    assert api.model_info(filled.id).sha == filled.commit
    assert [entry.status for entry in hub.requests(COMMIT)][-1] == 0


def test_uploads_of_large_files_are_retried(api: HfApi, hub: LocalHub, filled: Filled, download) -> None:
    hub.fault("^PUT ", "reset")
    content = os.urandom(50_000)
    upload(api, content, "x.bin")
    assert [entry.status for entry in hub.requests("^PUT ")] == [0, 200]
    assert download("x.bin") == content


def test_rate_limits(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    headers = {
        "RateLimit": '"api";r=0;t=0',
        "RateLimit-Policy": '"fixed window";"api";q=500;w=300',
    }
    hub.fault("POST .*/preupload/", "status", status=429, headers=headers)
    assert upload(api, b"x").oid
    assert [entry.status for entry in hub.requests("/preupload/")][-2:] == [429, 200]


def test_slow_is_whole(hub: LocalHub, filled: Filled, download) -> None:
    hub.fault(GET_MODEL, "slow", delay=0.001)
    assert download("onnx/model.onnx") == filled.model


def test_hang_until_the_client_gives_up(hub: LocalHub, filled: Filled) -> None:
    hub.fault("GET /api/models/alice/target$", "hang", seconds=60)
    url = f"{hub.endpoint}/api/models/alice/target"
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.get(url, timeout=0.3)
    assert httpx2.get(url, timeout=30).status_code == 200


def test_a_hang_ends_with_the_hub(tmp_path: Path) -> None:
    with LocalHub(tmp_path) as hub:
        hub.fault(".", "hang", seconds=3600)
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.get(hub.endpoint, timeout=0.1)
    assert [(entry.status, entry.fault) for entry in hub.log] == [(0, "hang")]


def test_skip_and_times(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    fault = hub.fault("GET /api/models/", "status", times=2, skip=1, status=500)
    statuses = [httpx2.get(f"{hub.endpoint}/api/models/alice/target").status_code for _ in range(5)]
    assert statuses == [200, 500, 500, 200, 200]
    assert (fault.fired, fault.times) == (2, 0)


def test_for_ever_until_taken_out(hub: LocalHub, filled: Filled) -> None:
    hub.fault("GET /api/models/", "status", times=None)
    url = f"{hub.endpoint}/api/models/alice/target"
    assert [httpx2.get(url).status_code for _ in range(3)] == [503] * 3
    hub.faults.clear()
    assert httpx2.get(url).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action": "explode"}, "unknown action 'explode'"),
        ({"action": "reset", "after": 1}, "reset has no option 'after'"),
        ({"action": "status", "code": 500}, "status has no option 'code'"),
        ({"action": "status", "status": "500"}, "must be an HTTP status"),
        ({"action": "status", "headers": {"a": 1}}, "must be a mapping of strings"),
        ({"action": "truncate", "after": -1}, "must be a number of bytes"),
        ({"action": "hang", "seconds": "x"}, "must be seconds"),
        ({"action": "reset", "times": 0}, "times=0"),
        ({"action": "reset", "skip": -1}, "skip=-1"),
        ({"action": "reset", "pattern": "("}, "no regular expression"),
    ],
)
def test_rules_that_make_no_sense(hub: LocalHub, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hub.fault(**{"pattern": ".", **arguments})
    assert not hub.faults
