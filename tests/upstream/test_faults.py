"""Whatever goes wrong with the Hub: the recipe is bumped or as it was, and the error is one of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hubpublish.errors import SourceError
from tests.fault_matrix import hurry
from tests.publication import SOURCE, TARGET, TOKEN, model_bytes, sha256
from tests.upstream.conftest import OTHER_WEIGHTS, Upstream

# What status and bump ask of a Hub.
ENDPOINTS = {
    "source": rf"^GET /api/models/{SOURCE}/revision/",
    "history": rf"^GET /api/models/{SOURCE}/commits/",
    "model": rf"^(GET|HEAD) /{SOURCE}/resolve/.*\.onnx",
    "target": rf"^GET /api/models/{TARGET}/revision/",
    "manifest": rf"^GET /{TARGET}/resolve/.*manifest\.json",
    "report": rf"^GET /{TARGET}/resolve/.*report\.json",
}
BUMP = {"source", "history", "model"}
FAULTS: dict[str, dict[str, Any]] = {
    **{str(status): {"action": "status", "status": status} for status in (401, 403, 404, 429, 503)},
    **{action: {"action": action} for action in ("reset", "truncate", "corrupt", "drop_response")},
    "leak": {"action": "status", "status": 500, "body": {"error": f"bad {TOKEN}?token={TOKEN}"}},
    "503 once": {"action": "status", "status": 503, "times": 1},
    "reset once": {"action": "reset", "times": 1},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_under_every_fault_at_every_endpoint(
    published: Upstream, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    published.gets_a_model()
    before = published.path.read_text()
    bumped = before.replace(sha256(model_bytes()), sha256(model_bytes(OTHER_WEIGHTS)))
    hub = published.publication.hub
    for name, pattern in ENDPOINTS.items():
        published.path.write_text(before)
        hub.faults.clear()
        hub.fault(pattern, **{"times": None, **FAULTS[fault]})
        found = published.status()
        if "once" in fault or found.error is None:
            assert (found.upstream, found.action) == ("changed", "bump"), name
        else:
            assert (found.action, found.error["exit_code"] in (3, 6)) == ("look", True), name
        assert TOKEN not in json.dumps(found.model_dump(mode="json"))
        if name in BUMP:
            hub.faults.clear()
            hub.fault(pattern, **{"times": None, **FAULTS[fault]})
            error = _error_of_bump(published)
            assert TOKEN not in json.dumps(error)
            assert published.path.read_text() == (before if error else bumped), name


def _error_of_bump(published: Upstream) -> dict[str, object] | None:
    try:
        published.bump().write()
    except SourceError as error:
        return error.to_dict()
    return None


def test_a_request_that_is_none_of_these_fails(published: Upstream) -> None:
    published.gets_a_model()
    before = len(published.publication.hub.log)
    published.status()
    published.bump()
    patterns = [*ENDPOINTS.values(), rf"^GET /{TARGET}/resolve/.*(README\.md|recipe\.yaml)$"]
    known = {id(entry) for pattern in patterns for entry in published.publication.hub.requests(pattern)}
    unknown = [entry.path for entry in published.publication.hub.log[before:] if id(entry) not in known]
    assert not unknown
