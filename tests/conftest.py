"""Shared by all tests: nothing reaches the network, no token of the machine's is used."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# huggingface_hub reads its environment at import, so this comes first.
_HF_HOME = tempfile.mkdtemp(prefix="hubpublish-tests-hf-")
atexit.register(shutil.rmtree, _HF_HOME, ignore_errors=True)
_ENVIRONMENT = {
    "HF_HOME": _HF_HOME,
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
}
_FORBIDDEN = (
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_CACHE", "HF_HUB_OFFLINE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
    *("GITHUB_ACTIONS", "HF_OIDC_RESOURCE"),
)
os.environ.update(_ENVIRONMENT)
for _name in _FORBIDDEN:
    os.environ.pop(_name, None)

# A shell starts what runs in its background with SIGINT ignored, which children inherit: the programs
# that tests interrupt would then go on for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402
from huggingface_hub import HfApi  # noqa: E402

from hubpublish.hub import retry  # noqa: E402
from hubpublish.localhub import LocalHub  # noqa: E402
from tests.last_lines import (  # noqa: E402
    not_tested,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary", "pytest_testnodedown"]

if TYPE_CHECKING:
    from tests.publication import Publication

ALICE, ALICE_READ, BOB = "hf_alice_write", "hf_alice_read", "hf_bob_write"


# Longest first, so that no worker is left with a long one at the end; and what shares a dear fixture stays
# together.
LONGEST = (
    *("test_fault_matrix", "tests/real/", "test_processes", "tests/browser/", "tests/workflows/"),
    *("tests/verify/", "tests/conformance/", "tests/passes/test_fold_constants", "tests/demo/"),
    "tests/upstream/",
)
TOGETHER = ("tests/real/", "tests/browser/", "tests/demo/", "tests/localhub/", "tests/upstream/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort and group the tests for several workers."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        folder = next((each for each in TOGETHER if file.startswith(each)), file)
        name = item.nodeid if "test_fault_matrix" in file or "test_processes" in file else folder
        item.add_marker(pytest.mark.xdist_group(name))
    order = {each: number for number, each in enumerate(LONGEST)}
    items.sort(key=lambda item: min((order[each] for each in LONGEST if each in item.nodeid), default=9))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow each other at once."""
    monkeypatch.setattr(retry, "BASE_DELAY", 0.0)


@pytest.fixture
def closed_port() -> Iterator[str]:
    """A URL at which nothing answers."""
    with socket.socket() as taken:  # bound and never listening, so that nobody else gets it either
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LocalHub]:
    """A Hub of the test's own. Users alice (in organization acme) and bob; see `LocalHub` for tokens."""
    with LocalHub(tmp_path / "hub") as running:
        yield running
    assert not running.errors, "\n".join(running.errors)


@pytest.fixture
def api(hub: LocalHub) -> HfApi:
    """The unmodified client on that Hub, as alice, who may write."""
    return HfApi(endpoint=hub.endpoint, token=ALICE)


@pytest.fixture
def publication(hub: LocalHub, api: HfApi, tmp_path: Path) -> Publication:
    """A small source repo to come, and a recipe for it."""
    from tests.publication import Publication

    return Publication(hub, api, tmp_path)


@pytest.fixture(scope="session")
def webgpu_device(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> object:
    """A WebGPU device that grants eight storage buffers; without one the test is skipped, and it is told."""
    from hubpublish.errors import UsageError
    from hubpublish.verify import RunLimits
    from hubpublish.verify.webgpu.bench import find_device

    try:
        return find_device(8, tmp_path_factory.mktemp("webgpu"), RunLimits())
    except UsageError as error:
        not_tested(pytestconfig, "WebGPU", f"{error.what}; {error.hint}")
