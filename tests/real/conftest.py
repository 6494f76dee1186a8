"""The files for the tests, and whole runs on them; what could not be had is named in the last lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from hubpublish.localhub import LocalHub
from tests.real.files import FILES, Unavailable, cache_folder, fetch, without
from tests.real.publications import Publications

_UNAVAILABLE = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def real_file(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """The file of that name. If it cannot be had the test is skipped, or with CI=true fails."""
    missing = pytestconfig.stash.setdefault(_UNAVAILABLE, {})

    def get(name: str) -> Path:
        if name not in missing:
            try:
                return fetch(FILES[name], cache_folder())
            except Unavailable as error:
                missing[name] = str(error)  # one wait for a registry that is silent is enough
        raise without(missing[name])

    return get


@pytest.fixture(scope="session")
def publications(
    tmp_path_factory: pytest.TempPathFactory, real_file: Callable[[str], Path]
) -> Iterator[Publications]:
    """Whole runs on one local Hub, each made once."""
    folder = tmp_path_factory.mktemp("real")
    with LocalHub(folder / "hub") as hub:
        yield Publications(hub, folder, real_file)
    shutil.rmtree(folder)  # a gigabyte that pytest would keep for three sessions
    assert not hub.errors, "\n".join(hub.errors)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    """Name what was not tested, below the summary of all tests."""
    yield
    for name, why in config.stash.get(_UNAVAILABLE, {}).items():
        terminalreporter.write_line(f"NOT TESTED on {name}: {why}", yellow=True)
