"""What pytest says below its summary: tables that tests made, and what was not tested, from every worker."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Any, NoReturn

import pytest

TABLE = "table"  # name of the property of a test whose value is printed
NOT_TESTED = pytest.StashKey[dict[str, str]]()
_OUTPUT = "not tested"


def not_tested(config: pytest.Config, on: str, why: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip a test for want of what it runs on, which the last lines tell; with CI=true it fails."""
    config.stash.setdefault(NOT_TESTED, {})[on] = why
    if environ.get("CI") == "true":
        pytest.fail(f"{why}; with CI=true everything must be tested", pytrace=False)
    pytest.skip(why)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over what it could not test."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = session.config.stash.get(NOT_TESTED, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker could not test."""
    told = getattr(node, "workeroutput", {}).get(_OUTPUT, {})
    node.config.stash.setdefault(NOT_TESTED, {}).update(told)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    """Tables above the summary of all tests, what was not tested below it."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, value in getattr(report, "user_properties", ()):
            if name == TABLE:
                terminalreporter.write_line(f"\n{value}")
    yield
    for name, why in config.stash.get(NOT_TESTED, {}).items():
        terminalreporter.write_line(f"NOT TESTED on {name}: {why}", yellow=True)
