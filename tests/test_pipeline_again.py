"""Runs that follow others: the tag that is missing, what was rolled back, what people wrote into the card."""

from __future__ import annotations

import json
import re

import pytest

from hubpublish import report
from hubpublish.errors import HubError
from hubpublish.recipe import Recipe
from hubpublish.rollback import RollbackOptions, RollbackResult, roll_back
from tests.publication import FILES, SOURCE, TARGET, TOKEN, Publication, commit
from tests.publish.publishing import after_planning

COMMITS = rf"POST /api/models/{TARGET}/commit/"
TAGS = rf"POST /api/models/{TARGET}/tag/"


def tags(publication: Publication) -> dict[str, str]:
    return {tag.name: tag.target_commit for tag in publication.api.list_repo_refs(TARGET).tags}


def other(publication: Publication, bound: int = 5, **changes: object) -> Recipe:
    """A recipe with another result for the same source."""
    return publication.recipe(passes=[{"concat_tree": {"max_inputs": bound}}, "split_tree"], **changes)


def go_back(publication: Publication, to: str | None = None) -> RollbackResult:
    options = RollbackOptions(endpoint=publication.hub.endpoint, token=TOKEN, to=to)
    return roll_back(publication.recipe(), options, {}, publication.said.append)


def upstream_moves(publication: Publication) -> None:
    """Somebody corrects the source's README; no file that is taken changes."""
    commit(publication.api, SOURCE, {"README.md": FILES["README.md"] + b"Corrected.\n"})


@pytest.fixture
def rolled_back(publication: Publication) -> Publication:
    """A good publication, a bad one, and the good one again."""
    publication.seed()
    publication.run()
    publication.run(other(publication))
    assert go_back(publication).status == "rolled_back"
    return publication


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
    assert key in withdrawn(publication)
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


def test_what_was_rolled_back_does_not_come_back_when_upstream_moves(rolled_back: Publication) -> None:
    upstream_moves(rolled_back)
    assert rolled_back.run(other(rolled_back)).status == "withdrawn"
    assert rolled_back.run().status == "published"  # what is there, from the newer commit
    assert rolled_back.run(other(rolled_back)).status == "withdrawn"


def test_what_was_rolled_back_does_not_come_back_with_other_versions(
    rolled_back: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are the same, so it takes the work to see it."""
    versions = {**report.versions(), "numpy": "9.9"}
    monkeypatch.setattr(report, "versions", lambda **_: versions)
    assert rolled_back.run(other(rolled_back)).status == "withdrawn"
    assert rolled_back.read("onnx/model.onnx") != (rolled_back.staged / "onnx/model.onnx").read_bytes()


def test_a_rollback_goes_back_to_other_models(publication: Publication) -> None:
    publication.seed()
    good = publication.run()
    publication.run(other(publication))
    upstream_moves(publication)
    publication.run(other(publication))
    assert go_back(publication).to == good.commit
    assert publication.run(other(publication)).status == "withdrawn"


def test_a_rollback_that_is_repeated_goes_no_further(publication: Publication) -> None:
    """After a lost answer it is not known whether it was done."""
    publication.seed()
    for bound in (6, 5, 4):
        publication.run(other(publication, bound))
    first = go_back(publication)
    again = go_back(publication)
    assert (again.status, again.to) == ("nothing_to_do", first.to)
    assert len(publication.commits()) == 5


def test_what_was_reverted_by_hand_is_withdrawn_by_a_rollback_to_it(publication: Publication) -> None:
    publication.seed()
    good = str(publication.run().commit)
    files = publication.published()
    publication.run(other(publication))
    commit(publication.api, TARGET, files)
    with pytest.raises(HubError) as caught:
        go_back(publication)  # it would be forward
    assert caught.value.kind == "nothing_to_roll_back"
    assert go_back(publication, good).status == "rolled_back"
    assert publication.run(other(publication)).status == "withdrawn"
    assert go_back(publication, good).status == "nothing_to_do"


def test_a_request_of_what_was_rolled_back_since_is_no_result(publication: Publication) -> None:
    publication.seed()
    publication.run()
    assert publication.run(other(publication), as_pr=True).status == "pull_request"
    publication.run(other(publication))
    assert go_back(publication).status == "rolled_back"
    assert publication.run(other(publication), as_pr=True).status == "withdrawn"


def test_a_merge_does_not_make_it_unsaid_that_something_was_rolled_back(rolled_back: Publication) -> None:
    """Git merges a request into a manifest that names its own key as withdrawn."""
    bad = {path: rolled_back.staged.joinpath(path).read_bytes() for path in ("onnx/model.onnx", "README.md")}
    manifest = json.loads((rolled_back.staged / "manifest.json").read_bytes())
    manifest["withdrawn"] = withdrawn(rolled_back)
    merged = {**rolled_back.published(), **bad, "manifest.json": json.dumps(manifest).encode()}
    commit(rolled_back.api, TARGET, merged)
    assert rolled_back.run(other(rolled_back)).status == "withdrawn"


def test_a_preview_says_that_a_result_was_rolled_back(rolled_back: Publication) -> None:
    assert rolled_back.run(other(rolled_back), dry_run=True).status == "dry_run"
    assert "was rolled back there" in (rolled_back.out / "preview.md").read_text()
    assert any("was rolled back" in line for line in rolled_back.said)


def test_a_withdrawn_result_is_not_fetched_again(rolled_back: Publication) -> None:
    before = len(rolled_back.hub.log)
    assert rolled_back.run(other(rolled_back), cache=rolled_back.folder / "empty").status == "withdrawn"
    assert not any("model.onnx" in entry.path for entry in list(rolled_back.hub.log)[before:])


def test_a_report_that_somebody_edited_is_an_edit_and_no_fault(publication: Publication) -> None:
    publication.seed()
    publication.run()
    copied = [{"path": "config.json", "sha256": "x"}, {"path": "LICENSE", "sha256": "x"}]
    commit(publication.api, TARGET, {"report.json": json.dumps({"copied": copied}).encode()})
    with pytest.raises(HubError) as caught:
        publication.run()
    assert caught.value.kind == "target_edited"
    assert publication.run(dry_run=True).status == "dry_run"


def test_a_tag_that_was_missing_marks_what_was_published_and_not_what_came_after(
    publication: Publication,
) -> None:
    publication.seed()
    recipe = publication.recipe(target={"tag": "from-{source}"})
    publication.hub.fault(TAGS, "status", status=500, times=None)
    with pytest.raises(HubError):
        publication.run(recipe)
    ours = publication.api.model_info(TARGET).sha
    publication.hub.faults.clear()
    manifest = json.loads(publication.read("manifest.json"))
    source, manifest["source_commit"] = manifest["source_commit"], "f" * 40
    commit(publication.api, TARGET, {"notes.txt": b"of somebody"})
    assert publication.run(recipe).status == "nothing_to_do"
    assert tags(publication) == {f"from-{source[:12]}": ours}
    commit(publication.api, TARGET, {"manifest.json": json.dumps(manifest).encode()})
    publication.run(recipe)
    assert list(tags(publication)) == [f"from-{source[:12]}"]


def test_a_token_that_expires_before_the_commit_publishes_nothing(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication.seed()
    publication.run()
    count = len(publication.commits())
    accounts = publication.hub.state.accounts
    accounts.tokens["hf_short_lived"] = accounts.tokens[TOKEN]
    after_planning(monkeypatch, lambda: accounts.tokens.pop("hf_short_lived"))
    with pytest.raises(HubError) as caught:
        publication.run(other(publication), token="hf_short_lived")
    assert (caught.value.kind, caught.value.exit_code) == ("unauthorized", 6)
    assert len(publication.commits()) == count
    assert publication.run(other(publication)).status == "published"
