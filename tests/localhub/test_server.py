from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import HfApi

from hubpublish.errors import UsageError
from hubpublish.localhub import LocalHub, Token

from .conftest import Filled

SERVE = "import sys; from hubpublish.localhub import serve; serve(sys.argv[1], int(sys.argv[2]))"


def ask_again(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/")
    connection.getresponse()


def test_only_this_machine_reaches_it(hub: LocalHub) -> None:
    assert hub.endpoint.startswith("http://127.0.0.1:")


def test_no_endpoint_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = LocalHub(tmp_path).endpoint


def test_stop_is_final_for_open_connections(tmp_path: Path) -> None:
    with LocalHub(tmp_path) as hub:
        connection = http.client.HTTPConnection(hub.endpoint.removeprefix("http://"), timeout=30)
        connection.request("GET", "/")
        assert connection.getresponse().read()
    with pytest.raises(ConnectionError):
        ask_again(connection)
    assert not hub.errors


def test_start_and_stop_twice(tmp_path: Path) -> None:
    hub = LocalHub(tmp_path)
    assert hub.start().start() is hub
    first = hub.endpoint
    hub.stop()
    hub.stop()
    hub.start()
    assert httpx2.get(hub.endpoint).status_code == 200
    hub.stop()
    assert first.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken(hub: LocalHub, tmp_path: Path) -> None:
    port = int(hub.endpoint.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"port {port} cannot be used") as error:
        LocalHub(tmp_path / "other", port=port).start()
    assert error.value.hint


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_cannot_be(tmp_path: Path, port: int) -> None:
    with pytest.raises(UsageError, match=f"port {port} cannot be used"):
        LocalHub(tmp_path, port=port).start()


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot keep its files there") as error:
        LocalHub(tmp_path / "file")
    assert error.value.where == str(tmp_path / "file")


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs git"):
        LocalHub(tmp_path)


def test_the_users_git_configuration_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgSign = true\n[broken\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere"))
    with LocalHub(tmp_path / "hub") as hub:
        api = HfApi(endpoint=hub.endpoint, token="hf_alice_write")
        api.create_repo("alice/x")
        api.upload_file(path_or_fileobj=b"a\r\nb\n", path_in_repo="x.txt", repo_id="alice/x")
        copy = api.hf_hub_download("alice/x", "x.txt", cache_dir=tmp_path / "cache")
        assert Path(copy).read_bytes() == b"a\r\nb\n"


def test_own_users(tmp_path: Path) -> None:
    tokens, members = {"hf_carol": Token("carol")}, {"carol": frozenset({"team"})}
    with LocalHub(tmp_path, tokens=tokens, organizations=members) as hub:
        assert HfApi(endpoint=hub.endpoint, token="hf_carol").create_repo("team/x").repo_id == "team/x"
        assert "hf_alice_write" not in hub.tokens


def test_a_bug_shows(hub: LocalHub, filled: Filled, http_request) -> None:
    shutil.rmtree(hub.state.root / "models/alice/target/git")
    reply = http_request("GET", "/api/models/alice/target/refs", Authorization="Bearer hf_alice_write")
    assert (reply.status, b"bug in the local Hub: GitError" in reply.body) == (500, True)
    assert len(hub.errors) == 1
    assert "GitError" in hub.errors[0]
    assert "hf_alice_write" not in hub.errors[0]
    hub.errors.clear()


def test_what_it_does_not_do_is_404(http_request) -> None:
    for method, path in (("GET", "/api/nothing/at/all"), ("PATCH", "/api/whoami-v2"), ("PUT", "/")):
        reply = http_request(method, path)
        assert (reply.status, f"{method} {path}".encode() in reply.body) == (404, True)


def test_a_connection_outlives_a_refusal_of_a_large_body(hub: LocalHub, filled: Filled) -> None:
    connection = http.client.HTTPConnection(hub.endpoint.removeprefix("http://"), timeout=30)
    connection.request("POST", "/api/models/alice/target/commit/main", body=bytes(5 << 20))
    refused = connection.getresponse()
    assert (refused.status, refused.read()) == (401, b'{"error": "Invalid username or password."}')
    connection.request("GET", "/api/models/alice/target/refs")
    assert connection.getresponse().status == 200
    connection.close()
    assert hub.requests("POST .*/commit/main")[-1].request_bytes == 5 << 20


@pytest.mark.parametrize(
    "head",
    [
        b"POST /api/repos/create HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/repos/create HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /api/validate-yaml HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /api/validate-yaml HTTP/1.1\r\nContent-Length: 100\r\n\r\nshort",
        b"GARBAGE\r\n\r\n",
        b"",
    ],
)
def test_who_does_not_speak_http_is_cut_off(hub: LocalHub, head: bytes) -> None:
    address = ("127.0.0.1", int(hub.endpoint.rpartition(":")[2]))
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(head)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert httpx2.get(hub.endpoint).status_code == 200


def test_large_files_are_not_held_in_memory(hub: LocalHub, api: HfApi, tmp_path: Path) -> None:
    size = 48 << 20
    api.create_repo("alice/large")
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        api.upload_file(path_or_fileobj=tmp_path / "large.bin", path_in_repo="l.bin", repo_id="alice/large")
        api.hf_hub_download("alice/large", "l.bin", local_dir=tmp_path / "copy")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert os.stat(tmp_path / "copy/l.bin").st_size == size
    # The client reads in blocks of 10 MiB, in this process too.
    assert peak < size


def test_pages_for_people(api: HfApi, hub: LocalHub, filled: Filled, http_request) -> None:
    api.create_repo("alice/secret", private=True)
    api.create_pull_request(filled.id, "<script>", description="<i>text</i>")
    home = http_request("GET", "/").body.decode()
    assert '<a href="/alice/target">' in home
    assert "secret" not in home
    page = http_request("GET", "/alice/target").body.decode()
    assert "/alice/target/resolve/main/onnx/model.onnx" in page
    assert "<script>" not in page
    assert "&lt;i&gt;text" in http_request("GET", "/alice/target/discussions/1").body.decode()
    assert "config.json" in http_request("GET", f"/alice/target/commit/{filled.commit}").body.decode()
    assert http_request("GET", "/alice/secret").status == 401


def test_the_hub_of_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, str(tmp_path / "hub"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        first = process.stdout.readline()
        endpoint = first.split()[3]
        assert httpx2.get(endpoint).status_code == 200
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert (process.returncode, "Stopped." in rest) == (0, True)


def test_the_clients_command_line_in_a_keyless_job(
    hub: LocalHub, api: HfApi, filled: Filled, tmp_path: Path
) -> None:
    job = "repo:alice/publish:ref:refs/heads/main"
    hub.publishers[filled.id] = job
    (tmp_path / "cli.txt").write_text("cli")
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.endpoint,
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_URL": hub.identity_url,
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": job,
        "HF_OIDC_RESOURCE": filled.id,
    }
    hf = Path(sys.executable).with_name("hf")
    command = [str(hf), "upload", filled.id, str(tmp_path / "cli.txt"), "cli.txt"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cli.txt" in api.list_repo_files(filled.id)
