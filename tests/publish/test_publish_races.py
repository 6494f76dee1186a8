import threading
from typing import Any

import pytest
from huggingface_hub import HfApi

from hubpublish.hub import connect
from hubpublish.layout import MANIFEST
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    Plan,
    Published,
    StagedFile,
    already_published,
    check_published,
    commit,
    make_plan,
    publish,
    read_target,
)
from tests.publish.publishing import (
    CARD,
    COMMITS,
    FILES,
    MESSAGE,
    Stage,
    after_planning,
    commits,
    content,
    edit,
    error_of,
)


def test_a_target_that_moved_meanwhile_is_planned_again(
    hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_planning(monkeypatch, lambda: edit(api, "notes.txt", b"in between"))
    done = publish(api, target, staging(), MESSAGE)
    assert done.changed
    assert commits(api) == ["Publish", "edit notes.txt", "initial commit"]
    assert [entry.status for entry in hub.requests(COMMITS)] == [200, 412, 200]


def test_an_edit_in_between_is_not_overwritten(
    api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(api, target, staging(), MESSAGE)
    files = {**FILES, "README.md": CARD + b"new"}
    after_planning(monkeypatch, lambda: edit(api, "README.md", b"# In between\n"))
    assert error_of(lambda: publish(api, target, staging(files), MESSAGE)).kind == "target_edited"
    assert content(api, "README.md") == b"# In between\n"


def test_a_target_that_never_rests_is_given_up(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    hub.fault(COMMITS, "status", status=412, times=None)
    assert error_of(lambda: publish(api, target, staging(), MESSAGE)).kind == "conflict"
    assert commits(api) == ["initial commit"]


def test_two_publishers_at_once_publish_once(
    hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = [staging(), staging()]
    both_planned = threading.Barrier(2, timeout=30)
    first = threading.local()
    done: list[Published] = []

    def plan_together(*args: Any) -> Plan:
        plan = make_plan(*args)
        if not hasattr(first, "passed"):
            first.passed = True
            both_planned.wait()
        return plan

    def run(files: list[StagedFile]) -> None:
        done.append(publish(connect(hub.endpoint, "hf_alice_write"), target, files, MESSAGE))

    monkeypatch.setattr(commit, "make_plan", plan_together)
    threads = [threading.Thread(target=run, args=(files,)) for files in staged]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.changed for each in done) == [False, True]
    assert len({each.commit for each in done}) == 1
    assert commits(api) == ["Publish", "initial commit"]
    assert sorted(entry.status for entry in hub.requests(COMMITS)) == [200, 412]


def test_an_answer_that_is_lost_after_the_commit(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    hub.fault(COMMITS, "drop_response")
    done = publish(api, target, staging(), MESSAGE)
    assert done.changed
    assert done.commit == api.model_info(target).sha
    assert commits(api) == ["Publish", "initial commit"]
    assert len(hub.requests(COMMITS)) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"action": "status", "status": 500}, "server_error"),
        ({"action": "status", "status": 503}, "server_error"),
        ({"action": "status", "status": 429}, "rate_limited"),
        ({"action": "status", "status": 401, "body": "Invalid credentials"}, "unauthorized"),
        ({"action": "reset"}, "connection_lost"),
    ],
)
def test_a_commit_that_fails_is_not_repeated(
    hub: LocalHub, api: HfApi, target: str, staging: Stage, fault: dict[str, Any], kind: str
) -> None:
    hub.fault(COMMITS, **fault)
    assert error_of(lambda: publish(api, target, staging(), MESSAGE)).kind == kind
    assert len(hub.requests(COMMITS)) == 1
    assert commits(api) == ["initial commit"]
    assert publish(api, target, staging(), MESSAGE).changed  # and the next run is a first one


def test_what_is_read_back_is_compared(api: HfApi, target: str, staging: Stage) -> None:
    done = publish(api, target, staging(), MESSAGE)
    later = edit(api, "config.json", b"[]")
    check_published(api, done.plan, done.commit)
    error = error_of(lambda: check_published(api, done.plan, later))
    assert error.kind == "published_differs"
    assert error.details == {"files": ["config.json"], "commit": later}


def test_what_is_read_back_is_compared_by_publish(
    api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub made something else of our commit: here, the one after it stands for that."""

    def send_and_edit(*args: Any) -> str:
        assert send(*args)
        return edit(api, "config.json", b"[]")

    send = commit._send
    monkeypatch.setattr(commit, "_send", send_and_edit)
    error = error_of(lambda: publish(api, target, staging(), MESSAGE))
    assert (error.kind, error.details["files"]) == ("published_differs", ["config.json"])


def test_a_card_that_the_hub_refuses_costs_no_upload(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    files = {**FILES, "README.md": b"---\nbase_model: ['a b']\n---\n"}
    assert error_of(lambda: publish(api, target, staging(files), MESSAGE)).kind == "card_invalid"
    assert not hub.requests("PUT|preupload|/commit/")


@pytest.mark.parametrize("path", ["onnx/model.onnx", "config.json"])
def test_a_file_that_changed_on_disk_is_not_published(
    api: HfApi, target: str, staging: Stage, path: str
) -> None:
    files = staging()
    local = next(file.local for file in files if file.path == path)
    local.write_bytes(b"other bytes")
    assert error_of(lambda: publish(api, target, files, MESSAGE)).kind == "staged_changed"
    assert commits(api) == ["initial commit"]


def test_a_corrupt_answer_is_not_believed(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    hub.fault(rf"GET .*/resolve/.*/{MANIFEST}", "corrupt")
    assert already_published(read_target(api, target), "key 1")
    hub.fault(rf"GET .*/resolve/.*/{MANIFEST}", "corrupt", times=None)
    assert error_of(lambda: read_target(api, target)).kind == "corrupt_download"
