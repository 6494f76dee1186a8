"""Rolling back with a recipe: what a run published comes back, whatever the Hub does meanwhile."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from hubpublish import publish, rollback
from hubpublish.errors import HubError, RecipeError, UsageError
from hubpublish.recipe import Recipe
from hubpublish.rollback import RollbackOptions, RollbackResult
from tests.errors import error_of
from tests.fault_matrix import FAULTS, SECRET, hurry
from tests.publication import CARD, READ_TOKEN, TARGET, TOKEN, Publication, commit

WRITES = r"^(POST|PUT|DELETE|PATCH) (?!/api/models/[^/]+/[^/]+/paths-info/)"
API = rf"/api/models/{TARGET}"
# What a rollback asks of a Hub; a request that is none of these fails a test.
ENDPOINTS = {
    "access": rf"^GET {API}/auth-check",
    "state": rf"^GET {API}/revision/",
    "history": rf"^GET {API}/commits/",
    "refs": rf"^GET {API}/refs",
    "manifest": rf"^GET /{TARGET}/resolve/.*/manifest\.json$",
    "files": rf"^GET /{TARGET}/resolve/[^/]*/(?!manifest)[^/]*\.(md|json|yaml)$",
    "copies": rf"^POST {API}/paths-info/main$",  # of what the client copies from where
    "paths": rf"^POST {API}/paths-info/",
    "card": r"^POST /api/validate-yaml$",
    "preupload": rf"^POST {API}/preupload/",
    "commit": rf"^POST {API}/commit/main",
}
PASSING = ("500", "503", "reset", "truncate", "corrupt")
OF_A_COMMIT = ("400", "401", "403", "404", "409", "412", "429", "leak", "drop_response")
LOST = ("truncate", "corrupt", "drop_response")  # the answer, and the work is done
MOVED = ("409", "412")


@pytest.fixture
def ran(publication: Publication) -> list[str]:
    """Two runs: with config.json, and with other passes and without it. Their commits."""
    publication.seed()
    return [str(publication.run(recipe).commit) for recipe in (publication.recipe(), other(publication))]


@pytest.fixture
def published(publication: Publication) -> list[str]:
    """Two publications that no run made, which is quicker. Their commits."""
    publication.api.create_repo(TARGET)
    return [_publish(publication, number) for number in (1, 2)]


def other(publication: Publication) -> Recipe:
    passes = [{"concat_tree": {"max_inputs": 5}}, "split_tree", "sum_to_add"]
    return publication.recipe(passes=passes, source={"copy": []})


def _publish(publication: Publication, number: int) -> str:
    folder = publication.folder / f"made-{number}"
    content = {"README.md": CARD, "report.json": "{}", "config.json": "{}", "onnx/model.onnx": "\0"}
    for path, text in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{text}\n{number}\n")
    staged = [publish.stage(path, folder / path) for path in content]
    (folder / "manifest.json").write_text(
        publish.make_manifest(staged, key=f"{number}", source_commit="c" * 40)
    )
    staged.append(publish.stage("manifest.json", folder / "manifest.json"))
    return publish.publish(publication.api, TARGET, staged, publish.Message(f"{number}")).commit


def back(publication: Publication, to: str | None = None, **options: Any) -> RollbackResult:
    given = {"endpoint": publication.hub.endpoint, "token": TOKEN, "to": to, **options}
    return rollback.roll_back(publication.recipe(), RollbackOptions(**given), {}, publication.said.append)


def head(publication: Publication) -> str:
    return str(publication.api.model_info(TARGET).sha)


def put_back(publication: Publication, commit: str) -> None:
    """Have the target's branch point to a commit, as if nothing had come after it."""
    repo = publication.hub.state.registry.get("model", TARGET)
    assert repo
    repo.git.set_ref("refs/heads/main", commit, head(publication))


def test_what_was_published_before_is_there_again(publication: Publication, ran: list[str]) -> None:
    before = publication.published(revision=ran[0])
    replaced = publication.published()
    since = len(publication.hub.log)
    result = back(publication)
    asked = [f"{each.method} {each.path}" for each in publication.hub.log[since:]]
    after = publication.published()
    assert after.pop("manifest.json") != before.pop("manifest.json")
    assert after == before
    assert not [each for each in asked if "_storage" in each or "/info/lfs/" in each or ".onnx" in each]
    assert (result.status, result.target, result.to) == ("rolled_back", TARGET, ran[0])
    assert result.commit == head(publication)
    assert result.url == f"{publication.hub.endpoint}/{TARGET}/commit/{result.commit}"
    assert result.source_commit == publication.api.model_info("acme/small").sha
    assert result.files == {
        **{path: "restored" for path, data in before.items() if replaced.get(path) != data},
        **dict.fromkeys(replaced.keys() - before.keys() - {"manifest.json"}, "deleted"),
        "manifest.json": "rewritten",
    }
    assert {"README.md", "config.json", "onnx/model.onnx", "report.json"} <= result.files.keys()
    assert "LICENSE" not in result.files


def test_a_run_of_what_came_back_has_nothing_to_do_and_one_of_what_went_does_nothing(
    publication: Publication, ran: list[str]
) -> None:
    state = publish.read_target(publication.api, TARGET)
    assert state.manifest
    back(publication)
    assert publish.withdrawn(publish.read_target(publication.api, TARGET), state.manifest.key)
    restored = head(publication)
    assert publication.run().status == "nothing_to_do"
    assert publication.run(other(publication)).status == "withdrawn"
    assert head(publication) == restored
    assert publication.run(other(publication), force=True).status == "published"
    assert publication.published() == publication.published(revision=ran[1])


def test_a_dry_run_changes_nothing_and_needs_no_token(publication: Publication, published: list[str]) -> None:
    since = len(publication.hub.log)
    result = back(publication, dry_run=True, token=False)
    log = publication.hub.log[since:]
    assert (result.status, result.commit, result.to) == ("dry_run", published[1], published[0])
    assert result.files["onnx/model.onnx"] == "restored"
    assert not [each for each in log if re.search(WRITES, f"{each.method} {each.path}") or each.has_auth]
    assert back(publication).files == result.files


def test_to_what_is_there_is_nothing_to_do(publication: Publication, published: list[str]) -> None:
    for revision in (published[1], "main"):
        result = back(publication, revision)
        assert (result.status, result.commit, result.files) == ("nothing_to_do", published[1], {})
    assert head(publication) == published[1]


def test_of_another_target_than_the_recipes(publication: Publication, published: list[str]) -> None:
    error = error_of(HubError, lambda: back(publication, target="alice/none"))
    assert error.kind == "repo_not_found"
    error = error_of(HubError, lambda: back(publication, target="alice/none", dry_run=True))
    assert error.kind == "repo_not_found"
    publication.api.create_repo("alice/empty")
    assert error_of(HubError, lambda: back(publication, target="alice/empty")).kind == "nothing_published"
    assert error_of(RecipeError, lambda: back(publication, target="acme/small")).kind == "recipe"


def test_what_the_token_may_not_is_told_before_anything_is_read(
    publication: Publication, published: list[str]
) -> None:
    for token, kind in (
        (READ_TOKEN, "read_only_token"),
        ("hf_bob_write", "forbidden"),
        (False, "unauthorized"),
        ("hf_wrong", "unauthorized"),
    ):
        since = len(publication.hub.log)
        assert error_of(HubError, lambda token=token: back(publication, token=token)).kind == kind
        assert not [each for each in publication.hub.log[since:] if "/commits/" in each.path]
    assert head(publication) == published[1]


def test_a_keyless_job_exchanges_its_identity_for_this_repo_alone(
    publication: Publication, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_OIDC_RESOURCE", "acme/other")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", publication.hub.endpoint)
    error = error_of(UsageError, lambda: back(publication, token=None))
    assert error.kind == "oidc_resource"
    assert head(publication) == published[1]


def test_an_edited_file_is_named_and_kept(publication: Publication, published: list[str]) -> None:
    edited = commit(publication.api, TARGET, {"README.md": CARD.encode() + b"Mine\n"})
    for options in ({}, {"dry_run": True}, {"to": published[0]}, {"to": published[1]}):
        error = error_of(HubError, lambda options=options: back(publication, **options))
        assert (error.kind, error.details["files"]) == ("target_edited", ["README.md"])
    assert head(publication) == edited


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_it_is_done_once_or_not_at_all(
    publication: Publication, published: list[str], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    hub, since = publication.hub, len(publication.hub.log)
    for fault in (*PASSING, *(OF_A_COMMIT if endpoint == "commit" else ())):
        options = {"action": "status", **FAULTS[fault], "times": 1}
        rule = hub.fault(ENDPOINTS[endpoint], **options)
        if endpoint != "commit" or fault in (*LOST, *MOVED):
            assert back(publication, published[0]).status == "rolled_back", fault
        else:
            error = error_of(HubError, lambda: back(publication, published[0]))
            assert error.exit_code == 6
            assert SECRET not in f"{error} {error.hint} {error.details}"
            assert head(publication) == published[1], fault
            assert back(publication, published[0]).status == "rolled_back", fault
        assert rule.fired == 1, fault
        assert len(publication.commits()) == 4, fault
        put_back(publication, published[1])
    asked = [f"{each.method} {each.path}" for each in hub.log[since:]]
    others = (rf"^GET {API}$", r"/commits/main$", r"/whoami-v2$")  # the test's own, and for a better error
    assert not [
        each for each in asked if not any(re.search(known, each) for known in (*ENDPOINTS.values(), *others))
    ]


def test_a_hub_that_stays_broken_changes_nothing(
    publication: Publication, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    for pattern in (pattern for endpoint, pattern in ENDPOINTS.items() if endpoint != "paths"):
        for fault in ("503", "reset"):
            options = {"action": "status", **FAULTS[fault], "times": None}
            publication.hub.fault(pattern, **options)
            error = error_of(HubError, lambda: back(publication, published[0]))
            assert error.kind in ("server_error", "connection_lost"), pattern
            assert re.search(pattern.split("/", 1)[1], str(error.where)), pattern
            publication.hub.faults.clear()
    assert head(publication) == published[1]


def test_a_commit_that_cannot_be_read_back_is_named(
    publication: Publication, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    known = "|".join(["main", *(each.commit_id for each in publication.api.list_repo_commits(TARGET))])
    publication.hub.fault(rf"{ENDPOINTS['paths']}(?!{known})", "reset", times=None)
    error = error_of(HubError, lambda: back(publication, published[0]))
    assert error.details["published"] == head(publication) != published[1]


def test_a_history_that_is_none(publication: Publication, published: list[str]) -> None:
    for body in ({"id": "a/b"}, "[5]", '[{"id": 5}]', '[{"id": "a", "date": "soon"}]'):
        publication.hub.fault(ENDPOINTS["history"], "status", status=200, body=body, times=None)
        assert error_of(HubError, lambda: back(publication)).kind == "not_a_hub", body
        publication.hub.faults.clear()


def test_no_token_in_any_log(
    publication: Publication, published: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    client = logging.getLogger("huggingface_hub")
    client.addHandler(caplog.handler)
    level = client.level
    try:
        with caplog.at_level(logging.DEBUG):
            client.setLevel(logging.DEBUG)
            assert back(publication).status == "rolled_back"
    finally:
        client.removeHandler(caplog.handler)
        client.setLevel(level)
    assert "Request" in caplog.text  # it did log
    for text in (caplog.text, *publication.said):
        assert "hf_alice" not in text
        assert "sig=" not in text
