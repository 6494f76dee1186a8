"""Every request of a run x every fault: published exactly once or not at all, and said so in one line.

Every fault strikes every request of every scenario: at its first time, its second, or always, in turn;
with ``HUBPUBLISH_WHOLE_MATRIX=1`` at all three.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fault_matrix import ENDPOINTS, FAULTS, SECRET, Lab, Ran, State, hurry
from tests.last_lines import TABLE
from tests.publication import CARD, SOURCE, TOKEN, Publication, commit

WHOLE = bool(os.environ.get("HUBPUBLISH_WHOLE_MATRIX"))
WRITES = ("create", "preupload", "lfs batch", "lfs upload", "lfs verify", "commit", "request's text", "tag")
REFUSED = ("400", "401", "403", "404", "422", "wait", "leak")
PASSING = ("429", "500", "502", "503", "reset", "truncate", "corrupt", "drop_response")
ANSWER_LOST = ("truncate", "corrupt", "drop_response")  # and the work done

OTHER = {"passes": [{"concat_tree": {"max_inputs": 5}}, "split_tree", "sum_to_add"], "source": {"copy": []}}
TAGGED = {"target": {"tag": "v-{key}"}}
THIRD = {"passes": [{"concat_tree": {"max_inputs": 4}}, "split_tree", "sum_to_add"], "source": {"copy": []}}


@dataclass(frozen=True)
class Scenario:
    """What a run begins with, what it is asked to do, and which requests are struck in it."""

    begins: str
    recipe: Path
    arguments: tuple[str, ...]
    skips: tuple[str, ...] = ("source info", "source head", "source model", "source others", "check card")
    command: str = "run"

    def run(self, lab: Lab) -> Ran:
        return lab.run(self.recipe, *self.arguments, command=self.command)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is room: a disk takes longer to remove a case's folders than the case itself."""
    memory = Path("/dev/shm")
    if not (os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 28):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="hubpublish-tests-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def lab(publication: Publication, tmp_path: Path) -> Lab:
    publication.seed()
    return Lab(publication, tmp_path / "lab")


def scenario_of(lab: Lab, name: str) -> Scenario:
    """Bring the Hub to where a scenario begins."""
    lab.folder.mkdir()
    first, second, third = lab.recipe("1", **TAGGED), lab.recipe("2", **OTHER), lab.recipe("3", **THIRD)
    lab.save("missing")
    if name == "create":
        return Scenario("missing", first, (), skips=())
    done = lab.run(first)
    assert done.code == 0
    lab.save("published")
    if name == "update":
        return Scenario("published", second, ())
    if name == "roll back":
        assert lab.run(second).code == 0
        lab.save("twice")
        return Scenario("twice", second, ("--to", done.document["commit"]), skips=(), command="rollback")
    if name == "open a request":
        return Scenario("published", second, ("--as-pr",))
    assert lab.run(second, "--as-pr").code == 0
    commit(lab.publication.api, SOURCE, {"README.md": CARD.encode() + b"Moved.\n"})  # for another text
    lab.save("proposed")
    return Scenario("proposed", third, ("--as-pr",))


def cases(used: dict[str, int], offset: int) -> Iterator[tuple[str, str, str]]:
    """Endpoint, fault and when it strikes: of lost answers to what writes, at every moment."""
    names, moments = list(FAULTS), ("first", "always", "second")
    for row, (endpoint, asked) in enumerate(used.items()):
        for column, fault in enumerate(names):
            possible = moments if asked > 1 else moments[:2]
            if WHOLE or (endpoint in ("create", "commit") and fault in ANSWER_LOST):
                yield from ((endpoint, fault, moment) for moment in possible)
            else:
                yield endpoint, fault, possible[(column + row + offset) % len(possible)]


@pytest.mark.parametrize(
    ("name", "offset"),
    [("create", 0), ("update", 1), ("open a request", 2), ("update a request", 3), ("roll back", 4)],
)
def test_published_once_or_not_at_all(
    lab: Lab,
    name: str,
    offset: int,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    hurry(monkeypatch)
    scenario = scenario_of(lab, name)
    hub = lab.publication.hub
    before, since = lab.state(), len(hub.log)
    done = scenario.run(lab)
    assert done.code == 0, done.text
    wanted, used = lab.state(), lab.used(since)
    assert before != wanted
    struck = {endpoint: count for endpoint, count in used.items() if endpoint not in scenario.skips}
    judge = Judge(lab, scenario, before, wanted)
    table = Table(name)
    for endpoint, fault, moment in cases(struck, offset):
        table.add(endpoint, fault, judge(endpoint, fault, moment))
    record_property(TABLE, str(table))
    assert not judge.wrong, "\n".join(judge.wrong)


class Judge:
    """Runs a case from the scenario's beginning, and notes what is wrong with the outcome."""

    def __init__(self, lab: Lab, scenario: Scenario, before: State | None, wanted: State | None) -> None:
        self._lab, self._scenario, self._before, self._wanted = lab, scenario, before, wanted
        self._continued: list[State | None] = [before]
        self.wrong: list[str] = []

    def __call__(self, endpoint: str, fault: str, moment: str) -> str:
        """One letter for the outcome: see `Table`."""
        self._lab.restore(self._scenario.begins)
        times, skip = (None if moment == "always" else 1), int(moment == "second")
        options = {"action": "status", **FAULTS[fault], "times": times, "skip": skip}
        rule = self._lab.publication.hub.fault(ENDPOINTS[endpoint], **options)
        ran = self._scenario.run(self._lab)
        self._lab.publication.hub.faults.clear()
        state = self._lab.state()
        found = [*said_wrong(ran), *self._done_wrong(ran, endpoint, state)]
        found += expected_otherwise(ran, endpoint, fault, moment)
        if not rule.fired:
            found.append("the fault did not strike")
        found += self._goes_on_wrong(state)
        self.wrong += [f"{endpoint}, {fault}, {moment}: {each}\n{ran.err[-500:]}" for each in found]
        if found:
            return "!"
        return "." if ran.code == 0 else "p" if is_published(ran) else str(ran.code)

    def _done_wrong(self, ran: Ran, endpoint: str, state: State | None) -> Iterator[str]:
        if ran.code == 0:
            if state != self._wanted:
                yield "it says that it published, and did not"
            return
        if ran.code != (3 if endpoint.startswith("source") else 6):
            yield f"exit code {ran.code}"
        if is_published(ran):
            if _untagged(state) != _untagged(self._wanted):
                yield "it names a commit that does not stand"
        elif endpoint == "tag" or (endpoint == "read back" and self._scenario.command == "run"):
            yield "the commit is not named that was made, and not read back or tagged"
        elif state != self._before and not is_empty(state) and not self._only_text_differs(state):
            yield "it says that it failed, and published"

    def _only_text_differs(self, state: State | None) -> bool:
        """The text of a request comes before its commit: a run that dies in between is done again."""
        return bool(state and self._before and state.branches == self._before.branches)

    def _goes_on_wrong(self, state: State | None) -> Iterator[str]:
        """From every state that a fault leaves, the next run gets to where it would have got without."""
        if state in self._continued:
            return
        self._continued.append(state)
        again = self._scenario.run(self._lab)
        if again.code != 0 or self._lab.state() != self._wanted:
            yield f"the next run does not make it good: {again.err[-300:]}"
        elif state == self._wanted and again.document["status"] != "nothing_to_do":
            yield "the next run finds something to do"


def is_published(ran: Ran) -> bool:
    """Whether an error names a commit that stands."""
    return "published" in ran.document.get("error", {})


def _untagged(state: State | None) -> State | None:
    if state is None:
        return None
    return State({ref: at for ref, at in state.branches.items() if "/tags/" not in ref}, state.texts)


def is_empty(state: State | None) -> bool:
    """Whether it is a target that was made, and nothing published to it."""
    return state is not None and [count for _, count in state.branches.values()] == [1]


def said_wrong(ran: Ran) -> Iterator[str]:
    for secret in (TOKEN, SECRET, "sig=", "Traceback"):
        if secret in ran.text:
            yield f"{secret!r} is printed, logged or written"
    errors = re.findall(r"^error: .*", ran.err, re.MULTILINE)
    if len(errors) != (ran.code != 0):
        yield f"{len(errors)} errors"
    if ran.code and (not ran.document["error"]["hint"] or ran.document["error"]["kind"] == "internal"):
        yield f"no proper error: {ran.document['error']}"


def expected_otherwise(ran: Ran, endpoint: str, fault: str, moment: str) -> Iterator[str]:
    if fault in REFUSED and moment == "always" and ran.code == 0:
        yield "what was refused has succeeded"
    if moment == "always" or ran.code == 0:
        return
    if fault in PASSING and endpoint not in WRITES:
        yield "a read was not tried again"
    if endpoint in ("commit", "create") and fault in ANSWER_LOST:
        yield "an answer was lost, and what it would have said not looked up"
    if endpoint == "commit" and fault in ("409", "412"):
        yield "the target moved, and nothing was planned anew"


class Table:
    """The outcomes of a scenario, for people to read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._cells: dict[str, dict[str, str]] = {}

    def add(self, endpoint: str, fault: str, outcome: str) -> None:
        row = self._cells.setdefault(endpoint, {})
        row[fault] = row.get(fault, "") + outcome

    def __str__(self) -> str:
        width = max(5, *(len(cell) + 2 for row in self._cells.values() for cell in row.values()))
        heads = {
            fault: {"truncate": "cut", "corrupt": "bad", "drop_response": "lost"}.get(fault, fault)
            for fault in FAULTS
        }
        lines = [
            f"{self._name}: . done; 3, 6 exit code, nothing done; p published, not proved or tagged; ! wrong"
        ]
        lines.append(f"{'':<16}" + "".join(f"{head:>{width + 1}}" for head in heads.values()))
        for endpoint, row in self._cells.items():
            lines.append(
                f"{endpoint:<16}" + "".join(f"{row.get(fault, ''):>{width + 1}}" for fault in FAULTS)
            )
        return "\n".join(lines)


@pytest.mark.parametrize("endpoint", ["target info", "lfs upload", "commit", "read back"])
def test_a_hub_that_hangs(lab: Lab, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, timeout=1.0)
    scenario = scenario_of(lab, "create")
    hub = lab.publication.hub
    fault = hub.fault(ENDPOINTS[endpoint], "hang", seconds=1.5)
    ran = lab.run(scenario.recipe)
    assert fault.fired == 1
    assert not list(said_wrong(ran))
    deadline = time.monotonic() + 20
    while not hub.log or not any(entry.fault == "hang" for entry in list(hub.log)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    hub.faults.clear()
    # The commit may land before the run has looked whether it did.
    assert ran.code in ((0, 6) if endpoint == "commit" else (0,)), ran.err
    assert lab.run(scenario.recipe).code == 0
    assert lab.publication.commits()[1:] == ["initial commit"]  # published once, however late


def test_a_long_wait_is_not_waited_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would sleep for as long as it is told, wherever it repeats a request by itself."""
    waits = hurry(monkeypatch)
    scenario = scenario_of(lab, "create")
    for endpoint in ("source head", "source model", "preupload", "lfs batch", "lfs upload"):
        lab.restore("missing")
        lab.publication.hub.fault(ENDPOINTS[endpoint], "status", times=None, **FAULTS["wait"])
        ran = lab.run(scenario.recipe)
        assert ran.document["error"]["kind"] == "rate_limited"
        assert "3000 seconds" in ran.document["error"]["hint"]
    assert max(waits, default=0.0) < 60


GARBAGE: list[Any] = [
    {"id": "a/b", "sha": 5, "siblings": [{}], "files": 5, "objects": 5, "name": []},
    {"id": "a/b"},
]


@pytest.mark.parametrize("body", GARBAGE)
def test_an_answer_that_is_no_hubs(lab: Lab, body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 200 from every endpoint in turn."""
    hurry(monkeypatch)
    scenario = scenario_of(lab, "create")
    for endpoint, pattern in ENDPOINTS.items():
        lab.restore("missing")
        fault = lab.publication.hub.fault(pattern, "status", status=200, body=body, times=None)
        ran = lab.run(scenario.recipe)
        if fault.fired:
            assert not list(said_wrong(ran)), endpoint
            assert ran.code or endpoint not in ("source info", "target info"), endpoint
            if ran.code == 0:
                assert lab.publication.commits()[1:] == ["initial commit"], endpoint
            elif endpoint not in ("commit", "read back") and not is_published(ran):
                assert lab.publication.nothing_is_published(), endpoint


def test_an_upload_that_the_hub_does_not_take(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    scenario = scenario_of(lab, "create")
    error = {"code": 422, "message": "Storage limit reached"}
    body = {"objects": [{"oid": "0" * 64, "size": 1, "error": error}]}
    lab.publication.hub.fault(ENDPOINTS["lfs batch"], "status", status=200, body=body)
    ran = lab.run(scenario.recipe)
    assert ran.code == 6
    assert not list(said_wrong(ran))
    assert "Storage limit reached" in ran.document["error"]["message"]
