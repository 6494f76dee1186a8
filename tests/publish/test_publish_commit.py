import json

from huggingface_hub import HfApi

from hubpublish.hub import connect
from hubpublish.layout import MANIFEST
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    already_published,
    make_plan,
    publish,
    read_target,
)
from tests.publish.publishing import FILES, MESSAGE, Stage, commits, content, edit


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
