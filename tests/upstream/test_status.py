"""What status says of a source that moves and a target that others touch."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hubpublish import publish, rollback
from hubpublish.errors import HubError
from hubpublish.publish import TargetState
from hubpublish.rollback import RollbackOptions
from hubpublish.upstream import RecipeStatus, exit_code
from hubpublish.upstream.target import source_commit
from tests.errors import error_of
from tests.publication import SOURCE, TARGET, TOKEN, commit, model_bytes, recipe_data, sha256
from tests.upstream.conftest import MODEL, OTHER_GRAPH, OTHER_WEIGHTS, Upstream

OLD, NEW = sha256(model_bytes()), sha256(model_bytes(OTHER_WEIGHTS))


def in_short(status: RecipeStatus) -> tuple[str, str, str | None]:
    assert (status.error is None) or status.action == "look"
    return status.upstream, status.published, status.action


class TestUpstream:
    def test_that_did_not_move(self, published: Upstream) -> None:
        found = published.status()
        assert found == RecipeStatus(
            recipe=str(published.path),
            source=SOURCE,
            commit=published.head(),
            target=TARGET,
            upstream="unchanged",
            published="up_to_date",
        )

    def test_with_another_model(self, published: Upstream) -> None:
        commit = published.gets_a_model()
        found = published.status()
        assert in_short(found) == ("changed", "behind", "bump")
        assert (found.commit, found.what) == (commit, ("model",))
        [file] = found.files
        assert file.model_dump() == {
            "path": MODEL,
            "role": "model",
            "change": "changed",
            "old": OLD,
            "new": NEW,
        }

    def test_with_another_card_alone_is_published_again_and_not_bumped(self, published: Upstream) -> None:
        published.moves({"README.md": b"---\nlicense: mit\n---\n# Other\n"})
        found = published.status()
        assert in_short(found) == ("unchanged", "behind", "publish")
        assert [(each.path, each.role, each.change) for each in found.files] == [
            ("README.md", "card", "changed")
        ]
        assert found.what == ("card",)
        assert published.publication.run().status == "published"
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)

    def test_with_files_that_no_recipe_takes(self, published: Upstream) -> None:
        published.moves(
            {
                ".gitattributes": b"*.onnx filter=lfs diff=lfs merge=lfs -text\n",
                "notes.txt": b"new",
                "onnx/model_q4.onnx": model_bytes(OTHER_GRAPH),
                "LICENSE": None,
            }
        )
        found = published.status()
        assert [(each.path, each.role, each.change, each.new) for each in found.files] == [
            ("LICENSE", "copied", "removed", None),
            ("notes.txt", "other", "added", None),
            ("onnx/model_q4.onnx", "other", "added", sha256(model_bytes(OTHER_GRAPH))),
        ]
        assert (found.what, found.action) == (("files",), "publish")

    def test_with_another_copied_file(self, published: Upstream) -> None:
        published.moves({"config.json": b'{"model_type": "other"}\n'})
        found = published.status()
        assert in_short(found) == ("unchanged", "behind", "publish")
        assert [(each.path, each.role) for each in found.files] == [("config.json", "copied")]

    def test_with_another_copied_file_that_is_pinned(self, source: Upstream) -> None:
        config = {"path": "config.json", "sha256": sha256(b'{"model_type": "small"}\n')}
        source.recipe(source={"copy": [config]})
        assert in_short(source.status()) == ("unchanged", "missing", "publish")
        source.moves({"config.json": b"{}"})
        found = source.status()
        assert in_short(found) == ("changed", "missing", "bump")
        assert [each.model_dump() for each in found.files] == [
            {
                "path": "config.json",
                "role": "copied",
                "change": "changed",
                "old": config["sha256"],
                "new": sha256(b"{}"),
            }
        ]
        assert found.what == ("files",)

    def test_compares_the_pins_alone_where_nothing_was_published(self, source: Upstream) -> None:
        source.moves({"README.md": b"---\nlicense: mit\n---\n# Other\n", "config.json": b"{}"})
        found = source.status()
        assert (found.files, found.what) == ((), ())
        assert in_short(found) == ("unchanged", "missing", "publish")

    def test_compares_the_pins_alone_where_the_published_commit_is_gone(self, published: Upstream) -> None:
        api = published.publication.api
        api.delete_repo(SOURCE)
        published.publication.seed({"README.md": b"---\nlicense: mit\n---\n# Other\n"})
        found = published.status()
        assert (found.files, in_short(found)) == ((), ("unchanged", "behind", "publish"))

    @pytest.mark.parametrize(
        ("changed", "what"),
        [
            ({MODEL: b"graph"}, ("graph",)),
            ({f"{MODEL}_data": b"weights"}, ("weights",)),
            ({MODEL: b"graph", f"{MODEL}_data": b"weights"}, ("weights",)),
            (
                {f"{MODEL}_data": b"weights", "README.md": b"---\nlicense: mit\n---\n", "notes": b""},
                ("weights", "card", "files"),
            ),
        ],
    )
    def test_tells_weights_from_the_graph_by_the_files(
        self, source: Upstream, changed: dict[str, bytes], what: tuple[str, ...]
    ) -> None:
        old = source.moves({f"{MODEL}_data": b"data"})
        data = recipe_data(source.publication.models, source={"revision": old})
        data["variants"][0]["data"] = [{"path": f"{MODEL}_data", "sha256": sha256(b"data")}]
        source.path.write_text(yaml.safe_dump(data))
        source.moves(changed)
        found = source.status()
        assert found.what == what
        assert {each.path for each in found.files} == changed.keys()

    def test_lists_data_that_two_variants_share_once(self, source: Upstream) -> None:
        source.publication.models["onnx/model_fp16.onnx"] = model_bytes(OTHER_GRAPH)
        source.publication.seed({"onnx/weights": b"data"})
        data = recipe_data(source.publication.models)
        for variant in data["variants"]:
            variant["data"] = [{"path": "onnx/weights", "sha256": sha256(b"data")}]
        source.path.write_text(yaml.safe_dump(data))
        source.moves({"onnx/weights": b"other"})
        assert [each.path for each in source.status().files] == ["onnx/weights"]


class TestPinnedCommit:
    def test_that_is_the_head(self, source: Upstream) -> None:
        source.recipe(source={"revision": source.head()})
        found = source.status()
        assert in_short(found) == ("unchanged", "missing", "publish")

    def test_behind_a_head_with_the_same_models(self, source: Upstream) -> None:
        source.recipe(source={"revision": source.head()})
        commit = source.moves({"README.md": b"---\nlicense: mit\n---\n# Other\n"})
        found = source.status()
        assert (found.upstream, found.action, found.commit) == ("changed", "bump", commit)
        assert [each.path for each in found.files] == ["README.md"]

    def test_is_what_the_target_is_compared_with(self, source: Upstream) -> None:
        recipe = source.publication.recipe(source={"revision": source.head()})
        source.recipe(source={"revision": source.head()})
        source.publication.run(recipe)
        source.gets_a_model()
        assert in_short(source.status()) == ("changed", "up_to_date", "bump")

    def test_that_is_gone(self, source: Upstream) -> None:
        source.recipe(source={"revision": "0" * 40})
        found = source.status()
        assert (found.upstream, found.action, found.error) == ("changed", "bump", None)
        assert found.files == ()

    def test_a_tag_is_not_one(self, source: Upstream) -> None:
        source.publication.api.create_tag(SOURCE, tag="v1")
        source.recipe(source={"revision": "v1"})
        old = source.head()
        source.gets_a_model()
        found = source.status()
        assert (found.upstream, found.commit) == ("unchanged", old)


class TestLostFiles:
    def test_are_an_error_where_a_run_would_fail(self, published: Upstream) -> None:
        published.moves({MODEL: None, "onnx/model_v2.onnx": model_bytes()})
        found = published.status()
        assert in_short(found) == ("changed", "behind", "look")
        assert found.error is not None
        assert (found.error["kind"], found.error["missing"]) == ("file_not_found", [MODEL])
        assert "onnx/model_v2.onnx" in found.error["hint"]
        assert (found.files[0].change, found.files[0].now) == ("removed", "onnx/model_v2.onnx")

    def test_that_are_copied_and_not_pinned_count_too(self, source: Upstream) -> None:
        source.moves({"config.json": None})
        found = source.status()
        assert found.error is not None
        assert found.error["missing"] == ["config.json"]

    def test_are_no_error_where_the_recipe_pins_a_commit(self, source: Upstream) -> None:
        source.recipe(source={"revision": source.head()})
        source.moves({MODEL: None})
        found = source.status()
        assert (found.upstream, found.action, found.error) == ("changed", "look", None)


class TestTarget:
    def test_that_somebody_edited(self, published: Upstream) -> None:
        commit(published.publication.api, TARGET, {"config.json": b"{}"})
        published.publication.api.delete_file(MODEL, TARGET)
        found = published.status()
        assert in_short(found) == ("unchanged", "edited", "look")
        assert found.edited == {"config.json": "edited since", MODEL: "deleted since"}

    def test_that_somebody_edited_does_not_keep_the_pins_from_following(self, published: Upstream) -> None:
        commit(published.publication.api, TARGET, {"config.json": b"{}"})
        published.gets_a_model()
        assert in_short(published.status()) == ("changed", "edited", "bump")

    def test_that_got_a_file_of_somebody_else_is_as_it_was(self, published: Upstream) -> None:
        commit(published.publication.api, TARGET, {"mine.txt": b"mine"})
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)

    @pytest.mark.parametrize("content", [None, b"{}"])
    def test_whose_manifest_was_touched(self, published: Upstream, content: bytes | None) -> None:
        if content is None:
            published.publication.api.delete_file("manifest.json", TARGET)
        else:
            commit(published.publication.api, TARGET, {"manifest.json": content})
        found = published.status()
        assert in_short(found) == ("unchanged", "edited", "look")
        assert found.edited == {
            "manifest.json": "not published by hubpublish" if content else "deleted since"
        }

    def test_that_is_empty(self, source: Upstream) -> None:
        source.publication.api.create_repo(TARGET)
        assert in_short(source.status()) == ("unchanged", "missing", "publish")

    def test_that_holds_a_card_of_somebody_else(self, source: Upstream) -> None:
        commit(source.publication.api, TARGET, {"README.md": b"---\nlicense: mit\n---\n"})
        found = source.status()
        assert in_short(found) == ("unchanged", "edited", "look")
        assert found.edited == {"README.md": "not published by hubpublish"}
        assert error_of(HubError, source.publication.run).kind == "target_edited"

    def test_of_another_recipe(self, published: Upstream) -> None:
        published.recipe(passes=["split_tree", "sum_to_add", "concat_tree"])
        assert in_short(published.status()) == ("unchanged", "behind", "publish")

    def test_of_another_source(self, published: Upstream) -> None:
        published.publication.api.create_repo("acme/fork")
        commit(
            published.publication.api,
            "acme/fork",
            {**published.publication.models, "config.json": b"{}", "README.md": b"---\nlicense: mit\n---\n"},
        )
        published.recipe(source={"repo": "acme/fork"})
        found = published.status()
        assert in_short(found) == ("unchanged", "behind", "publish")
        assert found.files == ()

    def test_of_another_source_says_nothing_of_this_one(self, published: Upstream) -> None:
        state = publish.read_target(published.publication.api, TARGET)
        assert source_commit(state, SOURCE) == published.head()
        assert source_commit(state, "acme/fork") is None  # which may have the commit, too

    @pytest.mark.parametrize("report", [None, [], {"source": 1}, {"source": {"repo": SOURCE, "commit": 1}}])
    def test_with_a_report_that_is_none_says_nothing(self, report: object) -> None:
        assert source_commit(TargetState(TARGET, "main", True, None, report=report), SOURCE) is None

    def test_that_was_rolled_back(self, published: Upstream) -> None:
        other = {"passes": [{"concat_tree": {"max_inputs": 5}}, "split_tree", "sum_to_add"]}
        published.publication.run(published.publication.recipe(**other))
        published.recipe(**other)
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)
        options = RollbackOptions(endpoint=published.publication.hub.endpoint, token=TOKEN)
        rollback.roll_back(published.publication.recipe(), options, {}, published.publication.said.append)
        assert in_short(published.status()) == ("unchanged", "withdrawn", "look")
        published.recipe()
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)

    def test_that_was_rolled_back_is_offered_what_upstream_has_now(self, published: Upstream) -> None:
        pinned = {
            "source": {"revision": published.head()},
            "passes": ["sum_to_add", "concat_tree", "split_tree"],
        }
        published.publication.run(published.publication.recipe(**pinned))
        options = RollbackOptions(endpoint=published.publication.hub.endpoint, token=TOKEN)
        rollback.roll_back(published.publication.recipe(), options, {}, published.publication.said.append)
        published.recipe(**pinned)
        published.gets_a_model()
        assert published.status().action == "bump"

    def test_that_is_not_named(self, published: Upstream) -> None:
        published.recipe(target={"repo": "${HUBPUBLISH_NAMESPACE}/small-webgpu"})
        found = published.status()
        assert (found.target, in_short(found)) == (None, ("unchanged", "unknown", None))
        published.environ["HUBPUBLISH_NAMESPACE"] = "acme"
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)
        published.environ.clear()
        published.gets_a_model()
        assert in_short(published.status()) == ("changed", "unknown", "bump")

    def test_under_a_variable_with_nonsense(self, published: Upstream) -> None:
        published.recipe(target={"repo": "${HUBPUBLISH_NAMESPACE}/small-webgpu"})
        published.environ["HUBPUBLISH_NAMESPACE"] = "a b"
        found = published.status()
        assert found.error is not None
        assert (found.error["kind"], found.source) == ("recipe", SOURCE)

    def test_that_lacks_its_tag_is_published_again(self, source: Upstream) -> None:
        """A run that died before the tag is made good by the next, if one is started."""
        changes = {"target": {"tag": "v-{key}"}}
        source.recipe(**changes)
        source.publication.run(source.publication.recipe(**changes))
        assert in_short(source.status()) == ("unchanged", "up_to_date", None)
        [tag] = source.publication.api.list_repo_refs(TARGET).tags
        source.publication.api.delete_tag(TARGET, tag=tag.name)
        assert in_short(source.status()) == ("unchanged", "behind", "publish")

    def test_that_two_recipes_share_is_an_error(self, published: Upstream) -> None:
        """Each would replace what the other published, at every run."""
        found = published.status(published.path, published.recipe("rival.yaml"))
        assert found.error is not None
        assert (found.error["kind"], found.action) == ("target_shared", "look")
        assert exit_code([found], tell=True) == 2

    @pytest.mark.parametrize("commit", ["\ud800", "", "main", 5])
    def test_with_a_report_of_somebodys_making_stops_no_other(
        self, published: Upstream, commit: object
    ) -> None:
        state = TargetState(TARGET, "main", True, None, report={"source": {"repo": SOURCE, "commit": commit}})
        assert source_commit(state, SOURCE) is None

    def test_open_pull_requests_on_it_do_not_matter(self, source: Upstream) -> None:
        source.publication.api.create_repo(TARGET)
        source.publication.run(as_pr=True)
        assert in_short(source.status()) == ("unchanged", "missing", "publish")

    def test_of_a_license_that_a_run_would_refuse(self, published: Upstream) -> None:
        published.moves({"README.md": b"---\nlicense: gpl-3.0\n---\n"})
        found = published.status()
        assert in_short(found) == ("unchanged", "behind", "look")
        assert found.error is not None
        assert found.error["kind"] == "license_differs"

    def test_is_up_to_date_exactly_where_a_run_has_nothing_to_do(self, published: Upstream) -> None:
        steps: list[dict[str, bytes | None]] = [
            {"README.md": b"---\nlicense: mit\n---\n# 1\n"},
            {"config.json": b"{}", "LICENSE": None},
            {"NOTICE": b"notice"},
        ]
        for step in steps:
            published.moves(step)
            assert published.status().published == "behind"
            assert published.publication.run().status == "published"
            assert published.status().published == "up_to_date"
            assert published.publication.run().status == "nothing_to_do"


class TestSourceRepo:
    def test_that_is_gone(self, published: Upstream) -> None:
        published.publication.api.delete_repo(SOURCE)
        found = published.status()
        assert in_short(found) == ("unknown", "unknown", "look")
        assert found.error is not None
        assert (found.error["kind"], found.error["exit_code"]) == ("repo_not_found", 3)
        assert (found.source, found.target, found.commit) == (SOURCE, TARGET, None)

    def test_that_was_renamed_is_found_under_its_old_name(self, published: Upstream) -> None:
        published.publication.api.move_repo(SOURCE, "acme/renamed")
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)

    def test_that_became_gated_is_still_listed(self, published: Upstream) -> None:
        published.publication.api.update_repo_settings(SOURCE, gated="manual")
        assert in_short(published.status(token="hf_bob_write")) == ("unchanged", "up_to_date", None)

    def test_whose_branch_is_gone(self, source: Upstream) -> None:
        source.recipe(source={"revision": "dev"})
        found = source.status()
        assert found.error is not None
        assert found.error["kind"] == "revision_not_found"

    def test_that_the_hub_does_not_answer_for(self, published: Upstream) -> None:
        published.publication.hub.fault(rf"GET /api/models/{TARGET}", "status", times=None)
        found = published.status()
        assert in_short(found) == ("unknown", "unknown", "look")
        assert (found.commit, found.error and found.error["exit_code"]) == (published.head(), 6)


class TestWithoutLfs:
    """Files that the Hub lists by git blob id."""

    @pytest.fixture
    def in_git(self, source: Upstream) -> Upstream:
        source.publication.models[MODEL] = b"a model, for all that matters here\n"
        source.moves({".gitattributes": b"# nothing\n"})
        source.moves({MODEL: source.publication.models[MODEL]})
        assert source.publication.api.get_paths_info(SOURCE, [MODEL])[0].lfs is None  # type: ignore[union-attr]
        source.recipe()
        return source

    def test_are_read_for_their_hash(self, in_git: Upstream) -> None:
        assert in_short(in_git.status()) == ("unchanged", "missing", "publish")
        new = b"another\n"
        in_git.moves({MODEL: new})
        found = in_git.status()
        assert in_short(found) == ("changed", "missing", "bump")
        assert found.files[0].new == sha256(new)

    def test_are_not_read_where_the_publication_proves_them(self, published: Upstream) -> None:
        content = b'{"model_type": "small"}\n'
        pinned = {"source": {"copy": [{"path": "config.json", "sha256": sha256(content)}]}}
        published.publication.run(published.publication.recipe(**pinned))
        published.recipe(**pinned)
        before = len(published.publication.hub.requests(rf"GET /{SOURCE}/resolve/"))
        assert in_short(published.status()) == ("unchanged", "up_to_date", None)
        assert len(published.publication.hub.requests(rf"GET /{SOURCE}/resolve/")) == before

    def test_a_read_that_fails_is_an_error(self, in_git: Upstream) -> None:
        in_git.publication.hub.fault(rf"GET /{SOURCE}/resolve/", "status", times=None, status=403)
        found = in_git.status()
        assert found.error is not None
        assert found.error["exit_code"] == 3


class TestSeveral:
    def test_one_that_fails_does_not_stop_the_others(self, published: Upstream) -> None:
        broken, none = published.publication.folder / "broken.yaml", Path("none.yaml")
        broken.write_text("schema: 1\nsourc: 1\n")
        found = published.status(broken, none, published.path)
        assert in_short(found) == ("unchanged", "up_to_date", None)
        error = published.status(published.path, broken).error
        assert error is not None
        assert error["kind"] == "recipe"
        gone = published.status(none)
        assert (gone.source, gone.recipe, gone.action) == (None, "none.yaml", "look")

    def test_that_share_a_source_and_a_target_ask_once(self, published: Upstream) -> None:
        other = published.recipe("other.yaml", passes=["split_tree"])
        log = published.publication.hub.requests
        before = [len(log(rf"GET /api/models/{repo}/revision/")) for repo in (SOURCE, TARGET)]
        assert published.status(published.path, other, published.path).published == "up_to_date"
        assert [len(log(rf"GET /api/models/{repo}/revision/")) for repo in (SOURCE, TARGET)] == [
            n + 1 for n in before
        ]


def test_no_model_is_downloaded_and_nothing_is_written(published: Upstream, tmp_path: Path) -> None:
    published.gets_a_model()
    folder = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if "hub" not in path.parts}
    before = len(published.publication.hub.log)
    published.status()
    asked = published.publication.hub.log[before:]
    assert all(entry.method in ("GET", "HEAD") for entry in asked)
    assert not [entry.path for entry in asked if ".onnx" in entry.path or "_storage" in entry.path]
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if "hub" not in path.parts}
    assert after == folder


def test_exit_codes(published: Upstream, tmp_path: Path) -> None:
    fine = published.status()
    published.gets_a_model()
    moved = published.status()
    published.publication.api.delete_repo(SOURCE)
    gone = published.status()
    unreadable = published.status(tmp_path / "none.yaml")
    assert [exit_code([fine], tell=tell) for tell in (False, True)] == [0, 0]
    assert [exit_code([fine, moved], tell=tell) for tell in (False, True)] == [0, 10]
    assert exit_code([moved, gone, unreadable], tell=True) == 3
    assert exit_code([moved, unreadable, gone], tell=False) == 2
