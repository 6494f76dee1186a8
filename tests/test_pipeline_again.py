"""Runs that follow others: the tag that is missing, what was rolled back, what people wrote into the card."""

from __future__ import annotations

import json
import re

import pytest

from hubpublish.errors import HubError
from hubpublish.recipe import Recipe
from hubpublish.rollback import RollbackOptions, roll_back
from tests.publication import TARGET, TOKEN, Publication, commit
from tests.publish.publishing import after_planning

COMMITS = rf"POST /api/models/{TARGET}/commit/"
TAGS = rf"POST /api/models/{TARGET}/tag/"


def tags(publication: Publication) -> dict[str, str]:
    return {tag.name: tag.target_commit for tag in publication.api.list_repo_refs(TARGET).tags}


def other(publication: Publication, bound: int = 5, **changes: object) -> Recipe:
    """A recipe with another result for the same source."""
    return publication.recipe(passes=[{"concat_tree": {"max_inputs": bound}}, "split_tree"], **changes)


def go_back(publication: Publication) -> None:
    options = RollbackOptions(endpoint=publication.hub.endpoint, token=TOKEN)
    assert roll_back(publication.recipe(), options, {}, publication.said.append).status == "rolled_back"


def withdrawn(publication: Publication) -> list[str]:
    found = json.loads(publication.read("manifest.json"))["withdrawn"]
    assert isinstance(found, list)
    return found


def test_what_was_published_and_read_back_is_tagged(publication: Publication) -> None:
    source = publication.seed()
    done = publication.run(publication.recipe(target={"tag": "from-{source}"}))
    assert tags(publication) == {f"from-{source[:12]}": done.commit}
    asked = [f"{each.method} {each.path}" for each in publication.hub.log]
    last = {each: max(i for i, line in enumerate(asked) if re.search(each, line)) for each in (COMMITS, TAGS)}
    read_back = max(i for i, line in enumerate(asked) if "/paths-info/" in line)
    assert last[COMMITS] < read_back < last[TAGS]


def test_a_missing_tag_is_set_by_the_next_run(publication: Publication) -> None:
    publication.seed()
    recipe = publication.recipe(target={"tag": "v-{key}"})
    rule = publication.hub.fault(TAGS, "status", status=500, times=None)
    with pytest.raises(HubError) as caught:
        publication.run(recipe)
    head = publication.api.model_info(TARGET).sha
    assert caught.value.details["published"] == head
    assert tags(publication) == {}
    publication.hub.faults.clear()
    assert rule.fired
    assert publication.run(recipe).status == "nothing_to_do"
    assert list(tags(publication).values()) == [head]
    before = len(publication.hub.log)
    assert publication.run(recipe).status == "nothing_to_do"
    assert {entry.method for entry in list(publication.hub.log)[before:]} == {"GET"}


def test_a_dry_run_and_a_pull_request_set_no_tag(publication: Publication) -> None:
    publication.seed()
    publication.run()
    recipe = other(publication, target={"tag": "v1"})
    assert publication.run(recipe, dry_run=True).status == "dry_run"
    assert publication.run(recipe, as_pr=True).status == "pull_request"
    assert publication.run(recipe, as_pr=True).status == "nothing_to_do"
    assert tags(publication) == {}


def test_a_tag_that_another_result_has_stops_the_run_before_its_work(publication: Publication) -> None:
    publication.seed()
    first = publication.run(publication.recipe(target={"tag": "v1"}))
    publication.said.clear()
    with pytest.raises(HubError) as caught:
        publication.run(other(publication, target={"tag": "v1"}))
    assert caught.value.kind == "tag_taken"
    assert tags(publication) == {"v1": first.commit}
    assert not any(line.startswith("rewriting") for line in publication.said)
    assert len(publication.commits()) == 2


def test_what_was_rolled_back_is_not_published_again_by_itself(publication: Publication) -> None:
    publication.seed()
    publication.run()
    publication.run(other(publication))
    go_back(publication)
    count, head = len(publication.commits()), publication.api.model_info(TARGET).sha
    publication.said.clear()
    for as_pr in (False, True):
        done = publication.run(other(publication), as_pr=as_pr)
        assert (done.status, done.commit) == ("withdrawn", head)
    assert not any(line.startswith("rewriting") for line in publication.said)
    assert publication.run(other(publication), dry_run=True).status == "dry_run"
    assert publication.run().status == "nothing_to_do"
    assert len(publication.commits()) == count


def test_what_was_rolled_back_is_published_again_by_force(publication: Publication) -> None:
    publication.seed()
    publication.run()
    publication.run(other(publication))
    go_back(publication)
    assert publication.run(other(publication), force=True).status == "published"
    assert withdrawn(publication) == []
    assert publication.run(other(publication)).status == "nothing_to_do"


def test_what_was_rolled_back_stays_so_when_something_else_is_published(publication: Publication) -> None:
    publication.seed()
    publication.run()
    publication.run(other(publication))
    key = json.loads(publication.read("manifest.json"))["key"]
    go_back(publication)
    assert publication.run(force=True).status == "nothing_to_do"  # it does not forget either
    assert publication.run(other(publication, 4)).status == "published"
    assert withdrawn(publication) == [key]
    assert publication.run(other(publication)).status == "withdrawn"


def test_what_is_rolled_back_while_it_is_published_again_is_not(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication.seed()
    publication.run()
    recipe = other(publication)
    publication.run(recipe)
    commit(publication.api, TARGET, {"config.json": b"edited"})  # so that a run has something to plan
    commit(publication.api, TARGET, {"config.json": publication.staged.joinpath("config.json").read_bytes()})
    publication.run(other(publication, 4))
    elsewhere = publication.folder / "elsewhere"
    after_planning(monkeypatch, lambda: (publication.run(recipe, out=elsewhere), go_back(publication)))
    with pytest.raises(HubError) as caught:
        publication.run(recipe)
    assert caught.value.kind == "withdrawn"
    assert withdrawn(publication)


def test_words_that_would_be_lost_stop_the_run_before_its_work(publication: Publication) -> None:
    publication.seed()
    publication.run(publication.recipe(card={"free_text": ["notes"]}))
    card = publication.read("README.md").decode()
    opening = "<!-- free text: notes -->"
    assert opening in card
    text = card.replace("<!-- end of free text: notes -->", "My words.\n\n<!-- end of free text: notes -->")
    commit(publication.api, TARGET, {"README.md": text.encode()})
    kept = publication.run(other(publication, card={"free_text": ["notes"]}))
    assert kept.status == "published"
    assert "My words." in publication.read("README.md").decode()
    publication.said.clear()
    with pytest.raises(HubError) as caught:
        publication.run()
    assert caught.value.kind == "target_edited"
    assert "notes" in caught.value.what
    assert not any(line.startswith("rewriting") for line in publication.said)
