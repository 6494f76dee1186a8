from __future__ import annotations

import warnings

import pytest
from huggingface_hub import HfApi, ModelCard
from huggingface_hub.utils import HfHubHTTPError

from hubpublish.localhub.api.cards import metadata_errors, metadata_of

from .conftest import Filled


def test_load_validate_and_push(api: HfApi, filled: Filled, default_endpoint: None) -> None:
    card = ModelCard.load(filled.id, token="hf_alice_write")
    card.validate()
    card.data.tags = ["background-removal"]
    card.push_to_hub(filled.id, token="hf_alice_write", commit_message="card")
    assert "background-removal" in api.model_info(filled.id).tags


def test_a_wrong_card_is_not_committed(api: HfApi, filled: Filled) -> None:
    wrong = b"---\nbase_model: [a b]\nbase_model_relation: foo\n---\n"
    with pytest.raises(ValueError, match="base_model_relation"):
        api.upload_file(path_or_fileobj=wrong, path_in_repo="README.md", repo_id=filled.id)
    assert api.model_info(filled.id).sha == filled.commit


def test_a_card_without_metadata_is_warned_about(api: HfApi, filled: Filled) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api.upload_file(path_or_fileobj=b"no metadata", path_in_repo="README.md", repo_id=filled.id)
    assert any("empty or missing yaml metadata" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"license": "mit", "tags": ["a"], "base_model": "a/b", "pipeline_tag": "x"}, []),
        ({"base_model": ["a/b", "c"]}, []),
        ("text", ["YAML metadata must be a mapping"]),
        ({"license": 1}, ['"license" must be a string or an array']),
        ({"pipeline_tag": ["x"]}, ['"pipeline_tag" must be a string']),
        ({"base_model": [1]}, ['"base_model" with value "1" is not valid. Use a model id from the Hub.']),
        ({"base_model_relation": "x"}, ["must be one of [adapter, finetune, merge, quantized]"]),
        ({"model-index": {"a": 1}}, ['"model-index" must be an array']),
        ({"model-index": [{"results": [{"task": {}, "metrics": []}]}]}, ["results[0].dataset"]),
        ({"model-index": ["x", {"results": None}, {"results": ["x"]}]}, ["task", "dataset", "metrics"]),
    ],
)
def test_errors(data: object, expected: list[str]) -> None:
    errors = metadata_errors(data, is_model=True)
    assert len(errors) == len(expected)
    assert all(part in error for part, error in zip(expected, errors, strict=True))


@pytest.mark.parametrize(
    ("readme", "expected"),
    [
        ("---\nlicense: mit\n---\ntext", {"license": "mit"}),
        ("---\r\nlicense: mit\r\n---\r\ntext", {"license": "mit"}),
        ("---\nlicense: mit\n---", {"license": "mit"}),
        ("---\nlicense: [\n---\n", {}),
        ("---\n- a\n---\n", {}),
        ("text\n---\nlicense: mit\n---\n", {}),
        (None, {}),
    ],
)
def test_metadata(readme: str | None, expected: dict[str, object]) -> None:
    assert metadata_of(readme) == expected


def test_yaml_that_is_none_is_told(api: HfApi, filled: Filled, default_endpoint: None) -> None:
    with pytest.raises((ValueError, HfHubHTTPError), match="YAML"):
        api.upload_file(path_or_fileobj=b"---\na: [\n---\n", path_in_repo="README.md", repo_id=filled.id)
