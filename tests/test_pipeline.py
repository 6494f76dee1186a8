from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd

from hubpublish.errors import HubError, RecipeError, UsageError
from hubpublish.layout import OWN_FILES
from tests.errors import error_of
from tests.publication import SOURCE, TARGET, Publication, commit, files_below, model_bytes, sha256
from tests.publish.publishing import after_planning

MASK = """<ir_version: 8, opset_import: ["": 13]> g (float[1,3,8,8] x) => (float[1,1,8,8] y)
{ z = ReduceMean <axes = [1]> (x) y = Sum (z, z) }"""
COMMITS = rf"POST /api/models/{TARGET}/commit/"
MODELS = r"/resolve/.*onnx/|/_storage/"
WRITES = r"^(POST|PUT|DELETE|PATCH) (?!/api/validate-yaml|/api/models/[^/]+/[^/]+/paths-info/)"


def test_every_published_file_is_what_card_report_and_manifest_say(publication: Publication) -> None:
    source = publication.seed()
    result = publication.run()
    files = publication.published()
    report = json.loads(files["report.json"])
    manifest = json.loads(files["manifest.json"])
    assert result.status == "published"
    assert result.commit == publication.api.model_info(TARGET).sha
    assert set(files) == {*OWN_FILES, "LICENSE", "config.json", "onnx/model.onnx"}
    assert files == files_below(publication.staged)
    assert manifest["files"] == {
        path: sha256(data) for path, data in files.items() if path != "manifest.json"
    }
    (variant,) = report["variants"]
    recorded = {each["path"]: each["sha256"] for each in (*variant["output"], *report["copied"])}
    assert recorded == {path: sha256(files[path]) for path in ("onnx/model.onnx", "config.json", "LICENSE")}
    rows = re.findall(
        r"^\| (from|here|copied) \| `([^`]+)` \| `([0-9a-f]{64})` \|$", _card(files), re.MULTILINE
    )
    assert {path: digest for kind, path, digest in rows if kind != "from"} == recorded
    assert rows[0] == ("from", f"{SOURCE}/onnx/model.onnx", sha256(publication.models["onnx/model.onnx"]))
    assert report["source"] == {"repo": SOURCE, "commit": source, "license": "mit"}
    assert manifest["key"] == report["key"]
    assert not re.search(r"seconds|peak_bytes|/tmp|127\.0\.0\.1", files["report.json"].decode())


def test_one_commit_holds_all_of_it(publication: Publication) -> None:
    publication.seed()
    publication.run()
    assert publication.commits() == [
        f"Rewrite of {SOURCE}@{publication.api.model_info(SOURCE).sha[:12]} for webgpu-min",  # type: ignore[index]
        "initial commit",
    ]


def test_a_second_run_fetches_no_model_and_writes_nothing(publication: Publication) -> None:
    publication.seed()
    first = publication.run()
    shutil.rmtree(publication.folder / "cache")
    before = len(publication.hub.log)
    second = publication.run()
    seen = [f"{each.method} {each.path}" for each in publication.hub.log[before:]]
    assert (second.status, second.commit) == ("nothing_to_do", first.commit)
    assert seen
    assert not [each for each in seen if re.search(MODELS, each) or re.search(WRITES, each)]


def test_a_hundred_runs_with_nothing_changed_write_nothing(publication: Publication) -> None:
    publication.seed()
    first = publication.run()
    head, before = publication.api.model_info(TARGET).sha, len(publication.hub.log)
    for _ in range(100):
        assert publication.run().commit == first.commit == head
    seen = list(publication.hub.log)[before:]
    assert {each.method for each in seen} == {"GET"}
    assert len(seen) == 400  # source, target, and the target's manifest and report
    assert len(publication.commits()) == 2


def test_forced_it_does_all_the_work_and_commits_nothing(publication: Publication) -> None:
    publication.seed()
    first = publication.run()
    publication.said.clear()
    second = publication.run(force=True)
    assert (second.status, second.commit) == ("nothing_to_do", first.commit)
    assert any(line.startswith("verifying") for line in publication.said)
    assert len(publication.commits()) == 2


def test_a_moved_source_is_published_again(publication: Publication) -> None:
    publication.seed()
    publication.run()
    moved = commit(publication.api, SOURCE, {"config.json": b'{"model_type": "smaller"}\n'})
    before = len(publication.hub.log)
    assert publication.run().status == "published"
    requests = [f"{each.method} {each.path}" for each in publication.hub.log[before:]]
    # The weights are the same: neither fetched nor sent again.
    assert not [each for each in requests if re.search(rf"GET .*({MODELS})|PUT ", each)]
    files = publication.published()
    assert files["config.json"] == b'{"model_type": "smaller"}\n'
    assert json.loads(files["report.json"])["source"]["commit"] == moved


def test_a_branch_is_pinned_in_what_is_published(publication: Publication) -> None:
    source = publication.seed()
    publication.run()
    text = publication.read("recipe.yaml").decode()
    assert f"revision: {source}" in text
    assert f"repo: {TARGET}" in text
    assert text.count("sha256: ") == 3  # the model, config.json and LICENSE


class TestDryRun:
    def test_needs_no_token_and_changes_nothing(
        self, publication: Publication, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publication.seed()
        monkeypatch.delenv("HF_TOKEN", raising=False)
        before = len(publication.hub.log)
        result = publication.run(dry_run=True, token=False)
        log = publication.hub.log[before:]
        assert (result.status, result.commit, result.url) == ("dry_run", None, None)
        assert not [each for each in log if re.search(WRITES, f"{each.method} {each.path}") or each.has_auth]
        assert not publication.api.repo_exists(TARGET)
        assert set(files_below(publication.staged)) >= {"README.md", "report.json", "onnx/model.onnx"}
        preview = (publication.out / "preview.md").read_text()
        assert f"| `onnx/model.onnx` | added | – | `{_staged(publication)[:16]}…` |" in preview
        assert "The target does not exist yet" in preview

    def test_shows_what_a_commit_would_change(self, publication: Publication) -> None:
        publication.seed()
        publication.run()
        head = publication.api.model_info(TARGET).sha
        commit(publication.api, SOURCE, {"config.json": b"{}\n"})
        result = publication.run(dry_run=True)
        preview = (publication.out / "preview.md").read_text()
        assert (result.status, result.commit) == ("dry_run", head)
        assert "| `onnx/model.onnx` | unchanged |" in preview
        assert "| `config.json` | changed |" in preview
        assert "\n-| copied | `config.json` |" in preview
        assert publication.api.model_info(TARGET).sha == head

    def test_shows_where_nothing_would_change_only_when_forced(self, publication: Publication) -> None:
        publication.seed()
        publication.run()
        (publication.out / "preview.md").unlink(missing_ok=True)
        assert publication.run(dry_run=True).status == "nothing_to_do"
        assert not (publication.out / "preview.md").exists()
        assert publication.run(dry_run=True, force=True).status == "dry_run"
        assert "Nothing would change." in (publication.out / "preview.md").read_text()

    def test_works_with_an_unset_variable(self, publication: Publication) -> None:
        publication.seed()
        recipe = publication.recipe(target={"repo": "${HUBPUBLISH_NAMESPACE}/small-webgpu"})
        result = publication.run(recipe, dry_run=True, token=False)
        assert (result.status, result.target) == ("dry_run", "HUBPUBLISH_NAMESPACE/small-webgpu")
        assert not publication.hub.requests("HUBPUBLISH_NAMESPACE")
        assert error_of(RecipeError, lambda: publication.run(recipe)).kind == "target_unset"

    def test_of_one_variant_and_only_a_dry_run(self, publication: Publication) -> None:
        publication.models["onnx/model_fp16.onnx"] = publication.models["onnx/model.onnx"]
        publication.seed()
        result = publication.run(dry_run=True, variant="onnx/model_fp16.onnx")
        assert result.report is not None
        assert [each.path for each in result.report.variants] == ["onnx/model_fp16.onnx"]
        assert not (publication.staged / "onnx/model.onnx").exists()
        assert "onnx/model.onnx" in str(
            error_of(UsageError, lambda: publication.run(dry_run=True, variant="model.onnx")).hint
        )
        assert "--dry-run" in str(
            error_of(UsageError, lambda: publication.run(variant="onnx/model.onnx")).hint
        )

    def test_leaves_nothing_of_an_earlier_run(self, publication: Publication) -> None:
        publication.seed()
        publication.run(dry_run=True)
        stray = publication.staged / "onnx" / "old.onnx"
        stray.write_bytes(b"old")
        publication.run(dry_run=True)
        assert not stray.exists()

    def test_deletes_nothing_that_no_run_made(self, publication: Publication) -> None:
        publication.seed()
        mine = publication.staged / "mine.txt"
        mine.parent.mkdir(parents=True)
        mine.write_text("mine")
        error = error_of(UsageError, lambda: publication.run(dry_run=True))
        assert "--out" in str(error.hint)
        assert mine.read_text() == "mine"

    def test_of_a_part_proposes_no_deletion_of_the_rest(self, publication: Publication) -> None:
        publication.models["onnx/model_fp16.onnx"] = publication.models["onnx/model.onnx"]
        publication.seed()
        publication.run()
        publication.run(dry_run=True, variant="onnx/model_fp16.onnx", force=True)
        assert "deleted" not in (publication.out / "preview.md").read_text()

    def test_names_a_card_that_the_hub_refuses(self, publication: Publication) -> None:
        publication.seed()
        refusal = {"errors": [{"message": '"license" must be one of those'}]}
        publication.hub.fault("validate-yaml", "status", times=None, status=400, body=refusal)
        assert error_of(HubError, lambda: publication.run(dry_run=True)).kind == "card_invalid"
        assert error_of(HubError, publication.run).kind == "card_invalid"
        assert not publication.api.repo_exists(TARGET)  # not even an empty repo


class TestPullRequest:
    def test_is_opened_once_and_then_brought_up_to_date(self, publication: Publication) -> None:
        publication.seed()
        commit(publication.api, TARGET, {"notes.txt": b"mine"})
        head = publication.api.model_info(TARGET).sha
        first = publication.run(as_pr=True)
        again = publication.run(as_pr=True)
        commit(publication.api, SOURCE, {"config.json": b"{}\n"})
        second = publication.run(as_pr=True)
        assert [each.status for each in (first, again, second)] == [
            "pull_request",
            "nothing_to_do",
            "pull_request",
        ]
        assert first.url == again.url == second.url
        assert again.report is None  # it was not made again to find that out
        assert str(first.url).endswith(f"/{TARGET}/discussions/1")
        assert publication.api.model_info(TARGET).sha == head
        assert publication.published(revision="refs/pr/1")["config.json"] == b"{}\n"
        assert len(list(publication.api.get_repo_discussions(TARGET))) == 1

    def test_explains_files_that_somebody_else_changed(self, publication: Publication) -> None:
        publication.seed()
        publication.run()
        commit(publication.api, TARGET, {"README.md": b"# Mine\n"})
        commit(publication.api, SOURCE, {"config.json": b"{}\n"})
        before = len(publication.hub.log)
        assert error_of(HubError, publication.run).kind == "target_edited"
        asked = [each.path for each in publication.hub.log[before:]]
        assert not any(f"/{SOURCE}/resolve/" in path for path in asked)  # before the work, not after
        assert publication.read("README.md") == b"# Mine\n"
        assert publication.run(as_pr=True).status == "pull_request"
        assert publication.read("README.md") == b"# Mine\n"
        details = publication.api.get_discussion_details(TARGET, 1)
        assert "`README.md`: edited since" in details.events[0].content  # type: ignore[attr-defined]


class TestTarget:
    def test_is_created_only_when_all_is_proved(self, publication: Publication) -> None:
        publication.seed()
        publication.run()
        order = [
            next(i for i, each in enumerate(publication.hub.log) if re.search(pattern, each.path))
            for pattern in (rf"/{SOURCE}/resolve/.*model\.onnx", "validate-yaml", f"{TARGET}/auth-check")
        ]
        (created,) = [i for i, each in enumerate(publication.hub.log) if each.path == "/api/repos/create"][1:]
        assert created > max(order)

    def test_is_created_private_if_the_recipe_says_so(self, publication: Publication) -> None:
        publication.seed()
        publication.run(publication.recipe(target={"private": True}))
        assert publication.api.model_info(TARGET).private

    def test_that_is_missing_is_an_error_before_any_work(self, publication: Publication) -> None:
        publication.seed()
        recipe = publication.recipe(target={"create": False})
        error = error_of(HubError, lambda: publication.run(recipe))
        assert error.kind == "repo_not_found"
        assert "create: true" in str(error.hint)
        assert not publication.hub.requests("GET .*/resolve/.*onnx")

    def test_can_be_another_than_the_recipes(self, publication: Publication) -> None:
        publication.seed()
        result = publication.run(target="alice/other")
        assert result.target == "alice/other"
        assert publication.nothing_is_published()
        files = publication.published("alice/other")
        assert "hf download alice/other recipe.yaml" in _card(files)
        assert publication.run(target="alice/other").status == "nothing_to_do"


class TestMovedMeanwhile:
    def test_is_planned_again_and_published_once(self, publication: Publication) -> None:
        publication.seed()
        publication.hub.fault(COMMITS, "status", status=412)
        assert publication.run().status == "published"
        assert [each.status for each in publication.hub.requests(COMMITS)] == [412, 200]
        assert len(publication.commits()) == 2

    def test_by_a_real_commit_of_somebody_else(
        self, publication: Publication, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publication.seed()
        other = [CommitOperationAdd("notes.txt", b"theirs")]
        after_planning(
            monkeypatch,
            lambda: publication.api.create_commit(TARGET, other, commit_message="in between"),
        )
        assert publication.run().status == "published"
        assert [each.status for each in publication.hub.requests(COMMITS)] == [200, 412, 200]
        assert publication.commits()[1:] == ["in between", "initial commit"]
        assert publication.read("notes.txt") == b"theirs"

    def test_for_ever_is_a_conflict(self, publication: Publication) -> None:
        publication.seed()
        publication.hub.fault(COMMITS, "status", status=412, times=None)
        assert error_of(HubError, publication.run).kind == "conflict"
        assert publication.nothing_is_published()


@pytest.mark.parametrize(
    ("pattern", "fault", "kind"),
    [
        (r"PUT /_storage/", {"action": "status", "status": 403}, "forbidden"),
        (r"/info/lfs/objects/batch", {"action": "status", "status": 403}, "forbidden"),
        (COMMITS, {"action": "reset"}, "connection_lost"),
    ],
)
def test_a_run_that_breaks_off_leaves_nothing_visible(
    publication: Publication, pattern: str, fault: dict[str, Any], kind: str
) -> None:
    publication.seed()
    publication.hub.fault(pattern, times=None, **fault)
    assert error_of(HubError, publication.run).kind == kind
    assert publication.nothing_is_published()
    publication.hub.faults.clear()
    assert publication.run().status == "published"


def test_a_lost_answer_to_the_commit_is_not_committed_again(publication: Publication) -> None:
    publication.seed()
    publication.hub.fault(COMMITS, "drop_response")
    assert publication.run().status == "published"
    assert len(publication.commits()) == 2


def test_what_does_not_repeat_is_in_run_json_alone(publication: Publication) -> None:
    publication.seed()
    publication.run()
    log = json.loads((publication.out / "run.json").read_text())
    assert {"started", "machine", "steps", "runs"} <= log.keys()
    assert [each["step"] for each in log["steps"]] == ["rewrite onnx/model.onnx"]
    assert {each["model"] for each in log["runs"]} == {"original", "rewritten"}
    assert "run.json" not in publication.published()


def test_two_variants_are_one_publication(publication: Publication) -> None:
    publication.models["onnx/model_fp16.onnx"] = model_bytes()
    publication.seed()
    publication.run()
    card = _card(publication.published())
    assert "| `onnx/model.onnx`, `onnx/model_fp16.onnx` | `concat_tree` |" in card
    assert "For `onnx/model_fp16.onnx` the options are `{ device: 'webgpu', dtype: 'fp16' }`." in card


def _card(files: dict[str, bytes]) -> str:
    return files["README.md"].decode()


def _staged(publication: Publication) -> str:
    return sha256((publication.staged / "onnx/model.onnx").read_bytes())


def test_a_dry_run_leaves_every_picture_that_its_preview_shows(publication: Publication) -> None:
    publication.models = {"onnx/model.onnx": model_bytes(MASK)}
    publication.seed()
    assert publication.run(dry_run=True).status == "dry_run"
    shown = re.findall(r'src="([^"]+)"', (publication.out / "preview.md").read_text())
    assert len(shown) == 4
    assert all((publication.out / path).is_file() for path in shown)


def test_a_run_that_publishes_keeps_no_outputs(publication: Publication) -> None:
    publication.seed()
    publication.run()
    assert not (publication.out / "outputs").exists()
    assert not (publication.out / "pictures").exists()


@pytest.mark.parametrize("name", ["staged", "failed", "outputs", "pictures"])
def test_a_folder_of_somebody_elses_is_not_emptied(publication: Publication, name: str) -> None:
    publication.seed()
    (publication.out / name).mkdir(parents=True)
    (publication.out / name / "mine.png").write_bytes(b"mine")
    with pytest.raises(UsageError, match="not made by a run"):
        publication.run(dry_run=True)
    assert (publication.out / name / "mine.png").read_bytes() == b"mine"
