"""The folder that the demo uploads as its source."""

import json

import onnx
from huggingface_hub import ModelCard

from hubpublish.demo.config import SMALL
from hubpublish.demo.repo import write_repo

FILES = (
    "LICENSE", "README.md", "config.json", "onnx/model.onnx", "onnx/model_fp16.onnx",
    "preprocessor_config.json",
)  # fmt: skip


def test_writes_a_repo_that_transformers_js_loads(tmp_path):
    assert write_repo(tmp_path / "repo") == FILES
    folder = tmp_path / "repo"
    written = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert written == list(FILES)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "birefnet"
    preprocessor = json.loads((folder / "preprocessor_config.json").read_text())
    assert preprocessor["feature_extractor_type"] == "ImageFeatureExtractor"
    assert preprocessor["size"] == {"width": SMALL.size, "height": SMALL.size}
    assert sum((folder / path).stat().st_size for path in FILES) < 40e6
    for path in FILES[3:5]:
        onnx.checker.check_model(str(folder / path))


def test_the_card_says_that_the_weights_are_random(tmp_path):
    write_repo(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    metadata = card.data.to_dict()
    assert metadata["license"] == "mit"
    assert metadata["pipeline_tag"] == "image-segmentation"
    assert metadata["library_name"] == "transformers.js"
    assert "random" in card.text
    assert f"[1, 3, {SMALL.size}, {SMALL.size}]" in card.text
    assert "random weights" in (tmp_path / "LICENSE").read_text()


def test_writes_the_same_bytes_again(tmp_path):
    for name in ("a", "b"):
        write_repo(tmp_path / name)
    for path in FILES:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
