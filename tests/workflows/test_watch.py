"""watch.yml: pull requests that follow upstream, step by step, and what a merge does."""

from __future__ import annotations

from tests.publication import SMALL, SOURCE, commit, model_bytes, sha256
from tests.workflows.archives import RECIPE
from tests.workflows.conftest import Lab
from tests.workflows.fake_github import BOT

BRANCH = "bump/small"


def upstream_moves(lab: Lab, weight: str = "0.7") -> str:
    """The source's author publishes other weights; their SHA-256."""
    model = model_bytes(SMALL.replace("0.5, -1.0", f"{weight}, -1.0"))
    commit(lab.publication.api, SOURCE, {"onnx/model.onnx": model})
    return sha256(model)


def test_a_bump_is_proposed_previewed_and_published_by_a_merge(lab: Lab) -> None:
    new = upstream_moves(lab)
    run = lab.watch()
    assert run.conclusion == "success", run.log
    assert run.left_out == []
    (pull,) = lab.github.pulls.values()
    assert (pull["ref"], pull["base"], pull["login"]) == (BRANCH, "main", BOT)
    assert new in lab.show(BRANCH)
    assert lab.show(BRANCH).startswith("# A recipe.\n")
    assert "`onnx/model.onnx`" in pull["body"]
    assert lab.github.dispatched == [("preview.yml", BRANCH), ("ci.yml", BRANCH)]

    preview = lab.preview(BRANCH)
    assert preview.conclusion == "success", preview.log
    assert "comment on 1: made" in lab.comment(preview, BRANCH, event="workflow_dispatch").log
    (comment,) = lab.github.comments.values()
    assert "**same bits**" in comment["body"]

    lab.git("fetch", "--quiet", "origin")
    lab.git("push", "--quiet", "origin", f"refs/remotes/origin/{BRANCH}:refs/heads/main")
    pull.update(state="closed", merged_at="2030-01-01T00:00:00Z")
    assert lab.publish().conclusion == "success"
    assert new in lab.publication.read("report.json").decode()
    assert lab.watch().jobs["propose"] == []


def test_a_bump_follows_upstream_and_a_broken_recipe_does_not_stop_it(lab: Lab) -> None:
    lab.commit({"configs/broken.yaml": "schema: 1\n"})
    upstream_moves(lab)
    run = lab.watch()
    assert run.job("propose").result == "success", run.log
    assert run.job("bump").result == "failure"
    assert "::error file=configs/broken.yaml::" in run.log

    first, writes = lab.github.sha(BRANCH), lab.github.writes()
    run = lab.watch()
    assert f"::notice file={RECIPE}::pull request 1 stands for it already" in run.log
    assert run.jobs["propose"] == []
    assert (lab.github.sha(BRANCH), lab.github.writes()) == (first, writes)

    new = upstream_moves(lab, "0.8")
    lab.watch()
    (pull,) = lab.github.pulls.values()
    assert new in lab.show(BRANCH)
    assert new[:12] in pull["body"]
    lab.git("fetch", "--quiet", "origin")
    assert lab.git("log", "--format=%an", f"origin/main..origin/{BRANCH}") == BOT  # one commit, on main
