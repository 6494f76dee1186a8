"""The files for the tests, and whole runs on them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hubpublish.localhub import LocalHub
from tests.last_lines import NOT_TESTED, without
from tests.real.files import FILES, Unavailable, cache_folder, fetch
from tests.real.publications import Publications


@pytest.fixture(scope="session")
def real_file(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """The file of that name. If it cannot be had the test is skipped, or with CI=true fails."""
    missing = pytestconfig.stash.setdefault(NOT_TESTED, {})

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
