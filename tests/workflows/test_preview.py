"""preview.yml and what comment.yml makes of it: from a pull request to its comment."""

from __future__ import annotations

from tests.publication import TARGET
from tests.workflows.archives import RECIPE, unpacked
from tests.workflows.conftest import Lab


def changed(lab: Lab, old: str = "", new: str = "") -> str:
    """The recipe with another text of the card, or another change."""
    text = lab.show("main").replace("card:\n", "card:\n  summary: Another summary.\n")
    return text.replace(old, new) if old else text


def test_a_pull_request_is_previewed_and_commented_on_once(lab: Lab) -> None:
    lab.commit({RECIPE: changed(lab)}, branch="work")
    pull = lab.github.pull("work")
    run = lab.preview("work", pull)
    assert run.conclusion == "success", run.log
    assert run.left_out == []
    assert f"# What publishing to {TARGET} would change" in run.job("dry-run").summary
    files = unpacked(run.artifacts["preview-0"])
    assert {"about.json", "preview.md", "run.json", "staged/README.md", "staged/report.json"} <= set(files)
    assert not any(name.endswith(".onnx") for name in files)
    assert lab.publication.nothing_is_published()

    job = lab.comment(run, "work")
    assert "comment on 1: made" in job.log
    ((_, comment),) = lab.github.comments.items()
    assert comment["pull"] == pull
    assert "<details open><summary>configs/small.yaml</summary>" in comment["body"]
    assert "+Another summary." in comment["body"]
    assert "| `sum_to_add` | 1 Sum | 2 Add |" in comment["body"]


def test_a_dry_run_that_fails_says_why_in_summary_and_comment(lab: Lab) -> None:
    pinned = lab.publication.recipe().variants[0].sha256
    lab.commit({RECIPE: changed(lab, pinned, "0" * 64)}, branch="work")
    pull = lab.github.pull("work")
    run = lab.preview("work", pull)
    assert run.job("dry-run").result == "failure"
    assert f"# The dry run of {RECIPE} failed" in run.job("dry-run").summary
    lab.comment(run, "work")
    (comment,) = lab.github.comments.values()
    assert f"<summary>{RECIPE}: failed</summary>" in comment["body"]
    assert "onnx/model.onnx" in comment["body"]


def test_a_pull_request_that_concerns_no_recipe_has_no_jobs_and_no_comment(lab: Lab) -> None:
    lab.commit({"README.md": "words"}, branch="work")
    pull = lab.github.pull("work")
    run = lab.preview("work", pull)
    assert run.jobs["dry-run"] == []
    assert "not needed" in lab.comment(run, "work").log
    assert lab.github.comments == {}
