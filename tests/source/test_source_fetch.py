import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from huggingface_hub import CommitOperationAdd, HfApi, constants
from onnx import helper, numpy_helper

from hubpublish import recipe, source
from hubpublish.errors import SourceError
from hubpublish.hub import connect
from hubpublish.localhub import LocalHub

REPO = "alice/model"
CARD = b"---\nlicense: mit\n---\n# A model\n"


def model_bytes(folder: Path, *, external: bool = False) -> dict[str, bytes]:
    weight = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, 1, [1000]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder.mkdir(parents=True)
    options: dict[str, Any] = {"location": "model.onnx_data", "size_threshold": 0} if external else {}
    onnx.save(made, folder / "model.onnx", save_as_external_data=external, **options)
    return {f"onnx/{file.name}": file.read_bytes() for file in folder.iterdir()}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return {**model_bytes(tmp_path / "made"), "README.md": CARD, "config.json": b"{}", "LICENSE": b"MIT"}


@pytest.fixture
def upload(api: HfApi) -> Callable[[dict[str, bytes]], str]:
    def commit(content: dict[str, bytes]) -> str:
        api.create_repo(REPO, exist_ok=True)
        added = [CommitOperationAdd(path, data) for path, data in content.items()]
        return api.create_commit(REPO, added, commit_message="add").oid

    return commit


def recipe_for(files: dict[str, bytes], **changes: Any) -> recipe.Recipe:
    data = [path for path in files if path.endswith("_data")]
    variant = {
        "path": "onnx/model.onnx",
        "dtype": "fp32",
        "sha256": sha(files["onnx/model.onnx"]),
        "data": [{"path": path, "sha256": sha(files[path])} for path in data],
        **changes.pop("variant", {}),
    }
    made = {
        "schema": 1,
        "source": {"repo": REPO, "copy": ["config.json"], **changes.pop("source", {})},
        "variants": [variant],
        "passes": [],
        "device": "webgpu-min",
        "verify": {"gate": "exact"},
        "target": {"repo": "alice/target"},
        "card": {"license": "mit"},
    }
    return recipe.Recipe.model_validate(made)


def fetched(api: HfApi, wanted: recipe.Recipe, folder: Path) -> source.FetchedSource:
    return source.fetch(api, wanted, source.resolve(api, wanted.source), folder)


def test_branch_tag_and_commit_resolve(api: HfApi, upload: Any, files: dict[str, bytes]) -> None:
    commit = upload(files)
    api.create_tag(REPO, tag="v1")
    for revision in ("main", "v1", commit):
        spec = recipe_for(files, source={"revision": revision}).source
        assert source.resolve(api, spec).commit == commit


def test_fetch_returns_every_file_with_its_hash(
    api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    commit = upload(files)
    got = fetched(api, recipe_for(files), tmp_path / "cache")
    assert (got.repo, got.commit, got.license) == (REPO, commit, "mit")
    [variant] = got.variants
    assert variant.model.sha256 == sha(files["onnx/model.onnx"])
    assert variant.model.local == variant.folder / "model.onnx"
    assert {file.path: file.local.read_bytes() for file in got.copied} == {
        "config.json": b"{}",
        "LICENSE": b"MIT",
    }
    for file in (variant.model, *got.copied):
        assert sha(file.local.read_bytes()) == file.sha256
        assert file.local.stat().st_size == file.size
    assert {path.name for path in tmp_path.iterdir()} == {"hub", "made", "cache"}


def test_external_data_lies_beside_the_model_and_every_library_takes_it(
    api: HfApi, upload: Any, tmp_path: Path
) -> None:
    files = model_bytes(tmp_path / "external", external=True)
    upload({**files, "README.md": CARD})
    [variant] = fetched(api, recipe_for(files, source={"copy": []}), tmp_path / "cache").variants
    assert [file.local for file in variant.data] == [variant.folder / "model.onnx_data"]
    onnx.load(variant.model.local)
    assert ir.load(variant.model.local).graph.initializers["w"].const_value.numpy()[7] == 7


def test_the_second_fetch_downloads_nothing(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    first = fetched(api, recipe_for(files), tmp_path / "cache")
    before = len(hub.log)
    assert fetched(api, recipe_for(files), tmp_path / "cache") == first
    assert not [entry for entry in hub.log[before:] if "/resolve/" in entry.path]


def test_a_new_commit_that_leaves_the_model_alone_does_not_fetch_it_again(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    fetched(api, recipe_for(files), tmp_path / "cache")
    upload({"README.md": CARD + b"more"})
    before = hub.requests(r"/resolve/.*model\.onnx")
    fetched(api, recipe_for(files), tmp_path / "cache")
    assert hub.requests(r"/resolve/.*model\.onnx") == before


def test_a_storage_elsewhere_gets_no_token(files: dict[str, bytes], tmp_path: Path) -> None:
    with LocalHub(tmp_path / "hub", separate_cdn=True) as hub:
        api = connect(hub.endpoint, "hf_alice_write")
        api.create_repo(REPO)
        added = [CommitOperationAdd(path, data) for path, data in files.items()]
        api.create_commit(REPO, added, commit_message="add")
        wanted = recipe_for(files)
        model = fetched(api, wanted, tmp_path / "cache").variants[0].model
        folder = model.local.parent.parent
        partial = folder / ".cache" / "huggingface" / "download" / f"x.{model.sha256}.y.incomplete"
        partial.write_bytes(model.local.read_bytes()[:1000])
        model.local.unlink()
        assert fetched(api, wanted, tmp_path / "cache").variants[0].model == model
        stored = [entry for entry in hub.log if "/resolve/" not in entry.path and "sig=" in entry.path]
        assert [entry.range for entry in stored if entry.method == "GET"] == [None, "bytes=1000-"]
        assert not any(entry.has_auth for entry in stored)


# -- what is not there


def error_of(api: HfApi, wanted: recipe.Recipe, folder: Path) -> SourceError:
    with pytest.raises(SourceError) as caught:
        fetched(api, wanted, folder)
    assert caught.value.exit_code == 3
    assert caught.value.hint
    assert "hf_alice" not in str(caught.value)
    return caught.value


def test_missing_repo(api: HfApi, files: dict[str, bytes], tmp_path: Path) -> None:
    error = error_of(api, recipe_for(files), tmp_path / "cache")
    assert error.kind == "repo_not_found"
    assert REPO in error.what


def test_missing_revision(api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    upload(files)
    error = error_of(api, recipe_for(files, source={"revision": "v9"}), tmp_path / "cache")
    assert error.kind == "revision_not_found"
    assert "'v9'" in error.what


def test_missing_file_is_found_before_any_download(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    error = error_of(api, recipe_for(files, source={"copy": ["confg.json"]}), tmp_path / "cache")
    assert error.kind == "file_not_found"
    assert "confg.json" in error.what
    assert error.hint == "did you mean config.json?"
    assert not hub.requests("/resolve/")


def test_gated_repo(hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    upload(files)
    api.update_repo_settings(REPO, gated="manual")
    error = error_of(connect(hub.endpoint, "hf_bob_write"), recipe_for(files), tmp_path / "cache")
    assert error.kind == "gated"


def test_private_repo_without_a_token(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    api.update_repo_settings(REPO, private=True)
    error = error_of(connect(hub.endpoint, False), recipe_for(files), tmp_path / "cache")
    assert error.kind == "repo_not_found"
    assert "private" in error.what


def test_no_network(closed_port: str, files: dict[str, bytes], tmp_path: Path) -> None:
    error = error_of(connect(closed_port, None), recipe_for(files), tmp_path / "cache")
    assert error.kind == "no_network"
    assert error.where == f"{closed_port}/api/models/alice/model/revision/main"


# -- what is not what it should be


def test_wrong_pin_is_refused_with_both_hashes(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    error = error_of(api, recipe_for(files, variant={"sha256": "0" * 64}), tmp_path / "cache")
    assert error.kind == "hash_mismatch"
    assert "0" * 64 in error.what
    assert sha(files["onnx/model.onnx"]) in error.what
    assert not hub.requests(r"GET .*/resolve/")


def test_wrong_pin_of_a_copied_file(api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    upload(files)
    copied = [{"path": "config.json", "sha256": "1" * 64}]
    error = error_of(api, recipe_for(files, source={"copy": copied}), tmp_path / "cache")
    assert error.kind == "hash_mismatch"
    assert "1" * 64 in error.what
    assert sha(b"{}") in error.what


@pytest.mark.parametrize("path", ["onnx/model.onnx", "config.json", "LICENSE"])
def test_corrupt_once_is_fetched_again(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path, path: str
) -> None:
    upload(files)
    hub.fault(rf"GET .*/resolve/.*{path}", "corrupt")
    got = fetched(api, recipe_for(files), tmp_path / "cache")
    local = {file.path: file.local for file in (got.variants[0].model, *got.copied)}
    assert local[path].read_bytes() == files[path]
    assert len(hub.requests(rf"GET .*/resolve/.*{path}")) == 2


@pytest.mark.parametrize("path", ["onnx/model.onnx", "config.json"])
def test_corrupt_always_is_an_error_with_both_hashes(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path, path: str
) -> None:
    upload(files)
    hub.fault(rf"GET .*/resolve/.*{path}", "corrupt", times=None)
    error = error_of(api, recipe_for(files), tmp_path / "cache")
    assert error.kind == "corrupt_download"
    assert str(error.details["expected"]) in error.what
    assert str(error.details["actual"]) in error.what
    assert error.details["expected"] != error.details["actual"]
    assert len(hub.requests(rf"GET .*/resolve/.*{path}")) == 2


def test_a_file_that_was_changed_in_the_cache_is_fetched_again(
    api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    model = fetched(api, recipe_for(files), tmp_path / "cache").variants[0].model
    model.local.write_bytes(b"\0" * model.size)
    again = fetched(api, recipe_for(files), tmp_path / "cache").variants[0].model
    assert again.local.read_bytes() == files["onnx/model.onnx"]


@pytest.mark.parametrize("action", ["status", "reset", "drop_response"])
def test_a_download_that_fails_is_tried_again(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path, action: str
) -> None:
    upload(files)
    options = {"status": 503} if action == "status" else {}
    hub.fault(r"GET .*/resolve/.*model\.onnx", action, **options)
    got = fetched(api, recipe_for(files), tmp_path / "cache")
    assert got.variants[0].model.local.read_bytes() == files["onnx/model.onnx"]


def test_a_hub_that_stays_down_is_one_clear_error(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    hub.fault(r"GET .*/resolve/.*model\.onnx", "status", status=503, times=None)
    error = error_of(api, recipe_for(files), tmp_path / "cache")
    assert error.kind == "server_error"
    assert error.where is not None
    assert error.where.startswith(f"{hub.endpoint}/alice/model/resolve/")


def test_a_truncated_download_is_resumed(
    hub: LocalHub,
    api: HfApi,
    upload: Any,
    files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upload(files)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 50)  # what it writes at a time
    hub.fault(r"GET .*/resolve/.*model\.onnx", "truncate", after=100)
    got = fetched(api, recipe_for(files), tmp_path / "cache")
    assert got.variants[0].model.local.read_bytes() == files["onnx/model.onnx"]
    assert [entry.range for entry in hub.requests(r"GET .*/resolve/.*model\.onnx")] == [None, "bytes=100-"]


def test_what_a_killed_run_left_is_finished(
    hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    big = os.urandom(2**21)
    files = {**files, "onnx/model.onnx": big}
    upload(files)
    hub.fault(r"GET .*/resolve/.*model\.onnx", "slow", delay=0.1)
    code = (
        "import sys; sys.path.insert(0, sys.argv[3]); import test_source_fetch as t\n"
        "from pathlib import Path; from hubpublish.hub import connect\n"
        "t.constants.DOWNLOAD_CHUNK_SIZE = 2**16\n"
        "wanted = t.recipe.loads(Path(sys.argv[2]).read_text(), 'r.yaml')\n"
        "t.fetched(connect(sys.argv[1], 'hf_alice_write'), wanted, Path(sys.argv[4]))\n"
    )
    cache, text = tmp_path / "cache", tmp_path / "r.yaml"
    text.write_text(recipe.dumps(recipe_for(files)))
    argv = [sys.executable, "-c", code, hub.endpoint, str(text), str(Path(__file__).parent), str(cache)]
    child = subprocess.Popen(argv)
    try:
        wait_for(lambda: any(part.stat().st_size >= 2**16 for part in cache.rglob("*.incomplete")))
    finally:
        child.kill()
        child.wait()
    got = fetched(api, recipe_for(files), cache)
    assert got.variants[0].model.local.read_bytes() == big
    assert not list(cache.rglob("*.incomplete"))
    ranges = [entry.range for entry in hub.requests(r"GET .*/resolve/.*model\.onnx")]
    assert re.fullmatch(r"bytes=\d{5,}-", ranges[-1] or "")


def test_the_debris_of_killed_runs_is_swept_up(
    api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    first = fetched(api, recipe_for(files), tmp_path / "cache")
    folder = first.variants[0].folder.parent / ".cache" / "huggingface" / "download" / "onnx"
    debris = [folder / f"abc.{'0' * 64}.{number}.incomplete" for number in range(2)]
    for path in debris:
        path.write_bytes(b"half")
    fetched(api, recipe_for(files), tmp_path / "cache")
    assert not any(path.exists() for path in debris)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- external data


def test_external_data_that_the_recipe_does_not_list(api: HfApi, upload: Any, tmp_path: Path) -> None:
    files = model_bytes(tmp_path / "external", external=True)
    upload(files)
    wanted = recipe_for(files, source={"copy": []}, variant={"data": []})
    error = error_of(api, wanted, tmp_path / "cache")
    assert error.kind == "external_data_not_listed"
    assert "onnx/model.onnx_data" in error.what


def test_external_data_outside_of_the_folder(api: HfApi, upload: Any, tmp_path: Path) -> None:
    files = model_bytes(tmp_path / "external", external=True)
    made = onnx.ModelProto.FromString(files["onnx/model.onnx"])
    for entry in made.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../../../etc/passwd"
    files["onnx/model.onnx"] = made.SerializeToString()
    upload(files)
    error = error_of(api, recipe_for(files, source={"copy": []}), tmp_path / "cache")
    assert error.kind == "external_data_location"


# -- this machine


def test_a_cache_that_cannot_be_written(
    api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    upload(files)
    (tmp_path / "file").write_text("not a folder")
    error = error_of(api, recipe_for(files), tmp_path / "file" / "cache")
    assert error.kind == "cache_not_writable"
    assert str(tmp_path / "file") in error.what


def test_a_full_disk(hub: LocalHub, api: HfApi, upload: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    """A limit on the size of a file stands in for it: the write fails in the same place."""
    upload(files)
    text = tmp_path / "r.yaml"
    text.write_text(recipe.dumps(recipe_for(files)))
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from hubpublish import recipe, source; from hubpublish.hub import connect\n"
        "from hubpublish.errors import SourceError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "api = connect(sys.argv[1], 'hf_alice_write')\n"
        "wanted = recipe.loads(Path(sys.argv[2]).read_text(), 'r.yaml')\n"
        "commit = source.resolve(api, wanted.source)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try: source.fetch(api, wanted, commit, Path(sys.argv[3]))\n"
        "except SourceError as error: print(error.kind)\n"
    )
    # -B, as Python would write compiled modules that meet the limit by halves, and use them ever after.
    argv = [sys.executable, "-B", "-c", code, hub.endpoint, str(text), str(tmp_path / "cache")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["disk_full"], done.stderr
    assert not list((tmp_path / "cache").rglob("*.incomplete"))
