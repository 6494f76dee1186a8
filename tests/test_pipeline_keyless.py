"""A job without a stored token: its identity is exchanged once there is something to publish."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from huggingface_hub import HfApi

from hubpublish.localhub import LocalHub
from tests.cli.running import Done, in_a_process
from tests.publication import SOURCE, TARGET, TOKEN, Publication, recipe_data

JOB = "repo:acme/recipes:ref:refs/heads/main"
EXCHANGE = "POST /oauth/token"


class Workflow:
    """Runs of a workflow that the target names as its Trusted Publisher."""

    def __init__(self, publication: Publication, folder: Path) -> None:
        self._publication, self._folder = publication, folder
        publication.seed()
        publication.api.create_repo(TARGET)
        publication.hub.publishers[TARGET] = JOB
        folder.joinpath("recipe.yaml").write_text(yaml.safe_dump(recipe_data(publication.models)))

    def run(self, *arguments: str, **environ: str) -> Done:
        hub = self._publication.hub
        identity = {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": hub.identity_url,
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": JOB,
        }
        given = {"HF_ENDPOINT": hub.endpoint, "HF_OIDC_RESOURCE": TARGET, **identity, **environ}
        hub.log.clear()
        return in_a_process("run", "recipe.yaml", "--json", *arguments, folder=self._folder, **given)

    @property
    def asked(self) -> list[str]:
        """The requests of the last run, in order."""
        return [f"{entry.method} {entry.path}" for entry in self._publication.hub.log]


@pytest.fixture
def workflow(publication: Publication, tmp_path: Path) -> Workflow:
    return Workflow(publication, tmp_path)


def test_the_identity_is_exchanged_after_everything_is_proved(
    workflow: Workflow, publication: Publication
) -> None:
    done = workflow.run()
    assert done.json["status"] == "published", done.err
    assert workflow.asked.count(EXCHANGE) == 1
    before = workflow.asked[: workflow.asked.index(EXCHANGE)]
    assert any("/resolve/" in each and each.endswith("model.onnx") for each in before)
    assert "POST /api/validate-yaml" in before  # of the card, which is made after the proof
    assert len(publication.commits()) == 2


def test_a_run_with_nothing_to_do_asks_for_no_token(workflow: Workflow) -> None:
    assert workflow.run().code == 0
    done = workflow.run()
    assert done.json["status"] == "nothing_to_do"
    assert EXCHANGE not in workflow.asked
    assert not any("identity" in each for each in workflow.asked)


def test_a_dry_run_asks_for_no_token(workflow: Workflow) -> None:
    assert workflow.run("--dry-run").json["status"] == "dry_run"
    assert EXCHANGE not in workflow.asked


def test_a_private_target_is_seen_with_the_token_alone(workflow: Workflow, publication: Publication) -> None:
    publication.api.update_repo_settings(TARGET, visibility="private")
    assert workflow.run().json["status"] == "published"
    assert workflow.run().json["status"] == "nothing_to_do"
    assert len(publication.commits()) == 2


def test_a_private_target_with_words_of_people_is_published_again(
    workflow: Workflow, publication: Publication, tmp_path: Path
) -> None:
    publication.api.update_repo_settings(TARGET, visibility="private")
    for bound in (5, 4):
        passes = [{"concat_tree": {"max_inputs": bound}}, "split_tree", "sum_to_add"]
        free = {"free_text": ["notes"]}
        data = recipe_data(publication.models, card=free, passes=passes, target={"tag": "v-{key}"})
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(data))
        done = workflow.run()
        assert done.json["status"] == "published", done.err
    assert len(publication.api.list_repo_refs(TARGET).tags) == 2


def test_what_only_a_token_may_read_is_read_with_it(workflow: Workflow, publication: Publication) -> None:
    publication.api.update_repo_settings(SOURCE, visibility="private")
    assert workflow.run().error["kind"] == "repo_not_found"
    assert workflow.run(HF_TOKEN=TOKEN).json["status"] == "published"
    assert EXCHANGE in workflow.asked


def test_an_identity_for_another_repo_is_refused_before_the_work(workflow: Workflow) -> None:
    done = workflow.run(HF_OIDC_RESOURCE="acme/other")
    assert (done.code, done.error["kind"]) == (2, "oidc_resource")
    assert TARGET in done.error["message"]
    assert not any("/resolve/" in each for each in workflow.asked)


def test_an_identity_is_not_exchanged_at_a_hub_that_is_not_meant(
    workflow: Workflow, publication: Publication, closed_port: str
) -> None:
    done = workflow.run("--endpoint", publication.hub.endpoint, HF_ENDPOINT=closed_port)
    assert (done.code, done.error["kind"]) == (2, "bad_endpoint")
    assert "HF_ENDPOINT" in done.error["hint"]


def test_an_identity_that_may_not_publish_publishes_nothing(
    workflow: Workflow, publication: Publication, hub: LocalHub, api: HfApi
) -> None:
    hub.publishers[TARGET] = "repo:somebody/else:ref:refs/heads/main"
    done = workflow.run()
    assert (done.code, done.error["kind"]) == (6, "unauthorized")
    assert "Trusted Publisher" in done.error["hint"]
    assert publication.nothing_is_published()
