"""A published repo made again from its own report: the same bytes, or which file not and why."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from huggingface_hub import CommitOperationDelete, HfApi

from hubpublish import passes, report, reproduce
from hubpublish import recipe as recipes
from hubpublish.cli.main import run as run_command
from hubpublish.errors import HubError, SourceError, UsageError, VerificationError
from hubpublish.hub import connect, git_oid_of
from hubpublish.inspection import Auto
from hubpublish.layout import CARD, MANIFEST, RECIPE, REPORT, SIGNATURE
from hubpublish.localhub import LocalHub
from hubpublish.recipe import pass_spec
from hubpublish.reproduce import FileResult, Reproduction
from tests.errors import error_of
from tests.publication import (
    SOURCE,
    TARGET,
    TOKEN,
    Publication,
    commit,
    files_below,
    model_bytes,
    recipe_data,
    sha256,
)

ROOT = Path(__file__).parent.parent
SEEDS = 30
MODEL = "onnx/model.onnx"
WEIGHTY = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2,400] x) => (float[2,400] y) { a = Mul (x, w) [total] y = Sum (a, x, w) }"""
ODD: list[Any] = [
    *(
        None,
        True,
        -1,
        2**70,
        1e308,
        float("nan"),
        "",
        "x" * 5000,
        "\ud800",
        "\0",
        "../../x",
        "{{ 7 }}",
        [],
        {},
    ),
    *([["x"]], {"a": {"b": []}}, "main", "0" * 64, "- a\n- b: *c"),
]


@dataclass(frozen=True)
class Published:
    """A published repo on a Hub."""

    publication: Publication
    repo: str

    @property
    def api(self) -> HfApi:
        return self.publication.api

    @property
    def hub(self) -> LocalHub:
        return self.publication.hub

    @property
    def folder(self) -> Path:
        return self.publication.folder

    def files(self) -> dict[str, bytes]:
        return self.publication.published(self.repo)

    def read(self, path: str) -> bytes:
        return self.publication.read(path, self.repo)

    def put(self, files: dict[str, bytes], *, listed: bool = False) -> None:
        """Change files of it; ``listed``: in its manifest too, as a forger would."""
        if listed:
            document = json.loads(self.read(MANIFEST))
            for path, content in files.items():
                document["files"][path], document["git_oids"][path] = sha256(content), git_oid_of(content)
            for name in ("files", "git_oids"):
                document[name] = dict(sorted(document[name].items()))
            files = {**files, MANIFEST: (json.dumps(document, indent=2) + "\n").encode()}
        commit(self.api, self.repo, files)

    def put_report(self, change: Callable[[dict[str, Any]], object]) -> None:
        document = json.loads(self.read(REPORT))
        change(document)
        self.put({REPORT: (json.dumps(document, indent=2) + "\n").encode()}, listed=True)

    def made(self, revision: str = "main", out: Path | None = None) -> Reproduction:
        """As somebody else does it: without a token, with a cache of their own."""
        api = connect(self.hub.endpoint, False)
        cache = self.folder / "their cache"
        return reproduce.reproduce(api, self.repo, revision, cache=cache, out=out, say=lambda _: None)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """One publication, for tests that change nothing in it and in its source."""
    folder = tmp_path_factory.mktemp("shelf")
    with LocalHub(folder / "hub") as hub:
        publication = Publication(hub, HfApi(endpoint=hub.endpoint, token=TOKEN), folder)
        publication.seed()
        publication.run()
        yield Published(publication, TARGET)
    assert not hub.errors, "\n".join(hub.errors)


@pytest.fixture
def published(shelf: Published, request: pytest.FixtureRequest) -> Published:
    """The same publication in a repo of the test's own."""
    copy = Published(shelf.publication, f"acme/copy-{sha256(request.node.nodeid.encode())[:16]}")
    commit(copy.api, copy.repo, shelf.files())
    return copy


@pytest.fixture
def alone(publication: Publication) -> Published:
    """A publication on a Hub of the test's own."""
    publication.seed()
    publication.run()
    return Published(publication, TARGET)


def by_path(result: Reproduction) -> dict[str, FileResult]:
    return {file.path: file for file in result.files}


def statuses(result: Reproduction) -> dict[str, str]:
    return {file.path: file.status for file in result.files if file.status != "same"}


class TestTheSame:
    def test_every_file_and_no_published_model_is_downloaded(self, published: Published) -> None:
        asked = len(published.hub.log)
        result = published.made()
        log = [f"{entry.method} {entry.path}" for entry in list(published.hub.log)[asked:]]
        resolved = [line for line in log if line.startswith(f"GET /{published.repo}/resolve/")]
        assert {line.rpartition("/")[2] for line in resolved} == {MANIFEST, REPORT}
        assert result
        assert {file.path for file in result.files} == set(published.files())
        assert all(file.published == file.rebuilt for file in result.files)
        assert (result.source, result.versions) == (SOURCE, {})

    def test_what_was_made_is_kept_where_it_is_wanted(self, published: Published) -> None:
        out = published.folder / "rebuilt"
        assert published.made(out=out)
        assert files_below(out) == published.files()

    def test_an_older_publication(self, alone: Published) -> None:
        old = str(alone.api.model_info(alone.repo).sha)
        alone.api.create_tag(alone.repo, tag="v1")
        commit(alone.api, SOURCE, {"config.json": b"{}\n"})
        assert alone.publication.run().status == "published"
        assert alone.made("v1").commit == old
        for revision in ("v1", old, "main"):
            assert alone.made(revision), revision

    def test_external_data_and_passes_of_one_variant(self, publication: Publication) -> None:
        model = onnx.parser.parse_model(WEIGHTY)
        weight = np.linspace(-1, 1, 400, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        folder = publication.folder / "made"
        folder.mkdir()
        onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx_data")
        publication.models["onnx/model_fp16.onnx"] = publication.models[MODEL]
        publication.models[MODEL] = (folder / "model.onnx").read_bytes()
        data = (folder / "model.onnx_data").read_bytes()
        publication.seed({f"{MODEL}_data": data})
        recipe = recipe_data(publication.models)
        recipe["variants"][0] |= {"data": [{"path": f"{MODEL}_data", "sha256": sha256(data)}]}
        recipe["variants"][1]["passes"] = ["concat_tree", {"split_tree": {"max_outputs": 4}}]
        publication.run(recipes.loads(yaml.safe_dump(recipe)))
        result = Published(publication, TARGET).made()
        assert result
        assert {MODEL, f"{MODEL}_data", "onnx/model_fp16.onnx"} <= by_path(result).keys()

    def test_passes_that_were_chosen_also_where_others_would_be_now(
        self, publication: Publication, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = "onnx/other.onnx"
        publication.models[other] = model_bytes(
            '<ir_version: 8, opset_import: ["": 13]> g (float[8] x) => (float[8] y) { y = Sum (x, x, x) }'
        )
        publication.seed()
        assert publication.run(publication.recipe(passes="auto")).status == "published"
        monkeypatch.setattr(Auto, "choose", lambda self, found: ())
        for path in (MODEL, other):
            publication.models[path] = b""  # nothing of the test's own is used
        made = Published(publication, TARGET).made()
        assert made, made.files

    def test_files_of_others_are_none_of_its_business(self, published: Published) -> None:
        published.put({"pictures/cat.png": b"png"})
        result = published.made()
        assert result
        assert "pictures/cat.png" not in by_path(result)

    def test_what_people_wrote_where_they_may(self, publication: Publication) -> None:
        publication.seed()
        publication.run(publication.recipe(card={"free_text": ["notes"]}))
        repo = Published(publication, TARGET)
        card = repo.read(CARD).decode()
        marker = "<!-- free text: notes -->\n"
        repo.put({CARD: card.replace(marker, f"{marker}Words.\n").encode()})
        assert repo.made()
        repo.put({CARD: card.replace("# ", "# New ", 1).encode()})
        assert statuses(repo.made()) == {CARD: "edited"}

    def test_a_signature_is_not_rebuilt(self, published: Published) -> None:
        published.put({SIGNATURE: b"signature"}, listed=True)
        result = published.made()
        assert result
        assert statuses(result) == {SIGNATURE: "signature"}
        assert by_path(result)[SIGNATURE].why == "a signature, not rebuilt"

    def test_what_was_withdrawn_meanwhile(self, published: Published) -> None:
        document = json.loads(published.read(MANIFEST))
        document["withdrawn"] = ["a" * 64]
        published.put({MANIFEST: (json.dumps(document, indent=2) + "\n").encode()})
        assert published.made()

    def test_in_a_fresh_clone_on_another_path(self, published: Published, tmp_path: Path) -> None:
        clone = tmp_path / "some where" / "else"
        for name in ("hubpublish", "templates"):
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        code = "import hubpublish; print(hubpublish.__file__)"
        environ = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "HF_HOME")},
            "HOME": str(tmp_path),
            "PYTHONPATH": str(clone),
            "PYTHONHASHSEED": "7",
            "TZ": "Asia/Kathmandu",
        }

        def run(*command: str) -> str:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=clone,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert run("-c", code).strip() == str(clone / "hubpublish" / "__init__.py")
        options = ["--endpoint", published.hub.endpoint, "--json"]
        found = json.loads(run("-m", "hubpublish", "reproduce", published.repo, *options))
        assert {file["status"] for file in found["files"]} == {"same"}


class TestNotTheSame:
    def test_an_edited_file(self, published: Published) -> None:
        published.put({MODEL: b"other", CARD: b"---\nlicense: mit\n---\n# Mine\n"})
        result = published.made()
        assert statuses(result) == {MODEL: "edited", CARD: "edited"}
        for file in result.files:
            assert file.why in (None, "edited since; what was published is made again")
        error = result.error()
        assert (error.kind, error.exit_code) == ("not_reproduced", 5)
        assert "2 of 9 files" in error.what
        assert {file["path"]: file["status"] for file in error.details["files"]}[MODEL] == "edited"  # type: ignore[attr-defined]

    def test_a_deleted_file(self, published: Published) -> None:
        published.api.create_commit(
            published.repo, [CommitOperationDelete("config.json")], commit_message="delete"
        )
        result = published.made()
        assert statuses(result) == {"config.json": "missing"}
        assert by_path(result)["config.json"].why == "deleted since"

    def test_a_forged_model_that_the_manifest_and_the_report_vouch_for(self, published: Published) -> None:
        def forge(document: dict[str, Any]) -> None:
            document["variants"][0]["output"][0] |= {"sha256": sha256(b"forged"), "size": 6}

        published.put_report(forge)
        published.put({MODEL: b"forged"}, listed=True)
        result = published.made()
        assert by_path(result)[MODEL].status == "differs"
        assert by_path(result)[REPORT].status == "differs"
        assert by_path(result)[MODEL].why == "it does not follow from the report, made by the same versions"

    def test_a_recipe_that_the_report_does_not_have(self, published: Published) -> None:
        text = published.read(RECIPE).replace(b"max_inputs: 6", b"max_inputs: 5")
        published.put({RECIPE: text}, listed=True)
        assert statuses(published.made()) == {RECIPE: "differs", MANIFEST: "differs"}

    @pytest.mark.parametrize("note", [{"note": "trust me"}, {"hubpublish": "9"}])
    def test_a_manifest_that_says_more(self, published: Published, note: dict[str, str]) -> None:
        manifest = {**json.loads(published.read("manifest.json")), **note}
        published.put({"manifest.json": json.dumps(manifest, indent=2).encode() + b"\n"})
        result = published.made()
        assert not result
        assert statuses(result)["manifest.json"] == "differs"

    def test_a_manifest_that_is_written_in_another_way(self, published: Published) -> None:
        published.put({"manifest.json": json.dumps(json.loads(published.read("manifest.json"))).encode()})
        assert statuses(published.made())["manifest.json"] == "differs"

    def test_a_file_that_nothing_leads_to(self, published: Published) -> None:
        published.put({"more.json": b"{}"}, listed=True)
        assert statuses(published.made()) == {"more.json": "differs", MANIFEST: "differs"}

    def test_a_source_that_is_gone(self, alone: Published) -> None:
        alone.api.delete_repo(SOURCE)
        result = alone.made()
        assert {file.status for file in result.files} == {"not_rebuilt"}
        assert "the source is no longer there" in str(result.files[0].why)
        assert "the source is no longer there" in result.error().what

    def test_a_commit_of_the_source_that_is_gone(self, alone: Published) -> None:
        alone.api.delete_repo(SOURCE)
        commit(alone.api, SOURCE, alone.publication.models)
        assert "the source is no longer there" in alone.made().error().what

    def test_a_source_that_is_not_what_the_report_says(self, published: Published) -> None:
        def repin(document: dict[str, Any]) -> None:
            document["recipe"]["variants"][0]["sha256"] = "0" * 64

        published.put_report(repin)
        assert "the source is not what the recipe says" in published.made().error().what

    def test_a_source_that_cannot_be_asked_for_is_an_error(self, alone: Published) -> None:
        alone.hub.fault(f"GET /api/models/{SOURCE}/revision", "status", status=503, times=None)
        assert error_of(SourceError, lambda: alone.made()).exit_code == 3

    def test_a_pass_that_this_version_does_not_know(
        self, published: Published, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Another registry, and not less in it: what is put back into a dict comes last.
        known = {name: each for name, each in passes.PASSES.items() if name != "sum_to_add"}
        monkeypatch.setattr(pass_spec, "PASSES", known)
        result = published.made()
        assert {file.status for file in result.files} == {"not_rebuilt"}
        assert "unknown pass 'sum_to_add'" in str(by_path(result)[MODEL].why)

    def test_an_option_that_this_version_does_not_know(self, published: Published) -> None:
        def more(document: dict[str, Any]) -> None:
            document["recipe"]["passes"][0]["concat_tree"]["speed"] = 9

        published.put_report(more)
        assert "speed" in str(by_path(published.made())[MODEL].why)


class TestVersions:
    @pytest.fixture
    def older(self, publication: Publication) -> Published:
        """A publication that other versions made."""
        now = report.versions()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(report, "versions", lambda **_: {**now, "hubpublish": "0.0.9", "onnx": "1.0.0"})
            patch.setattr("hubpublish.__version__", "0.0.9")
            publication.seed()
            publication.run()
        return Published(publication, TARGET)

    def test_other_versions_that_make_the_same_are_told_and_no_error(self, older: Published) -> None:
        result = older.made()
        assert result
        assert set(result.versions) == {"hubpublish", "onnx"}
        assert (result.versions["onnx"].then, result.versions["onnx"].now) == (
            "1.0.0",
            report.versions()["onnx"],
        )

    def test_other_versions_are_why_a_file_differs(
        self, older: Published, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hubpublish.passes.sum_to_add.SumToAdd.summary", "Sum becomes Adds")
        result = older.made()
        assert by_path(result)[MODEL].status == "same"
        assert by_path(result)[CARD].status == "differs"
        assert "versions differ: hubpublish 0.0.9 then, " in str(by_path(result)[CARD].why)
        assert "hubpublish 0.0.9, onnx 1.0.0" in str(result.error().hint)


class TestHostile:
    def test_a_report_of_a_later_version(self, published: Published) -> None:
        published.put_report(lambda document: document.update(schema_version=2))
        error = error_of(VerificationError, lambda: published.made())
        assert (error.kind, error.exit_code) == ("report_unreadable", 5)
        assert "schema_version 2 is not known" in error.what
        assert report.versions()["hubpublish"] in str(error.hint)

    def test_a_report_that_is_none(self, published: Published) -> None:
        published.put({REPORT: b"[]"})
        assert error_of(VerificationError, lambda: published.made()).kind == "report_unreadable"
        published.put({REPORT: b"{"})
        assert error_of(HubError, lambda: published.made()).kind == "nothing_published"

    @pytest.mark.parametrize("path", ["../evil.onnx", "/tmp/evil.onnx", "a/../../evil.onnx", ".git/a.onnx"])
    def test_a_path_that_leads_elsewhere(self, published: Published, path: str) -> None:
        def elsewhere(document: dict[str, Any]) -> None:
            document["recipe"]["variants"][0]["path"] = document["variants"][0]["path"] = path

        published.put_report(elsewhere)
        result = published.made()
        assert by_path(result)[MODEL].status == "not_rebuilt"
        assert "variants[0].path" in str(by_path(result)[MODEL].why)

    def test_a_branch_in_place_of_a_commit(self, published: Published) -> None:
        published.put_report(lambda document: document["recipe"]["source"].update(revision="main"))
        assert "names no commit" in str(published.made().files[0].why)

    def test_variants_that_are_not_the_recipes(self, published: Published) -> None:
        published.put_report(lambda document: document["variants"].append(document["variants"][0]))
        assert "are not those of its recipe" in str(published.made().files[0].why)

    def test_a_source_that_is_not_the_recipes(self, published: Published) -> None:
        published.put_report(lambda document: document["source"].update(repo="acme/other"))
        assert "source is not that of its recipe" in str(published.made().files[0].why)

    def test_no_command_reaches_a_terminal(
        self, published: Published, capsys: pytest.CaptureFixture[str]
    ) -> None:
        evil = "\x1b[2J\x9b1m\u202e"
        published.put({MODEL: b"other"})
        published.put_report(lambda document: document["versions"].update({evil: evil}))
        document = json.loads(published.read(MANIFEST))
        document["files"][evil] = "0" * 64
        published.put({MANIFEST: json.dumps(document).encode()})
        assert run_command(["reproduce", published.repo, "--endpoint", published.hub.endpoint]) == 5
        out, err = capsys.readouterr()
        assert "\\x1b[2J\\x9b1m\\u202e" in out
        assert not {"\x1b", "\x9b", "\u202e"} & {*out, *err}, ascii(err)
        published.put_report(lambda document: document.update({evil: 1}))
        assert run_command(["reproduce", published.repo, "--endpoint", published.hub.endpoint]) == 5
        assert "\\x1b[2J" in capsys.readouterr().err

    def test_whatever_is_changed_in_a_report_ends_in_a_result_or_an_error_of_ours(
        self, published: Published
    ) -> None:
        whole, before = published.read(REPORT), files_below(published.folder / "out")
        for seed in range(SEEDS):
            published.put({REPORT: _spoiled(whole, random.Random(seed))}, listed=True)
            with contextlib.suppress(SourceError, VerificationError, HubError):
                json.dumps(published.made().model_dump(mode="json")).encode()
        assert files_below(published.folder / "out") == before


def _spoiled(whole: bytes, chance: random.Random) -> bytes:
    """A report with two of its values, or parts, replaced by what nobody expects there."""
    document = json.loads(whole)
    for _ in range(2):
        node, key = chance.choice(list(_spots(document)))
        node[key] = chance.choice(ODD)
    return json.dumps(document).encode()


def _spots(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _spots(node[key])


class TestWhatIsNone:
    def test_a_repo_that_is_not_there(self, publication: Publication) -> None:
        assert error_of(HubError, lambda: Published(publication, TARGET).made()).kind == "repo_not_found"

    def test_a_repo_of_somebody_else(self, publication: Publication) -> None:
        commit(publication.api, TARGET, {"README.md": b"---\nlicense: mit\n---\n# Mine\n"})
        error = error_of(HubError, lambda: Published(publication, TARGET).made())
        assert (error.kind, error.exit_code) == ("nothing_published", 6)

    def test_a_revision_that_is_not_there(self, published: Published) -> None:
        assert error_of(HubError, lambda: published.made("v9")).kind == "revision_not_found"

    def test_a_folder_that_holds_something(self, published: Published) -> None:
        error = error_of(UsageError, lambda: published.made(out=published.folder))
        assert "not empty" in error.what

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("acme/a", ("acme/a", "main")),
            ("acme/a@v1", ("acme/a", "v1")),
            ("a/b@refs/pr/1", ("a/b", "refs/pr/1")),
        ],
    )
    def test_repo_and_revision(self, text: str, found: tuple[str, str]) -> None:
        assert reproduce.parse_target(text) == found

    @pytest.mark.parametrize("text", ["a", "", "@main", "acme/a@", "https://huggingface.co/acme/a", "a/b/c"])
    def test_what_is_no_repo(self, text: str) -> None:
        assert error_of(UsageError, lambda: reproduce.parse_target(text)).exit_code == 2


class TestCommand:
    @pytest.fixture(autouse=True)
    def _cache(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HUBPUBLISH_CACHE", str(tmp_path / "cache"))

    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(["reproduce", *arguments])
        return code, *capsys.readouterr()

    def test_says_file_by_file_what_is_the_same(
        self, published: Published, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, _ = self.run(capsys, published.repo, "--endpoint", published.hub.endpoint)
        assert code == 0
        assert f"same  {MODEL}" in out
        assert out.splitlines()[-1].startswith("Every file is the same.")

    def test_names_what_is_not_and_why(
        self, published: Published, capsys: pytest.CaptureFixture[str]
    ) -> None:
        published.put({MODEL: b"other"})
        code, out, err = self.run(capsys, f"{published.repo}@main", "--endpoint", published.hub.endpoint)
        assert code == 5
        assert f"edited  {MODEL}" in out
        assert "edited since" in err
        code, out, _ = self.run(capsys, published.repo, "--endpoint", published.hub.endpoint, "--json")
        error = json.loads(out)["error"]
        assert (code, error["kind"]) == (5, "not_reproduced")
        assert {file["path"] for file in error["files"]} == set(published.files())

    def test_as_json(self, published: Published, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = self.run(capsys, published.repo, "--endpoint", published.hub.endpoint, "--json")
        assert code == 0
        assert json.loads(out)["commit"] == published.api.model_info(published.repo).sha
