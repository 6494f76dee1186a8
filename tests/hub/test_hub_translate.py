import errno
import traceback

import httpx2
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    FileMetadataError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    OIDCError,
)
from huggingface_hub.utils._http import hf_raise_for_status

from hubpublish.errors import HubError, SourceError
from hubpublish.hub import connect, translated
from hubpublish.localhub import LocalHub

URL = "https://hub.example/api/models/alice/x/revision/main?token=hf_secretsecretsecretsecret"


def answer(status: int, code: str | None = None, message: str = "", **headers: str) -> httpx2.Response:
    if code:
        headers["X-Error-Code"] = code
    if message:
        headers["X-Error-Message"] = message
    return httpx2.Response(status, headers=headers, request=httpx2.Request("GET", URL))


def kind_of(error: Exception) -> HubError:
    with pytest.raises(HubError) as caught, translated(HubError, "read the target", repo="alice/x"):
        raise error
    return caught.value


def raised(response: httpx2.Response) -> HubError:
    with pytest.raises(HubError) as caught, translated(HubError, "read the target", repo="alice/x"):
        hf_raise_for_status(response)
    return caught.value


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (answer(404, "RepoNotFound"), "repo_not_found"),
        (answer(404, "RevisionNotFound"), "revision_not_found"),
        (answer(404, "EntryNotFound"), "file_not_found"),
        (answer(403, "GatedRepo"), "gated"),
        (answer(403, message="Access to this resource is disabled."), "disabled"),
        (answer(401, message="Invalid credentials in Authorization header"), "unauthorized"),
        (answer(403, message="no rights"), "forbidden"),
        (answer(404), "not_found"),
        (answer(400, message="bad"), "refused"),
        (answer(409), "conflict"),
        (answer(412), "conflict"),
        (answer(429), "rate_limited"),
        (answer(500), "server_error"),
        (answer(503), "server_error"),
    ],
)
def test_every_answer_has_its_kind(response: httpx2.Response, kind: str) -> None:
    error = raised(response)
    assert error.kind == kind
    assert error.exit_code == 6
    assert error.hint
    assert error.where == "https://hub.example/api/models/alice/x/revision/main"
    assert "\n" not in error.what
    assert "alice/x" in error.what
    assert error.details["status"] == response.status_code


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx2.ConnectError("[Errno 111]"), "no_network"),
        (httpx2.ConnectTimeout("slow"), "no_network"),
        (httpx2.ProxyError("403"), "no_network"),
        (OfflineModeIsEnabled("offline"), "no_network"),
        (LocalEntryNotFoundError("not here"), "no_network"),
        (httpx2.ReadTimeout("slow"), "timeout"),
        (httpx2.ReadError("reset"), "connection_lost"),
        (httpx2.RemoteProtocolError("cut"), "connection_lost"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "connection_lost"),
        (httpx2.UnsupportedProtocol("no"), "bad_endpoint"),
        (httpx2.InvalidURL("no"), "bad_endpoint"),
        (FileMetadataError("no header"), "not_a_hub"),
        (OIDCError("no id token"), "unauthorized"),
        (HFValidationError("a b"), "bad_name"),
        (OSError("Consistency check failed: file should be of size 3"), "corrupt_download"),
        (OSError(errno.ENOSPC, "No space left on device", "/cache/x"), "disk_full"),
        (OSError(errno.EDQUOT, "Quota exceeded", "/cache/x"), "disk_full"),
        (OSError(errno.EROFS, "Read-only file system", "/cache/x"), "cache_not_writable"),
        (PermissionError(errno.EACCES, "Permission denied", "/cache/x"), "cache_not_writable"),
    ],
)
def test_every_failure_has_its_kind(error: Exception, kind: str) -> None:
    found = kind_of(error)
    assert found.kind == kind
    assert found.hint
    if kind in ("disk_full", "cache_not_writable"):
        assert "/cache/x" in found.what


def test_the_cause_counts_where_the_client_looked_into_its_cache() -> None:
    def wrapped() -> None:
        try:
            hf_raise_for_status(answer(503))
        except Exception as cause:
            raise LocalEntryNotFoundError("check your connection") from cause

    with pytest.raises(HubError) as caught, translated(HubError, "fetch x"):
        wrapped()
    assert caught.value.kind == "server_error"


def test_the_servers_words_are_kept_on_one_line_and_redacted() -> None:
    error = raised(answer(403, message="no\n rights for hf_secretsecretsecretsecret " + "x" * 500))
    assert "no rights for ***" in error.what
    assert len(error.what) < 450


def test_nothing_secret_in_the_chain() -> None:
    error = raised(answer(500))
    printed = "".join(traceback.format_exception(error))
    assert "hf_secret" not in printed
    assert "token=" not in printed
    assert error.__cause__ is None


def test_our_own_errors_and_bugs_pass() -> None:
    with pytest.raises(SourceError), translated(HubError, "x"):
        raise SourceError("mine")
    with pytest.raises(KeyError), translated(HubError, "x"):
        raise KeyError("a bug")


def test_a_closed_port_is_no_network(closed_port: str) -> None:
    api = connect(closed_port, "hf_alice_write")
    with pytest.raises(SourceError) as caught, translated(SourceError, "look up main", repo="a/b"):
        api.model_info("a/b")
    assert caught.value.kind == "no_network"
    assert caught.value.exit_code == 3
    assert caught.value.where == f"{closed_port}/api/models/a/b"


def test_against_a_hub(hub: LocalHub, api: HfApi) -> None:
    api.create_repo("alice/m")
    cases = {
        "repo_not_found": lambda: api.model_info("alice/none"),
        "revision_not_found": lambda: api.model_info("alice/m", revision="none"),
        "file_not_found": lambda: api.hf_hub_download("alice/m", "none"),
        "unauthorized": lambda: HfApi(hub.endpoint, token="hf_wrong").model_info("alice/m"),
        "bad_name": lambda: api.model_info("a b/c"),
    }
    for kind, call in cases.items():
        with pytest.raises(HubError) as caught, translated(HubError, "do it", repo="alice/m"):
            call()
        assert caught.value.kind == kind
