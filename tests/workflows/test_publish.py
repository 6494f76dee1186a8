"""publish.yml, step by step, against a Hub on this machine."""

from __future__ import annotations

from tests.publication import TARGET, commit
from tests.workflows.archives import RECIPE
from tests.workflows.conftest import Lab

BROKEN = "configs/broken.yaml"


def test_a_recipe_is_published_once_and_attested_without_a_stored_token(lab: Lab) -> None:
    run = lab.publish()
    assert run.conclusion == "success", run.log
    assert run.left_out == []
    job = run.job("publish")
    assert job.matrix == {"recipe": RECIPE, "target": TARGET}
    commits = lab.publication.commits()
    assert len(commits) == 2  # the Hub's own, and ours
    assert lab.publication.read("onnx/model.onnx")
    (attested,) = job.attested
    assert attested["type"] == "https://slsa.dev/provenance/v1"
    assert "onnx/model.onnx" in attested

    again = lab.publish()
    assert again.conclusion == "success"
    assert again.jobs["publish"] == []
    assert lab.publication.commits() == commits


def test_what_stands_in_the_target_is_left_alone(lab: Lab) -> None:
    lab.publish()
    commits = lab.publication.commits()
    lab.publication.api.update_repo_settings(TARGET, private=True)
    job = lab.publish().job("publish")  # it looks as if the target were missing
    assert job.result == "success", job.log
    assert "Nothing to do" in job.log
    assert job.attested == []
    assert lab.publication.commits() == commits

    lab.publication.api.update_repo_settings(TARGET, private=False)
    commit(lab.publication.api, TARGET, {"README.md": b"---\nlicense: mit\n---\nBetter words.\n"})
    run = lab.publish()
    assert run.jobs["publish"] == []
    assert f"::warning file={RECIPE}::not published: somebody has to look at {TARGET}: README.md" in run.log
    assert run.conclusion == "success"


def test_a_broken_recipe_fails_in_a_job_of_its_own_and_stops_no_other(lab: Lab) -> None:
    lab.commit({BROKEN: "schema: 1\n"})
    run = lab.publish()
    broken, small = run.jobs["publish"]
    assert (broken.matrix["recipe"], broken.result) == (BROKEN, "failure")
    assert (small.matrix["recipe"], small.result) == (RECIPE, "success")
    assert run.job("recipes").result == "success"
    assert f"::error file={BROKEN}::" in run.job("recipes").log
    assert run.conclusion == "failure"
    assert len(lab.publication.commits()) == 2
