"""Every way in which a run must stop: the right error, and nothing on the Hub."""

from __future__ import annotations

import json
import re
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import yaml

from hubpublish import pipeline, transform
from hubpublish import recipe as recipes
from hubpublish.errors import (
    DeviceFitError,
    HubError,
    RecipeError,
    SourceError,
    UnsupportedModelError,
    UsageError,
    VerificationError,
)
from hubpublish.model import FreshNames, Scope
from hubpublish.passes import PASSES, PassOptions, RewritePass
from hubpublish.passes.base import NodeMaker, Replacement, Skip
from hubpublish.recipe import Recipe
from tests.errors import error_of
from tests.publication import READ_TOKEN, TARGET, Publication, commit, model_bytes, recipe_data, sha256

MODEL = "onnx/model.onnx"
DOWNLOAD = r"GET .*/resolve/.*/model\.onnx"

SIZES_ARE_AN_INPUT = """<ir_version: 8, opset_import: ["": 13]>
g (float[18] x, int64[9] sizes) => (float[18] y)
<int64[9] sizes = {2, 2, 2, 2, 2, 2, 2, 2, 2}>
{
  [cut] p0, p1, p2, p3, p4, p5, p6, p7, p8 = Split <axis = 0> (x, sizes)
  y = Concat <axis = 0> (p8, p7, p6, p5, p4, p3, p2, p1, p0)
}"""

INDEPENDENT = """<ir_version: 8, opset_import: ["": 13]>
g (float[4] x) => (float[4] y) <float[4] zero = {0, 0, 0, 0}, float[4] one = {1, 2, 3, 4}>
{ z = Mul (x, zero) a = Abs (z) y = Sum (a, one) }"""


class Wrong(RewritePass[PassOptions]):
    """Relu as itself, and Tanh as Sigmoid, which is wrong."""

    name = "wrong"
    exact = True
    op_types = frozenset({"Relu", "Tanh"})

    def concerns(self, node: ir.Node) -> bool:
        return True

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        make = NodeMaker(node, names)
        new = make("Sigmoid" if node.op_type == "Tanh" else "Relu", node.inputs)
        return Replacement(make.nodes, new)


def pinned(publication: Publication, digest: str) -> Recipe:
    data = recipe_data(publication.models)
    data["variants"][0]["sha256"] = digest
    return recipes.loads(yaml.safe_dump(data), "recipe.yaml")


def refused(publication: Publication, kind: type[Any], recipe: Recipe | None = None, **options: Any) -> Any:
    error = error_of(kind, lambda: publication.run(recipe, **options))
    assert publication.nothing_is_published()
    return error


def test_a_wrong_hash(publication: Publication) -> None:
    publication.seed()
    error = refused(publication, SourceError, pinned(publication, "0" * 64))
    assert error.exit_code == 3
    assert "0" * 64 in str(error)
    assert sha256(publication.models[MODEL]) in str(error)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"source": {"repo": "acme/none", "copy": []}}, "acme/none"),
        ({"source": {"revision": "v9"}}, "v9"),
        ({"source": {"copy": ["config.json", "vocab.txt"]}}, "vocab.txt"),
    ],
)
def test_what_the_source_does_not_have(publication: Publication, change: dict[str, Any], named: str) -> None:
    publication.seed()
    error = refused(publication, SourceError, publication.recipe(**change))
    assert error.exit_code == 3
    assert named in str(error)


def test_a_missing_model_costs_no_download(publication: Publication) -> None:
    publication.seed()
    publication.models["onnx/model_fp16.onnx"] = b"never published"
    error = refused(publication, SourceError)
    assert "onnx/model_fp16.onnx" in str(error)
    assert not publication.hub.requests(r"GET .*/resolve/.*model\.onnx")


def test_a_read_only_token_is_told_before_any_work(publication: Publication) -> None:
    publication.seed()
    error = refused(publication, HubError, token=READ_TOKEN)
    assert (error.exit_code, error.kind) == (6, "read_only_token")
    assert not publication.hub.requests(r"GET .*/resolve/.*model\.onnx")


def test_no_token(publication: Publication) -> None:
    publication.seed()
    error = refused(publication, HubError, token=False)
    assert (error.exit_code, error.kind) == (6, "unauthorized")


def test_somebody_elses_repo(publication: Publication) -> None:
    publication.seed()
    recipe = publication.recipe(target={"repo": "bob/small"})
    error = refused(publication, HubError, recipe)
    assert (error.exit_code, error.kind) == (6, "forbidden")
    assert "bob/small" in str(error)


def test_a_card_of_somebody_else_is_told_before_any_work(publication: Publication) -> None:
    publication.seed()
    commit(publication.api, TARGET, {"README.md": b"# By hand\n"})
    error = error_of(HubError, publication.run)
    assert (error.exit_code, error.kind, error.details["files"]) == (6, "target_edited", ["README.md"])
    assert not publication.hub.requests(r"GET .*/resolve/.*model\.onnx")
    assert publication.read("README.md") == b"# By hand\n"


def test_a_download_that_is_always_corrupt(publication: Publication) -> None:
    publication.seed()
    publication.hub.fault(DOWNLOAD, "corrupt", times=None)
    error = refused(publication, SourceError)
    assert error.exit_code == 3
    assert MODEL in str(error)


@pytest.mark.parametrize("action", ["truncate", "corrupt"])
def test_a_download_that_is_damaged_once_is_fetched_again(publication: Publication, action: str) -> None:
    publication.seed()
    fault = publication.hub.fault(DOWNLOAD, action)
    assert publication.run(dry_run=True).status == "dry_run"
    assert fault.fired == 1


def test_another_license_than_the_sources(publication: Publication) -> None:
    publication.seed()
    error = refused(publication, RecipeError, publication.recipe(card={"license": "apache-2.0"}))
    assert (error.exit_code, error.kind) == (2, "license_differs")
    assert "apache-2.0" in str(error)
    assert "mit" in str(error)
    because = {"license": "apache-2.0", "license_differs_because": "The author relicensed it."}
    publication.run(publication.recipe(card=because))
    assert "The author relicensed it." in publication.read("README.md").decode()


def test_a_sparse_initializer(publication: Publication) -> None:
    model = onnx.parser.parse_model(model_bytes_text())
    values = onnx.helper.make_tensor("sp", onnx.TensorProto.FLOAT, [1], [1.0])
    indices = onnx.helper.make_tensor("sp_indices", onnx.TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [3]))
    publication.models[MODEL] = model.SerializeToString()
    publication.seed()
    error = refused(publication, UnsupportedModelError)
    assert error.exit_code == 4
    assert "sp" in str(error)


def test_an_opset_that_is_too_old(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes(
        '<ir_version: 3, opset_import: ["": 6]> g (float[4] x) => (float[4] y) { y = Tanh (x) }'
    )
    publication.seed()
    error = refused(publication, UnsupportedModelError)
    assert (error.exit_code, error.where) == (4, MODEL)  # the pass that refuses knows no path


def test_a_result_that_does_not_fit(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes(SIZES_ARE_AN_INPUT)
    publication.seed()
    error = refused(publication, DeviceFitError)
    assert error.exit_code == 4
    assert re.search(
        r"Split cut in main binds 1\d, 8 granted \(split_tree left it alone: .*sizes.*\)", str(error)
    )
    assert [node["node"] for node in error.details["nodes"]] == ["cut"]
    assert error.where == MODEL  # the path in the source repo, not in a cache


def test_a_result_that_does_not_fit_for_want_of_a_pass(publication: Publication) -> None:
    publication.seed()
    error = refused(publication, DeviceFitError, publication.recipe(passes=["concat_tree", "sum_to_add"]))
    assert "add the pass split_tree" in str(error.hint)


def test_outputs_that_do_not_depend_on_the_inputs(publication: Publication) -> None:
    publication.models[MODEL] = model_bytes(INDEPENDENT)
    publication.seed()
    error = refused(publication, VerificationError)
    assert (error.exit_code, error.kind) == (5, "output_independent_of_input")
    assert MODEL in str(error)


def test_a_rewrite_that_is_wrong(publication: Publication, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, Wrong.name, Wrong)
    publication.seed()
    passes = ["concat_tree", "wrong", "split_tree", "sum_to_add"]
    error = refused(publication, VerificationError, publication.recipe(passes=passes))
    assert (error.exit_code, error.kind) == (5, "different")
    assert "pass wrong, its rewrite of Tanh tanh in main" in str(error)
    assert str(publication.out / "failed" / MODEL) in str(error.hint)
    culprit = error.details["culprit"]
    assert (culprit["pass_name"], culprit["node"], culprit["op"]) == ("wrong", "tanh", "Tanh")
    evidence = sorted(path.suffix for path in (publication.out / "failed" / MODEL).iterdir())
    assert evidence == [".npz", ".onnx", ".onnx"]
    # The log is there for a failure above all.
    assert json.loads((publication.out / "run.json").read_text())["runs"]


def test_a_wrong_rewrite_whose_cause_cannot_be_found(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(PASSES, Wrong.name, Wrong)
    monkeypatch.setattr(transform, "bisect", broken)
    publication.seed()
    passes = ["concat_tree", "wrong", "split_tree", "sum_to_add"]
    error = refused(publication, VerificationError, publication.recipe(passes=passes))
    assert (error.exit_code, error.kind, error.details["culprit"]) == (5, "different", None)
    assert any("No space left" in line for line in publication.said)


def test_a_result_that_changes_while_it_is_verified(publication: Publication) -> None:
    publication.seed()

    def meddle(line: str) -> None:
        if line.startswith("verifying"):
            model = onnx.load(publication.staged / MODEL)
            model.doc_string = "not what was rewritten"
            onnx.save(model, publication.staged / MODEL)

    error = error_of(
        HubError,
        lambda: pipeline.run(publication.recipe(), publication.folder, publication.options(), {}, meddle),
    )
    assert (error.kind, error.where) == ("staged_changed", MODEL)
    assert publication.nothing_is_published()


def test_a_file_that_is_no_model(publication: Publication) -> None:
    publication.models[MODEL] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    publication.seed()
    error = refused(publication, UnsupportedModelError)
    assert (error.exit_code, error.where) == (4, MODEL)


def test_a_folder_that_cannot_be_written(publication: Publication) -> None:
    publication.seed()
    blocked = publication.folder / "file"
    blocked.write_bytes(b"")
    error = refused(publication, UsageError, out=blocked / "out")
    assert error.kind == "cannot_write"
    assert str(blocked) in str(error)


def model_bytes_text() -> str:
    return """<ir_version: 8, opset_import: ["": 13]>
    g (float[3] x) => (float[3] y) { y = Add (x, sp) }"""
