"""What pytest says below its summary: tables that tests made, and what was not tested, from every worker."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Any

import pytest

TABLE = "table"  # name of the property of a test whose value is printed
NOT_TESTED = pytest.StashKey[dict[str, str]]()
_OUTPUT = "not tested"


def without(why: str, environ: Mapping[str, str] = os.environ) -> BaseException:
    """What a test raises that lacks what it needs: it is skipped, and with CI=true it fails."""
    if environ.get("CI") == "true":
        return pytest.fail.Exception(f"{why}; with CI=true everything must be tested", pytrace=False)
    return pytest.skip.Exception(why)


def not_tested(config: pytest.Config, on: str, why: str) -> BaseException:
    """The same, and the last lines say what was not tested ``on``."""
    config.stash.setdefault(NOT_TESTED, {})[on] = why
    return without(why)


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
