"""One publication, one browser and one server of pages for all of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import needs, runs, server
from tests.browser.published import Published, published
from tests.last_lines import not_tested

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def need(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Skips, or with CI=true fails, where something that a run takes is not there."""

    def check(on: str, *needed: Callable[[], object]) -> None:
        try:
            for each in needed:
                each()
        except needs.MissingError as error:
            not_tested(pytestconfig, on, str(error))

    return check


@pytest.fixture(scope="session")
def chromium(need: Callable[..., None]) -> Iterator[Browser]:
    """A running Chromium."""
    need("Chromium", needs.chromium, needs.packages)
    with runs.browser() as running:
        yield running


@pytest.fixture(scope="session")
def node(need: Callable[..., None]) -> None:
    """Node.js and the packages."""
    need("Node.js", needs.node, needs.packages)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """The demo model, published."""
    with published(tmp_path_factory.mktemp("published")) as made:
        yield made


@pytest.fixture(scope="session")
def address(demo: Published) -> Iterator[str]:
    """Where the pages are."""
    with server.served(demo.image.parent) as url:
        yield url
