import os
import subprocess
import sys

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.utils._http import get_session

import hubpublish
from hubpublish.errors import HubError, UsageError
from hubpublish.hub import client, connect, request_headers, retried, retry, validate_card
from hubpublish.localhub import LocalHub

CARD = "---\nlicense: mit\nbase_model: [a/b]\n---\n# Title\n"


def test_every_wait_is_bounded(hub: LocalHub) -> None:
    connect(hub.endpoint, None)
    waits = get_session().timeout
    assert waits.connect == client.CONNECT_TIMEOUT
    assert waits.read == waits.write == client.READ_TIMEOUT


def test_a_hub_that_hangs_is_a_timeout(hub: LocalHub, api: HfApi) -> None:
    api.create_repo("alice/m")
    impatient = connect(hub.endpoint, "hf_alice_write", timeout=0.2)
    hub.fault(r"GET /api/models/alice/m", "hang", seconds=1)
    try:
        with pytest.raises(HubError) as caught, hubpublish.hub.translated(HubError, "look"):
            impatient.model_info("alice/m")
        assert caught.value.kind == "timeout"
    finally:
        connect(hub.endpoint, None)


def test_connecting_again_keeps_the_session(hub: LocalHub) -> None:
    connect(hub.endpoint, None)
    session = get_session()
    connect(hub.endpoint, "hf_alice_write")
    assert get_session() is session


def run_fresh(code: str, **environment: str) -> str:
    """Run code in a Python that has imported nothing yet, without this test run's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_HUB_DISABLE")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("first", ["import huggingface_hub", "import hubpublish.hub"])
def test_xet_is_for_the_public_hub_alone(first: str) -> None:
    code = (
        f"{first}\n"
        "from hubpublish.hub import connect\n"
        "from huggingface_hub.utils._runtime import is_xet_available\n"
        "connect('http://127.0.0.1:9', None); print(is_xet_available())\n"
        "connect('https://huggingface.co/', None); print(is_xet_available())\n"
        "connect(None, None); print(is_xet_available())\n"
    )
    pytest.importorskip("hf_xet")
    assert run_fresh(code).split() == ["False", "True", "True"]
    assert run_fresh(code, HF_HUB_DISABLE_XET="1").split() == ["False", "False", "False"]
    assert run_fresh(code, HF_ENDPOINT="http://127.0.0.1:9").split() == ["False", "True", "False"]


def test_large_files_go_by_lfs_although_xet_is_installed(hub: LocalHub) -> None:
    pytest.importorskip("hf_xet")
    run_fresh(
        "from hubpublish.hub import connect\n"
        "from huggingface_hub import CommitOperationAdd\n"
        f"api = connect({hub.endpoint!r}, 'hf_alice_write')\n"
        "api.create_repo('alice/m')\n"
        "api.create_commit('alice/m', [CommitOperationAdd('a.onnx', b'0' * 9)], commit_message='add')\n"
    )
    assert hub.requests(r"POST .*/info/lfs/objects/batch")
    assert not hub.requests("xet")


def test_progress_bars_only_on_a_terminal() -> None:
    code = (
        "import io, sys\n"
        "from hubpublish.hub import connect\n"
        "from huggingface_hub.utils.tqdm import are_progress_bars_disabled\n"
        "class Terminal(io.StringIO):\n"
        "    def isatty(self): return True\n"
        "sys.stderr = Terminal(); connect(None, None); print(are_progress_bars_disabled())\n"
        "sys.stderr = io.StringIO(); connect(None, None); print(are_progress_bars_disabled())\n"
        "sys.stderr = None; connect(None, None); print(are_progress_bars_disabled())\n"
    )
    assert run_fresh(code).split() == ["False", "True", "True"]
    assert run_fresh(code, HF_HUB_DISABLE_PROGRESS_BARS="1").split() == ["True", "True", "True"]


def test_user_agent_names_us_and_nothing_of_the_machine(api: HfApi) -> None:
    agent = request_headers(api)["user-agent"]
    assert agent.startswith(f"hubpublish/{hubpublish.__version__}; hf_hub/")
    assert "agent/" not in agent
    assert constants.HF_HUB_DISABLE_TELEMETRY is True


def test_token_is_sent_unless_anonymous(api: HfApi) -> None:
    assert request_headers(api)["authorization"] == "Bearer hf_alice_write"
    assert "authorization" not in request_headers(api, anonymous=True)


def test_a_card_is_checked_by_this_hub_without_a_token(hub: LocalHub, api: HfApi) -> None:
    assert validate_card(api, CARD) == []
    assert [entry.has_auth for entry in hub.requests("validate-yaml")] == [False]


def test_a_bad_card_is_named(api: HfApi) -> None:
    with pytest.raises(HubError, match="base_model") as caught:
        validate_card(api, CARD.replace("[a/b]", "['a b']"))
    assert caught.value.kind == "card_invalid"
    assert "\n" not in caught.value.what


def test_a_card_without_metadata_is_a_warning(api: HfApi) -> None:
    assert "yaml" in validate_card(api, "# Title").pop()


def test_reads_are_tried_again(hub: LocalHub, api: HfApi) -> None:
    api.create_repo("alice/m")
    hub.fault(r"GET /api/models/alice/m", "status", status=503)
    hub.fault(r"GET /api/models/alice/m", "reset")
    hub.fault(r"GET /api/models/alice/m", "drop_response")
    assert retried(lambda: api.model_info("alice/m")).id == "alice/m"


def test_retries_end(hub: LocalHub, api: HfApi) -> None:
    api.create_repo("alice/m")
    hub.fault(r"GET /api/models/alice/m", "status", status=500, times=None)
    with pytest.raises(HubError), hubpublish.hub.translated(HubError, "look"):
        retried(lambda: api.model_info("alice/m"))
    assert len(hub.requests("GET /api/models/alice/m")) == retry.ATTEMPTS


def test_what_cannot_get_better_is_asked_once(hub: LocalHub, api: HfApi) -> None:
    with pytest.raises(HubError), hubpublish.hub.translated(HubError, "look"):
        retried(lambda: api.model_info("alice/none"))
    assert len(hub.requests("/alice/none")) == 1


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"RateLimit": '"api";r=0;t=7'}, 7.0),
        ({"Retry-After": "3"}, 3.0),
        ({"RateLimit": '"api";r=5;t=7'}, 0.0),
    ],
)
def test_a_short_rate_limit_is_waited_for(
    hub: LocalHub, api: HfApi, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], wait: float
) -> None:
    api.create_repo("alice/m")
    slept: list[float] = []
    monkeypatch.setattr(retry, "sleep", slept.append)
    hub.fault(r"GET /api/models/alice/m", "status", status=429, headers=headers)
    assert retried(lambda: api.model_info("alice/m")).id == "alice/m"
    assert slept == [wait]


def test_a_long_rate_limit_is_an_error_at_once(
    hub: LocalHub, api: HfApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "sleep", lambda seconds: None)
    api.create_repo("alice/m")
    hub.fault(r"GET /api/models/alice/m", "status", status=429, headers={"RateLimit": '"api";r=0;t=299'})
    with pytest.raises(HubError) as caught, hubpublish.hub.translated(HubError, "look"):
        retried(lambda: api.model_info("alice/m"))
    assert caught.value.kind == "rate_limited"
    assert len(hub.requests("GET /api/models/alice/m")) == 1


@pytest.mark.parametrize(
    "endpoint",
    ["", " ", "localhost:8000", "ftp://host", "file:///etc", "http://", "http://host?x=1", "http://host/ "],
)
def test_an_endpoint_that_is_no_address_is_told_at_once(endpoint: str) -> None:
    """Not least the empty one, of a variable that is not set: it must not mean the public Hub."""
    with pytest.raises(UsageError) as caught:
        connect(endpoint, None)
    assert (caught.value.kind, caught.value.exit_code) == ("bad_endpoint", 2)
    assert caught.value.hint


def test_an_endpoint_may_hold_a_password_and_no_error_does(closed_port: str) -> None:
    with pytest.raises(UsageError) as caught:
        connect("ftp://user:open-sesame@host", None)
    assert "open-sesame" not in str(caught.value)
    api = connect(closed_port.replace("//", "//user:open-sesame@"), None)
    with pytest.raises(HubError) as failed, hubpublish.hub.translated(HubError, "look"):
        api.model_info("a/b")
    assert "open-sesame" not in str(failed.value)


@pytest.mark.parametrize("token", ["hf_\u00e4l\u00efce", "hf_\N{PARTY POPPER}", "hf_a\r\nX-Evil: 1"])
def test_a_token_that_cannot_be_one_is_no_bug(hub: LocalHub, token: str) -> None:
    with pytest.raises(HubError) as caught, hubpublish.hub.translated(HubError, "look"):
        connect(hub.endpoint, token).model_info("alice/m")
    assert caught.value.kind == "unauthorized"
    assert token not in str(caught.value)


def test_an_identity_that_may_not_publish_is_no_matter_of_names(hub: LocalHub) -> None:
    hub.publishers["alice/m"] = "repo:alice/recipes:ref:refs/heads/main"
    code = (
        "from hubpublish.hub import connect, translated\n"
        "from hubpublish.errors import HubError\n"
        "try:\n"
        "    with translated(HubError, 'look'): connect(None, None).model_info('alice/m')\n"
        "except HubError as error: print(error.kind, '|', error.hint)\n"
    )
    job = {"GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_URL": hub.identity_url}
    stranger = {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "repo:mallory/recipes"}
    printed = run_fresh(code, HF_ENDPOINT=hub.endpoint, HF_OIDC_RESOURCE="alice/m", **job, **stranger)
    assert printed.startswith("unauthorized | check HF_OIDC_RESOURCE")


def test_a_token_is_hidden_wherever_it_came_from(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one too, which no pattern tells, and that a server repeats."""
    monkeypatch.setenv("HF_TOKEN", "sesame-17")
    hub.fault("GET", "status", status=403, body="no rights for sesame-17")
    with pytest.raises(HubError) as caught, hubpublish.hub.translated(HubError, "look"):
        connect(hub.endpoint, None).model_info("alice/m")
    assert "no rights for ***" in caught.value.what


@pytest.mark.parametrize("action", ["corrupt", "truncate"])
def test_an_answer_that_is_garbled_once_is_asked_for_again(hub: LocalHub, api: HfApi, action: str) -> None:
    api.create_repo("alice/m")
    hub.fault(r"GET /api/models/alice/m", action)
    assert retried(lambda: api.model_info("alice/m")).id == "alice/m"
    hub.fault("validate-yaml", action)
    assert validate_card(api, CARD) == []


def test_what_is_not_a_hub_is_named(hub: LocalHub, api: HfApi) -> None:
    hub.fault(r"GET /api/models/alice/m", "status", status=200, body={}, times=None)
    with pytest.raises(HubError) as caught, hubpublish.hub.translated(HubError, "look"):
        retried(lambda: api.model_info("alice/m"))
    assert caught.value.kind == "not_a_hub"
    assert caught.value.where == f"{hub.endpoint}/api/models/alice/m"


def test_warnings_of_the_client_are_not_printed() -> None:
    code = (
        "import warnings\n"
        "from hubpublish.hub import connect\n"
        "connect(None, None)\n"
        "warnings.warn_explicit('little room', UserWarning, 'f', 1, module='huggingface_hub.file_download')\n"
        "warnings.warn_explicit('ours', UserWarning, 'f', 1, module='hubpublish.x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "little room" not in done.stderr
    assert "ours" in done.stderr
