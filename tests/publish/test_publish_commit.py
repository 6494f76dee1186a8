import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from hubpublish.errors import HubError
from hubpublish.hub import connect
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    MANIFEST,
    Message,
    Plan,
    Published,
    StagedFile,
    already_published,
    check_published,
    commit,
    ensure_target,
    make_manifest,
    make_plan,
    publish,
    read_file,
    read_target,
    stage,
)

REPO = "alice/target"
CARD = b"---\nlicense: mit\n---\n# Title\n"
FILES = {"README.md": CARD, "onnx/model.onnx": b"\0weights", "config.json": b"{}", "report.json": b'{"a": 1}'}
MESSAGE = Message("Publish", "Made with care.")
COMMITS = r"POST /api/models/alice/target/commit/"

Stage = Callable[..., list[StagedFile]]


@pytest.fixture
def staging(tmp_path: Path) -> Stage:
    def make(files: dict[str, bytes] = FILES, key: str = "key 1") -> list[StagedFile]:
        folder = tmp_path / f"staged-{len(list(tmp_path.iterdir()))}"
        made = []
        for path, content in files.items():
            local = folder / path
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(content)
            made.append(stage(path, local))
        (folder / MANIFEST).write_text(make_manifest(made, key=key, source_commit="c" * 40))
        return [*made, stage(MANIFEST, folder / MANIFEST)]

    return make


@pytest.fixture
def target(api: HfApi) -> str:
    api.create_repo(REPO)
    return REPO


def content(api: HfApi, path: str, revision: str = "main") -> bytes | None:
    return read_file(api, read_target(api, REPO, revision=revision), path)


def commits(api: HfApi, revision: str = "main") -> list[str]:
    return [each.title for each in api.list_repo_commits(REPO, revision=revision)]


def edit(api: HfApi, path: str, data: bytes, **options: Any) -> str:
    return api.create_commit(
        REPO, [CommitOperationAdd(path, data)], commit_message=f"edit {path}", **options
    ).oid


def error_of(call: Callable[[], object]) -> HubError:
    with pytest.raises(HubError) as caught:
        call()
    assert caught.value.exit_code == 6
    assert caught.value.hint
    assert "hf_" not in f"{caught.value} {caught.value.hint} {caught.value.details}"
    return caught.value


def after_planning(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Have something happen once, between the next plan and its commit."""
    pending = [meanwhile]

    def plan_then(*args: Any) -> Plan:
        plan = make_plan(*args)
        if pending:
            pending.pop()()
        return plan

    monkeypatch.setattr(commit, "make_plan", plan_then)


# -- the ordinary course


def test_everything_in_one_commit(api: HfApi, target: str, staging: Stage) -> None:
    done = publish(api, target, staging(), MESSAGE)
    assert done.changed
    assert done.commit == api.model_info(target).sha
    assert commits(api) == ["Publish", "initial commit"]
    assert {path: content(api, path) for path in FILES} == FILES
    assert {entry.change for entry in done.plan.entries} == {"added"}


def test_a_second_run_makes_no_commit_and_uploads_nothing(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    first = publish(api, target, staging(), MESSAGE)
    before = len(hub.log)
    again = publish(api, target, staging(), MESSAGE)
    assert not again.changed
    assert again.commit == first.commit
    assert {entry.method for entry in hub.log[before:]} == {"GET"}
    assert commits(api) == ["Publish", "initial commit"]


def test_only_what_changed_is_uploaded(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    before = len(hub.log)
    done = publish(api, target, staging({**FILES, "config.json": b'{"b": 2}'}), MESSAGE)
    changed = {entry.path for entry in done.plan.changes}
    assert changed == {"config.json", MANIFEST}
    assert not [entry for entry in hub.log[before:] if entry.method == "PUT"]
    entry = next(entry for entry in done.plan.entries if entry.path == "config.json")
    assert (entry.change, entry.old_size, entry.new_size) == ("changed", 2, 8)
    assert entry.old_sha256 is not None
    assert entry.old_sha256 != entry.new_sha256


def test_what_is_no_longer_published_is_deleted_and_the_rest_is_left_alone(
    api: HfApi, target: str, staging: Stage
) -> None:
    publish(api, target, staging(), MESSAGE)
    edit(api, "notes.txt", b"mine")
    attributes = content(api, ".gitattributes")
    fewer = {path: data for path, data in FILES.items() if path != "config.json"}
    done = publish(api, target, staging(fewer), MESSAGE)
    assert [entry.path for entry in done.plan.entries if entry.change == "deleted"] == ["config.json"]
    assert content(api, "config.json") is None
    assert content(api, "notes.txt") == b"mine"
    assert content(api, ".gitattributes") == attributes
    assert commits(api)[0] == "Publish"


def test_what_the_targets_gitignore_names_is_published_all_the_same(
    api: HfApi, target: str, staging: Stage
) -> None:
    edit(api, ".gitignore", b"*.json\nonnx/\n")
    publish(api, target, staging(), MESSAGE)
    assert {path: content(api, path) for path in FILES} == FILES


def test_the_key_says_that_there_is_nothing_to_do(api: HfApi, target: str, staging: Stage) -> None:
    assert not already_published(read_target(api, target), "key 1")
    publish(api, target, staging(), MESSAGE)
    state = read_target(api, target)
    assert already_published(state, "key 1")
    assert not already_published(state, "key 2")
    assert state.report == {"a": 1}
    edit(api, "notes.txt", b"mine")
    assert already_published(read_target(api, target), "key 1")
    edit(api, "config.json", b"[]")
    assert not already_published(read_target(api, target), "key 1")


def test_reading_the_target_downloads_no_model(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    publish(api, target, staging(), MESSAGE)
    before = len(hub.log)
    assert already_published(read_target(api, target), "key 1")
    read = [entry.path.rpartition("/")[2] for entry in hub.log[before:] if "/resolve/" in entry.path]
    assert sorted(read) == [MANIFEST, "report.json"]


def test_a_manifest_without_git_ids_still_shows_edits(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    manifest = json.loads(content(api, MANIFEST) or b"")
    del manifest["git_oids"]
    edit(api, MANIFEST, json.dumps(manifest).encode())
    assert already_published(read_target(api, target), "key 1")
    edit(api, "config.json", b"[]")
    assert read_target(api, target).edited() == {"config.json": "edited since"}


def test_a_missing_repo_is_a_state(api: HfApi, staging: Stage) -> None:
    state = read_target(api, "alice/none")
    assert not state.exists
    plan = make_plan(api, state, staging())
    assert {entry.change for entry in plan.changes} == {"added"}
    assert not plan.conflicts


def test_a_dry_run_needs_no_token_and_changes_nothing(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    publish(api, target, staging(), MESSAGE)
    before = len(hub.log)
    anonymous = connect(hub.endpoint, False)
    plan = make_plan(anonymous, read_target(anonymous, target), staging({**FILES, "new": b"1"}))
    assert {(entry.path, entry.change) for entry in plan.changes} == {
        ("new", "added"),
        (MANIFEST, "changed"),
    }
    assert {(entry.method, entry.has_auth) for entry in hub.log[before:]} == {("GET", False)}


# -- the work of others


@pytest.mark.parametrize("path", ["README.md", "onnx/model.onnx"])
def test_an_edited_file_is_not_overwritten(api: HfApi, target: str, staging: Stage, path: str) -> None:
    publish(api, target, staging(), MESSAGE)
    head = edit(api, path, b"somebody's edit\0")
    files = {**FILES, path: FILES[path] + b" v2"}
    error = error_of(lambda: publish(api, target, staging(files), MESSAGE))
    assert error.kind == "target_edited"
    assert error.details["files"] == [path]
    assert path in error.what
    assert "--as-pr" in str(error.hint)
    assert api.model_info(target).sha == head


def test_a_file_that_is_not_ours_is_not_overwritten(api: HfApi, target: str, staging: Stage) -> None:
    head = edit(api, "README.md", b"# By hand\n")
    error = error_of(lambda: publish(api, target, staging(), MESSAGE))
    assert (error.kind, error.details["files"]) == ("target_edited", ["README.md"])
    assert api.model_info(target).sha == head


def test_a_file_that_is_not_ours_but_the_same_is_no_conflict(api: HfApi, target: str, staging: Stage) -> None:
    edit(api, "README.md", CARD)
    assert publish(api, target, staging(), MESSAGE).changed


def test_a_manifest_that_is_not_ours_is_not_overwritten(api: HfApi, target: str, staging: Stage) -> None:
    edit(api, MANIFEST, b'{"manifest_version": 3}')
    assert error_of(lambda: publish(api, target, staging(), MESSAGE)).details["files"] == [MANIFEST]


def test_the_hubs_own_attributes_are_never_ours(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    manifest = json.loads(content(api, MANIFEST) or b"")
    attributes = content(api, ".gitattributes") or b""
    manifest["files"][".gitattributes"] = hashlib.sha256(attributes).hexdigest()
    edit(api, MANIFEST, json.dumps(manifest).encode())
    publish(api, target, staging(key="key 2"), MESSAGE)
    assert content(api, ".gitattributes") == attributes


def test_a_stale_file_that_was_edited_is_not_deleted(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    edit(api, "config.json", b'{"by": "hand"}')
    fewer = {path: data for path, data in FILES.items() if path != "config.json"}
    error = error_of(lambda: publish(api, target, staging(fewer), MESSAGE))
    assert error.details["files"] == ["config.json"]
    assert content(api, "config.json") == b'{"by": "hand"}'


def test_a_file_that_somebody_deleted_does_not_come_back(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    api.create_commit(REPO, [CommitOperationDelete("onnx/model.onnx")], commit_message="broken")
    error = error_of(lambda: publish(api, target, staging(key="key 2"), MESSAGE))
    assert "onnx/model.onnx (deleted since)" in error.what


def test_an_edit_that_is_what_we_publish_now_is_no_conflict(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    edit(api, "config.json", b"[]")
    files = {**FILES, "config.json": b"[]"}
    assert publish(api, target, staging(files), MESSAGE).changed


# -- races and faults


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


# -- permission


def test_a_read_only_token_is_found_out_first(hub: LocalHub, api: HfApi, target: str) -> None:
    reader = connect(hub.endpoint, "hf_alice_read")
    for options in ({}, {"create": True}, {"as_pr": True}):
        error = error_of(lambda options=options: ensure_target(reader, target, **options))
        assert error.kind == "read_only_token"
    error = error_of(lambda: ensure_target(reader, "alice/new", create=True))
    assert error.kind == "read_only_token"
    assert not api.repo_exists("alice/new")
    assert commits(api) == ["initial commit"]


def test_a_read_only_token_at_the_commit(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    reader = connect(hub.endpoint, "hf_alice_read")
    assert error_of(lambda: publish(reader, target, staging(), MESSAGE)).kind == "read_only_token"
    assert commits(api) == ["initial commit"]


def test_somebody_elses_repo(hub: LocalHub, target: str) -> None:
    bob = connect(hub.endpoint, "hf_bob_write")
    assert error_of(lambda: ensure_target(bob, target)).kind == "forbidden"
    ensure_target(bob, target, as_pr=True)


def test_no_token_and_a_wrong_one(hub: LocalHub, target: str) -> None:
    assert error_of(lambda: ensure_target(connect(hub.endpoint, False), target)).kind == "unauthorized"
    before = len(hub.log)
    assert error_of(lambda: ensure_target(connect(hub.endpoint, None), target)).kind == "unauthorized"
    assert len(hub.log) == before
    wrong = connect(hub.endpoint, "hf_wrong")
    with pytest.raises(HubError) as caught:
        ensure_target(wrong, target)
    assert caught.value.kind == "unauthorized"


def test_a_missing_repo_is_created_only_on_demand(hub: LocalHub, api: HfApi, staging: Stage) -> None:
    error = error_of(lambda: ensure_target(api, REPO))
    assert error.kind == "repo_not_found"
    assert "create: true" in str(error.hint)
    assert not api.repo_exists(REPO)
    ensure_target(api, REPO, create=True, private=True)
    assert api.model_info(REPO).private
    ensure_target(api, REPO, create=True)
    assert publish(api, REPO, staging(), MESSAGE).changed
    assert len(hub.requests("POST /api/repos/create")) == 1


# -- pull requests


def as_pr(api: HfApi, files: list[StagedFile]) -> Published:
    return publish(api, REPO, files, MESSAGE, as_pr=True)


def text_of(api: HfApi, number: int) -> str:
    return api.get_discussion_details(REPO, number).events[0].content


def test_a_pull_request_is_opened_and_main_left_alone(api: HfApi, target: str, staging: Stage) -> None:
    done = as_pr(api, staging())
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/1"
    assert commits(api) == ["initial commit"]
    assert content(api, "README.md", "refs/pr/1") == CARD
    assert api.get_discussion_details(REPO, 1).title == "Publish"
    assert "Made with care." in text_of(api, 1)


def test_the_same_again_makes_no_commit_and_no_other_request(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    first = as_pr(api, staging())
    before = len(hub.log)
    again = as_pr(api, staging())
    assert not again.changed
    assert (again.pull_request, again.commit) == (first.pull_request, first.commit)
    assert {entry.method for entry in hub.log[before:]} == {"GET"}


def test_the_open_request_is_updated(api: HfApi, target: str, staging: Stage) -> None:
    as_pr(api, staging())
    files = {**FILES, "README.md": CARD + b"new", "more.txt": b"1"}
    done = publish(api, REPO, staging(files), Message("Publish more", "Better."), as_pr=True)
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/1"
    assert content(api, "README.md", "refs/pr/1") == CARD + b"new"
    assert commits(api, "refs/pr/1")[:2] == ["Publish more", "Publish"]
    assert "Better." in text_of(api, 1)
    assert "Made with care." not in text_of(api, 1)


def test_after_a_merge_or_a_close_a_new_one_is_opened(api: HfApi, target: str, staging: Stage) -> None:
    as_pr(api, staging())
    api.merge_pull_request(REPO, 1)
    assert not as_pr(api, staging()).changed
    assert as_pr(api, staging({**FILES, "more.txt": b"1"})).pull_request == (
        f"{api.endpoint}/{REPO}/discussions/2"
    )
    api.change_discussion_status(REPO, 2, "closed")
    assert as_pr(api, staging({**FILES, "more.txt": b"2"})).pull_request == (
        f"{api.endpoint}/{REPO}/discussions/3"
    )


def test_the_requests_of_others_are_left_alone(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    bob = connect(hub.endpoint, "hf_bob_write")
    marked = as_pr(api, staging())
    text = text_of(api, 1)
    api.change_discussion_status(REPO, 1, "closed")
    edit(bob, "b.txt", b"1", create_pr=True, commit_description=text)  # the marker is no secret
    edit(api, "c.txt", b"1", create_pr=True)  # by hand, with the same account
    done = as_pr(api, staging())
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/4"
    assert marked.pull_request != done.pull_request
    assert content(api, MANIFEST, "refs/pr/2") is None


def test_a_request_explains_what_it_would_replace(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    edit(api, "README.md", b"# By hand\n")
    head = edit(api, "more.txt", b"by hand")
    files = {**FILES, "README.md": CARD + b"new", "more.txt": b"ours"}
    as_pr(api, staging(files))
    assert "- `README.md`: edited since" in text_of(api, 1)
    assert "- `more.txt`: not published by hubpublish" in text_of(api, 1)
    assert api.model_info(target).sha == head
    assert content(api, "README.md", "refs/pr/1") == CARD + b"new"


def test_a_request_that_was_opened_before_explains_it_too(api: HfApi, target: str, staging: Stage) -> None:
    edit(api, "more.txt", b"by hand")
    as_pr(api, staging())
    assert "more.txt" not in text_of(api, 1)
    as_pr(api, staging({**FILES, "more.txt": b"ours"}))
    assert "- `more.txt`: not published by hubpublish" in text_of(api, 1)
    assert content(api, "more.txt", "refs/pr/1") == b"ours"


def test_commits_of_others_on_our_request_are_not_overwritten(
    api: HfApi, target: str, staging: Stage
) -> None:
    as_pr(api, staging())
    edit(api, "README.md", b"# Improved\n", revision="refs/pr/1")
    error = error_of(lambda: as_pr(api, staging({**FILES, "README.md": CARD + b"new"})))
    assert error.kind == "target_edited"
    assert error.where == f"{api.endpoint}/{REPO}/discussions/1"
    assert content(api, "README.md", "refs/pr/1") == b"# Improved\n"


def test_the_answer_to_a_new_request_is_lost(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    hub.fault(COMMITS, "drop_response")
    done = as_pr(api, staging())
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/1"
    assert len(list(api.get_repo_discussions(REPO))) == 1


def test_a_request_by_somebody_without_write_access(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    bob = connect(hub.endpoint, "hf_bob_write")
    ensure_target(bob, target, as_pr=True)
    assert as_pr(bob, staging()).changed
    assert not as_pr(bob, staging()).changed
    assert as_pr(bob, staging({**FILES, "more.txt": b"1"})).changed
    assert commits(api) == ["initial commit"]


# -- keyless, and secrets


def test_keyless(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    hub.publishers[target] = "repo:alice/recipes:ref:refs/heads/main"
    code = (
        "import sys; from pathlib import Path; from hubpublish.hub import connect\n"
        "from hubpublish.publish import *\n"
        "files = [stage(path, Path(local)) for path, local in zip(sys.argv[1::2], sys.argv[2::2])]\n"
        "api = connect(None, None)\n"
        f"ensure_target(api, {target!r}); publish(api, {target!r}, files, Message('Keyless'))\n"
    )
    environment = {
        "HF_ENDPOINT": hub.endpoint,
        "HF_OIDC_RESOURCE": target,
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_URL": hub.identity_url,
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": hub.publishers[target],
    }
    argv = [part for file in staging() for part in (file.path, str(file.local))]
    subprocess.run(
        [sys.executable, "-c", code, *argv], env={**os.environ, **environment}, check=True, timeout=60
    )
    assert commits(api)[0] == "Keyless"


def test_no_token_in_any_log(
    hub: LocalHub, api: HfApi, target: str, staging: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    client = logging.getLogger("huggingface_hub")
    client.addHandler(caplog.handler)
    level = client.level
    try:
        with caplog.at_level(logging.DEBUG):
            client.setLevel(logging.DEBUG)
            publish(api, target, staging(), MESSAGE)
            hub.fault(r"GET /api/models", "status", status=500, times=None)
            error_of(lambda: read_target(api, target))
    finally:
        client.removeHandler(caplog.handler)
        client.setLevel(level)
    assert "Request" in caplog.text  # it did log
    assert "hf_alice" not in caplog.text
    assert "sig=" not in caplog.text
