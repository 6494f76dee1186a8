"""Bringing pins to what the source holds: what changes in the file, what is said of it, what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import yaml

from hubpublish import recipe as recipes
from hubpublish.errors import RecipeError, SourceError, UsageError
from hubpublish.upstream import bump_markdown
from tests.errors import error_of
from tests.publication import SMALL, SOURCE, TARGET, model_bytes, recipe_data, sha256
from tests.upstream.conftest import MODEL, OTHER_GRAPH, OTHER_WEIGHTS, Upstream

OLD, NEW = sha256(model_bytes()), sha256(model_bytes(OTHER_WEIGHTS))


def after(source: Upstream, **options: Any) -> str:
    """The recipe's text, read as it is, after a bump."""
    source.bump(**options).write()
    return source.path.read_bytes().decode()


class TestThePins:
    def test_follow_the_head(self, source: Upstream) -> None:
        before = source.path.read_text()
        commit = source.gets_a_model()
        made = source.bump()
        assert source.path.read_text() == before
        made.write()
        assert source.path.read_text() == before.replace(OLD, NEW)
        document = made.to_dict()
        assert document.pop("differences")[0]["path"] == MODEL
        assert document == {
            "recipe": str(source.path),
            "changed": True,
            "pins": [{"path": MODEL, "key": "variants[0].sha256", "old": OLD, "new": NEW}],
            "commit": {"old": None, "new": commit},
        }
        assert source.status().upstream == "unchanged"

    def test_make_a_recipe_that_runs(self, published: Upstream) -> None:
        published.gets_a_model()
        after(published)
        again = recipes.load(published.path)
        before = published.downloads()
        assert published.publication.run(again).status == "published"
        assert published.downloads() == before  # what the bump fetched was in the cache
        assert published.status().action is None

    def test_that_hold_are_left_alone(self, source: Upstream) -> None:
        source.moves({"README.md": b"---\nlicense: mit\n---\n# Other\n"})
        changed = source.path.stat().st_mtime_ns
        made = source.bump()
        made.write()
        assert (made.changed, made.pins, made.differences, made.files) == (False, (), (), ())
        assert (source.path.stat().st_mtime_ns, bump_markdown(made)) == (changed, "")
        assert source.downloads() == 0

    def test_include_the_commit_where_the_recipe_names_one(self, source: Upstream) -> None:
        old = source.head()
        text = source.recipe(source={"revision": old}).read_text()
        new = source.moves({"README.md": b"---\nlicense: mit\n---\n# Other\n"})
        made = source.bump()
        assert (made.old_commit, made.new_commit, made.pins, made.differences) == (old, new, (), ())
        assert [each.path for each in made.files] == ["README.md"]
        made.write()
        assert source.path.read_text() == text.replace(old, new)
        assert source.status().upstream == "unchanged"
        assert not source.bump().changed

    def test_leave_a_branch_and_a_tag_as_they_are(self, source: Upstream) -> None:
        source.publication.api.create_tag(SOURCE, tag="v1")
        source.recipe(source={"revision": "v1"})
        source.gets_a_model()
        assert not source.bump().changed
        source.recipe(source={"revision": "main"})
        assert "revision: main" in after(source)

    def test_of_data_and_copied_files_follow_too(self, source: Upstream) -> None:
        source.moves({f"{MODEL}_data": b"data"})
        data = recipe_data(source.publication.models)
        data["source"]["copy"] = ["LICENSE", {"path": "config.json", "sha256": "0" * 64}]
        data["variants"][0]["data"] = [{"path": f"{MODEL}_data", "sha256": sha256(b"data")}]
        source.path.write_text(yaml.safe_dump(data))
        source.moves({f"{MODEL}_data": b"other"})
        made = source.bump(download=False)
        assert {pin.key: pin.new for pin in made.pins} == {
            "source.copy[1].sha256": sha256(b'{"model_type": "small"}\n'),
            "variants[0].data[0].sha256": sha256(b"other"),
        }

    def test_of_two_variants_with_one_content_are_told_apart(self, source: Upstream) -> None:
        source.publication.models["onnx/model_fp16.onnx"] = model_bytes()
        source.publication.seed()
        source.recipe()
        source.moves({"onnx/model_fp16.onnx": model_bytes(OTHER_WEIGHTS)})
        text = after(source)
        assert [each.sha256 for each in recipes.loads(text).variants] == [OLD, NEW]

    def test_of_files_outside_of_lfs_are_read(self, source: Upstream) -> None:
        source.moves({".gitattributes": b"# nothing\n"})
        source.moves({MODEL: b"the old one\n"})
        source.publication.models[MODEL] = b"the old one\n"
        source.recipe()
        source.moves({MODEL: b"the new one\n"})
        made = source.bump()
        assert [pin.new for pin in made.pins] == [sha256(b"the new one\n")]
        [difference] = made.differences
        assert "the old model cannot be read: this is not an ONNX file" in str(difference.reason)
        assert "the new model cannot be read" in str(difference.reason)


class TestTheFile:
    def test_keeps_everything_else_of_it(self, source: Upstream) -> None:
        plain = source.path.read_text()
        text = "\ufeff" + re.sub(r"^", "# über\n", plain).replace(
            f"sha256: {OLD}", f"'sha256' :   \"{OLD.upper()}\"  # was {OLD} "
        ).replace("\n", "\r\n")
        source.path.write_bytes(text.encode())
        source.gets_a_model()
        assert after(source) == text.replace(f'"{OLD.upper()}"', f'"{NEW}"')

    def test_that_changed_while_the_models_were_fetched_is_left_alone(self, source: Upstream) -> None:
        source.gets_a_model()
        made = source.bump()
        edited = source.path.read_text() + "# edited\n"
        source.path.write_text(edited)
        assert error_of(UsageError, made.write).kind == "changed_meanwhile"
        assert source.path.read_text() == edited

    def test_that_is_no_recipe_is_an_error(self, source: Upstream) -> None:
        source.path.write_text("schema: 1\nsourc: 1\n")
        assert "sourc" in error_of_recipe(source)
        assert "no such file" in error_of_recipe(source, Path("none.yaml"))


def error_of_recipe(source: Upstream, path: Path | None = None) -> str:
    with pytest.raises(RecipeError) as caught:
        source.bump(path)
    return str(caught.value)


class TestAFileThatIsGone:
    @pytest.mark.parametrize("path", [MODEL, "config.json"])
    def test_is_an_error_that_says_where_it_may_be(self, source: Upstream, path: str) -> None:
        before = source.path.read_bytes()
        content = {**source.publication.models, "config.json": b'{"model_type": "small"}\n'}[path]
        source.moves({path: None, f"{path.replace('.', '_v2.')}": content})
        error = error_of(SourceError, source.bump)
        assert (error.kind, error.exit_code, error.details["missing"]) == ("file_not_found", 3, [path])
        assert path in error.what
        assert f"{path} may be {path.replace('.', '_v2.')} now" in str(error.hint)
        assert source.path.read_bytes() == before
        assert source.downloads() == 0

    def test_is_known_by_its_content_under_another_name(self, source: Upstream) -> None:
        source.moves(
            {MODEL: None, "onnx/model_fp16.onnx": model_bytes(OTHER_GRAPH), "best.onnx": model_bytes()}
        )
        assert f"{MODEL} may be best.onnx now" in str(error_of(SourceError, source.bump).hint)

    def test_all_are_named_at_once(self, source: Upstream) -> None:
        source.moves({MODEL: None, "config.json": None})
        assert set(error_of(SourceError, source.bump).details["missing"]) == {MODEL, "config.json"}  # type: ignore[call-overload]

    def test_a_source_that_is_gone_is_an_error(self, source: Upstream) -> None:
        source.publication.api.delete_repo(SOURCE)
        assert error_of(SourceError, source.bump).kind == "repo_not_found"


class TestTheDifference:
    def test_of_weights_alone(self, source: Upstream) -> None:
        source.gets_a_model(OTHER_WEIGHTS)
        [found] = source.bump().differences
        assert (found.graph_equal, found.equal) == (True, False)
        assert found.weights is not None
        assert (found.weights.added, found.weights.added_bytes) == (1, 72)

    def test_of_the_graph_alone(self, source: Upstream) -> None:
        source.gets_a_model(OTHER_GRAPH)
        [found] = source.bump().differences
        assert (found.ops_added, found.ops_removed) == ({"Abs": 1}, {"Neg": 1})
        assert found.weights is not None
        assert found.weights.equal

    def test_is_told_of_the_variants_that_changed(self, source: Upstream) -> None:
        source.publication.models["onnx/model_fp16.onnx"] = model_bytes(OTHER_GRAPH)
        source.publication.seed()
        source.recipe()
        source.gets_a_model()
        assert [each.path for each in source.bump().differences] == [MODEL]

    def test_finds_the_old_model_however_far_back_it_is(self, source: Upstream) -> None:
        for number in range(3):
            source.gets_a_model(SMALL.replace("0.5, -1.0", f"{number}.5, -1.0"))
        source.moves({MODEL: None})
        source.gets_a_model(OTHER_WEIGHTS)
        [found] = source.bump().differences
        assert (found.reason, found.graph_equal) == (None, True)

    def test_takes_the_old_model_from_the_cache(self, source: Upstream) -> None:
        source.publication.run()
        source.publication.api.delete_repo(SOURCE)
        source.publication.models[MODEL] = model_bytes(OTHER_WEIGHTS)
        source.publication.seed()
        [found] = source.bump().differences
        assert (found.reason, found.graph_equal) == (None, True)

    def test_does_not_take_a_damaged_one_from_the_cache(self, source: Upstream) -> None:
        source.publication.run()
        [cached] = (source.publication.folder / "cache" / "sources").rglob("model.onnx")
        cached.write_bytes(model_bytes(OTHER_GRAPH))
        source.gets_a_model(OTHER_WEIGHTS)
        [found] = source.bump().differences
        assert (found.reason, found.graph_equal) == (None, True)

    def test_says_so_where_the_old_model_cannot_be_had_any_more(self, source: Upstream) -> None:
        source.publication.api.delete_repo(SOURCE)
        source.publication.models[MODEL] = model_bytes(OTHER_WEIGHTS)
        source.publication.seed()
        made = source.bump()
        [found] = made.differences
        assert "the old model cannot be had any more: no commit of acme/small" in str(found.reason)
        assert (found.old, found.equal, found.weights) == (None, None, None)
        assert found.new is not None
        assert (found.new.nodes, found.new.inputs) == (8, {"x": "float32 [2, 18]"})
        made.write()
        assert NEW in source.path.read_text()

    def test_goes_on_where_the_hub_does_not_give_the_old_model(self, source: Upstream) -> None:
        old = source.head()
        source.gets_a_model()
        source.publication.hub.fault(rf"GET /{SOURCE}/resolve/{old}/", "status", times=None, status=403)
        [found] = source.bump().differences
        assert "the old model cannot be had any more" in str(found.reason)
        assert found.new is not None

    def test_is_not_made_without_a_download(self, source: Upstream) -> None:
        source.gets_a_model()
        made = source.bump(download=False)
        assert (made.changed, made.differences) == (True, ())
        assert source.downloads() == 0

    def test_of_a_model_with_external_data(self, source: Upstream, tmp_path: Path) -> None:
        files = {text: external(tmp_path / name, text) for name, text in (("a", SMALL), ("b", OTHER_WEIGHTS))}
        source.moves(dict(files[SMALL]))
        data = recipe_data({MODEL: files[SMALL][MODEL]})
        data["variants"][0]["data"] = [
            {"path": f"{MODEL}_data", "sha256": sha256(files[SMALL][f"{MODEL}_data"])}
        ]
        source.path.write_text(yaml.safe_dump(data))
        source.moves(dict(files[OTHER_WEIGHTS]))
        made = source.bump()
        assert [pin.key for pin in made.pins] == ["variants[0].data[0].sha256"]
        [found] = made.differences
        assert found.weights is not None
        assert (found.graph_equal, found.weights.equal) == (True, False)

    def test_new_external_data_is_refused_until_the_recipe_lists_it(
        self, source: Upstream, tmp_path: Path
    ) -> None:
        before = source.path.read_bytes()
        source.moves(dict(external(tmp_path / "a", SMALL)))
        error = error_of(SourceError, source.bump)
        assert (error.kind, error.details["missing"]) == ("external_data_not_listed", [f"{MODEL}_data"])
        assert source.path.read_bytes() == before

    def test_wrong_bytes_are_not_compared_and_nothing_is_written(self, source: Upstream) -> None:
        source.gets_a_model()
        source.publication.hub.fault(rf"GET /{SOURCE}/resolve/", "corrupt", times=None)
        assert error_of(SourceError, source.bump).kind == "corrupt_download"


def external(folder: Path, text: str) -> dict[str, bytes]:
    """The files of a model with its weights outside."""
    folder.mkdir()
    model = ir.from_proto(onnx.parser.parse_model(text))
    ir.save(model, folder / "model.onnx", external_data="model.onnx_data", size_threshold_bytes=0)
    return {f"onnx/{path.name}": path.read_bytes() for path in folder.iterdir()}


def test_another_license_is_pointed_out(source: Upstream) -> None:
    source.moves({"README.md": b"---\nlicense: gpl-3.0\n---\n", MODEL: model_bytes(OTHER_WEIGHTS)})
    [note] = source.bump().notes
    assert "gpl-3.0" in note
    assert note in bump_markdown(source.bump())


def test_other_files_that_changed_meanwhile_are_named(source: Upstream) -> None:
    source.moves({MODEL: model_bytes(OTHER_WEIGHTS), "config.json": b"{}", "notes.txt": b"x"})
    assert [(each.path, each.change) for each in source.bump().files] == [
        ("config.json", "changed"),
        ("notes.txt", "added"),
    ]


def test_nothing_is_asked_of_the_target(source: Upstream) -> None:
    source.gets_a_model()
    after(source)
    assert not source.publication.hub.requests(TARGET)
