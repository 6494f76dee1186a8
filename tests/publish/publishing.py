"""What the tests of publishing share."""

from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from hubpublish.errors import HubError
from hubpublish.publish import (
    Message,
    Plan,
    StagedFile,
    commit,
    make_plan,
    read_file,
    read_target,
)

REPO = "alice/target"
CARD = b"---\nlicense: mit\n---\n# Title\n"
FILES = {"README.md": CARD, "onnx/model.onnx": b"\0weights", "config.json": b"{}", "report.json": b'{"a": 1}'}
MESSAGE = Message("Publish", "Made with care.")
COMMITS = r"POST /api/models/alice/target/commit/"

Stage = Callable[..., list[StagedFile]]


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
