import hashlib
import json

import pytest
from huggingface_hub import CommitOperationDelete, HfApi

from hubpublish.layout import MANIFEST
from hubpublish.publish import publish, read_target, refuse_edited
from tests.publish.publishing import CARD, FILES, MESSAGE, REPO, Stage, content, edit, error_of


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


def test_a_card_that_is_not_ours_is_told_early(api: HfApi, target: str, staging: Stage) -> None:
    refuse_edited(read_target(api, target))
    edit(api, "README.md", b"# By hand\n")
    error = error_of(lambda: refuse_edited(read_target(api, target)))
    assert (error.kind, error.details["files"]) == ("target_edited", ["README.md"])


def test_a_card_whose_manifest_is_gone_is_not_taken_for_another(
    api: HfApi, target: str, staging: Stage
) -> None:
    publish(api, target, staging(), MESSAGE)
    api.create_commit(target, [CommitOperationDelete(MANIFEST)], commit_message="delete")
    refuse_edited(read_target(api, target))
    assert publish(api, target, staging(), MESSAGE).changed


def test_a_report_that_was_made_a_trap_is_an_edit(api: HfApi, target: str, staging: Stage) -> None:
    """JSON so deep that reading it exhausts the stack."""
    publish(api, target, staging(), MESSAGE)
    edit(api, "report.json", b"[" * 100_000)
    state = read_target(api, target)
    assert state.report is None
    assert error_of(lambda: refuse_edited(state)).details["files"] == ["report.json"]
