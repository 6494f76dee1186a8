from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from hubpublish import recipe
from hubpublish.errors import HubpublishError, SourceError, UsageError
from hubpublish.localhub import LocalHub
from hubpublish.new import draft

CARD = """\
---
license: apache-2.0
pipeline_tag: image-segmentation
library_name: transformers.js
tags: [matting, onnx]
base_model: someone/original
---
# A model
"""
REPO = "alice/Matting-ONNX"


def fill(api: HfApi, files: dict[str, bytes], repo: str = REPO) -> None:
    api.create_repo(repo)
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    api.create_commit(repo, operations, commit_message="files")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_all_that_the_hub_knows_is_in_it(hub: LocalHub, api: HfApi) -> None:
    files = {
        "README.md": CARD.encode(),
        "config.json": b"{}",
        "preprocessor_config.json": b"{}",
        "tokenizer.json": b"{}",
        "training_args.bin": b"not copied",
        "onnx/model.onnx": b"fp32",
        "onnx/model.onnx_data": b"data",
        "onnx/model.onnx_data_1": b"more data",
        "onnx/model_fp16.onnx": b"fp16",
        "onnx/model_quantized.onnx": b"q8",
        "onnx/model_q4f16.onnx": b"q4f16",
        "onnx/model_q4f16.onnx_data": b"q4f16 data",
        "onnx/model_bnb4.onnx": b"bnb4",
        "elsewhere/model.onnx": b"neither at the root nor in onnx/",
    }
    fill(api, files)
    found = draft(api, REPO)
    made = recipe.loads(found.text)
    assert {each.path: each.dtype for each in made.variants} == {
        "onnx/model.onnx": "fp32",
        "onnx/model_bnb4.onnx": "bnb4",
        "onnx/model_fp16.onnx": "fp16",
        "onnx/model_q4f16.onnx": "q4f16",
        "onnx/model_quantized.onnx": "q8",
    }
    assert made.variants[0].path == "onnx/model.onnx", "the plain one comes first"
    pins = {each.path: each.sha256 for each in made.variants}
    pins |= {data.path: data.sha256 for each in made.variants for data in each.data}
    assert pins == {path: digest(content) for path, content in files.items() if path.startswith("onnx/")}
    assert [data.path for data in made.variants[0].data] == ["onnx/model.onnx_data", "onnx/model.onnx_data_1"]
    assert [each.path for each in made.source.copy_files] == [
        "config.json",
        "preprocessor_config.json",
        "tokenizer.json",
    ]
    assert made.passes == "auto"
    assert (made.device.profile, made.verify.gate) == ("webgpu-min", "exact")
    assert made.target.repo == "${HUBPUBLISH_NAMESPACE}/Matting-webgpu"
    assert (made.card.license, made.card.pipeline_tag) == ("apache-2.0", "image-segmentation")
    assert made.card.tags == ("matting", "onnx", "webgpu")
    assert made.card.base_model == ("someone/original", REPO)
    assert made.card.title == "Matting for WebGPU"
    assert found.open == ()


def test_lfs_files_are_pinned_without_a_download(hub: LocalHub, api: HfApi) -> None:
    fill(api, {"README.md": CARD.encode(), "config.json": b"{}", "onnx/model.onnx": b"x" * 100})
    (listed,) = (each for each in api.model_info(REPO, files_metadata=True).siblings or () if each.lfs)
    assert listed.rfilename == "onnx/model.onnx"
    draft(api, REPO)
    assert hub.requests(r"^(GET|HEAD) /.*resolve/") == []


def test_a_model_outside_lfs_is_fetched_and_hashed(hub: LocalHub, api: HfApi) -> None:
    attributes = b"*.onnx -filter -diff -merge\n"
    api.create_repo(REPO)
    api.create_commit(REPO, [CommitOperationAdd(".gitattributes", attributes)], commit_message="no LFS")
    api.create_commit(REPO, [CommitOperationAdd("model.onnx", b"small")], commit_message="model")
    assert not any(each.lfs for each in api.model_info(REPO, files_metadata=True).siblings or ())
    made = recipe.loads(draft(api, REPO).text)
    assert [(each.path, each.sha256) for each in made.variants] == [("model.onnx", digest(b"small"))]


def test_what_cannot_be_known_stays_open(api: HfApi) -> None:
    fill(api, {"model.onnx": b"a", "model_qint8_arm64.onnx": b"b", "onnx/weights.onnx_data": b"c"})
    found = draft(api, REPO)
    made = recipe.loads(found.text)
    assert made.card.license == "unknown"
    assert "license: unknown  # the source's card names no license" in found.text
    assert "  # pipeline_tag: the task" in found.text
    assert {each.path: each.dtype for each in made.variants} == {
        "model.onnx": "fp32",
        "model_qint8_arm64.onnx": "qint8",
    }
    text = " | ".join(found.open)
    for part in (
        "names no license",
        "pipeline_tag",
        "model_qint8_arm64.onnx",
        "weights.onnx_data",
        "config.json",
    ):
        assert part in text
    assert all(f"# - {each}" in found.text for each in found.open)


@pytest.mark.parametrize(
    ("license_line", "license_id", "said"),
    [
        ("license: other", "other", "a license of its own"),
        ("license: [mit, apache-2.0]", "mit", "names several: mit, apache-2.0"),
        ("tags: [x]", "unknown", "names no license"),
    ],
)
def test_a_license_that_needs_a_look(api: HfApi, license_line: str, license_id: str, said: str) -> None:
    fill(api, {"README.md": f"---\n{license_line}\n---\n".encode(), "model.onnx": b"a", "config.json": b"{}"})
    found = draft(api, REPO)
    assert recipe.loads(found.text).card.license == license_id
    assert any(said in each for each in found.open)


def test_a_card_with_what_the_hub_takes_and_a_recipe_does_not(api: HfApi) -> None:
    card = "---\nlicense: 'MIT License!'\ntags: ['', \"x\\ny\", good]\npipeline_tag: 'Foo Bar!'\n---\n"
    fill(api, {"README.md": card.encode(), "model.onnx": b"a"})
    made = recipe.loads(draft(api, REPO).text)
    assert (made.card.license, made.card.pipeline_tag) == ("unknown", None)
    assert "# - the source has no config.json" in draft(api, REPO).text
    assert "the card's example is then one for ONNX Runtime Web" in draft(api, REPO).text
    assert made.card.tags == ("good", "webgpu", "onnx")


def test_a_file_name_cannot_write_into_the_recipe(api: HfApi) -> None:
    name = "x\u2028target: {repo: evil/evil}\u2028#.onnx_data"
    fill(api, {"model.onnx": b"a", name: b"b"})
    found = draft(api, REPO)
    assert recipe.loads(found.text).target.repo == "${HUBPUBLISH_NAMESPACE}/Matting-webgpu"
    assert all(each.isprintable() for each in found.open)


def test_a_target_may_be_given(api: HfApi) -> None:
    fill(api, {"model.onnx": b"a"})
    assert recipe.loads(draft(api, REPO, "acme/other").text).target.repo == "acme/other"
    assert recipe.loads(draft(api, REPO, "${WHERE}").text).target.repo == "${WHERE}"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("https://huggingface.co/alice/Matting-ONNX", None, "write the repo id, 'alice/Matting-ONNX'"),
        ("a b", None, "is not a repo id"),
        (REPO, "no-owner", "has no owner"),
        (REPO, "ALICE/matting-onnx", "the target is the source"),
    ],
)
def test_ids_are_checked_first(
    hub: LocalHub, api: HfApi, source: str, target: str | None, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        draft(api, source, target)
    assert hub.log == []


def test_a_repo_that_is_not_there(api: HfApi) -> None:
    with pytest.raises(SourceError, match="no such repository"):
        draft(api, "alice/none")


def test_a_repo_without_models_names_those_elsewhere(api: HfApi) -> None:
    fill(api, {"README.md": CARD.encode(), "unet/model.onnx": b"a"})
    with pytest.raises(SourceError, match=r"no ONNX model .* there are unet/model\.onnx"):
        draft(api, REPO)


def test_no_hub_at_all(tmp_path: Path) -> None:
    with pytest.raises(HubpublishError) as caught:
        draft(HfApi(endpoint="http://127.0.0.1:9"), REPO)
    assert caught.value.exit_code == 3
