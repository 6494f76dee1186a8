"""The metadata block of a README: read it, and check it as the Hub does before it takes a commit."""

from __future__ import annotations

import re
from typing import Any

import yaml

from hubpublish.localhub.protocol import Request, Response, json_response, required
from hubpublish.localhub.state import HubState

# Both patterns are those of huggingface_hub's repocard.py and of its validation of model ids.
_BLOCK = re.compile(r"^\s*---(?:\r\n|\r|\n)(?P<yaml>[\S\s]*?)(?:\r\n|\r|\n)---[ \t]*(?:\r\n|\n|$)")
_MODEL_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_RELATIONS = ("adapter", "finetune", "merge", "quantized")
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "license": ((str, list), "a string or an array"),
    "pipeline_tag": ((str,), "a string"),
    "library_name": ((str,), "a string"),
    "tags": ((str, list), "a string or an array"),
}


def metadata_of(readme: str | None) -> dict[str, Any]:
    """The metadata of a card; empty when there is none or it is broken."""
    block = _BLOCK.match(readme or "")
    try:
        data = yaml.safe_load(block["yaml"]) if block else None
    except yaml.YAMLError:
        return {}
    return data if isinstance(data, dict) else {}


def validate_yaml(state: HubState, request: Request) -> Response:
    """``POST /api/validate-yaml``: what is wrong with a card's metadata; 400 if anything is."""
    body = request.json()
    block = _BLOCK.match(required(body, "content"))
    if not block:
        warning = {"message": "empty or missing yaml metadata in repo card"}
        return json_response({"errors": [], "warnings": [warning]})
    try:
        data = yaml.safe_load(block["yaml"])
    except yaml.YAMLError as error:
        errors = [f"YAML parse error: {error}"]
    else:
        errors = metadata_errors({} if data is None else data, is_model=body.get("repoType") == "model")
    document = {"errors": [{"message": error} for error in errors], "warnings": []}
    return json_response(document, 400 if errors else 200)


def metadata_errors(data: object, *, is_model: bool) -> list[str]:
    """What the Hub would refuse in a card's metadata."""
    if not isinstance(data, dict):
        return ["YAML metadata must be a mapping"]
    errors = [
        f'"{key}" must be {meaning}'
        for key, (types, meaning) in _TYPES.items()
        if key in data and not isinstance(data[key], types)
    ]
    return errors + (_model_errors(data) if is_model else [])


def _model_errors(data: dict[str, Any]) -> list[str]:
    errors = [
        f'"base_model" with value "{base}" is not valid. Use a model id from the Hub.'
        for base in base_models(data)
        if not isinstance(base, str) or not _MODEL_ID.fullmatch(base)
    ]
    if data.get("base_model_relation") not in (None, *_RELATIONS):
        errors.append(f'"base_model_relation" must be one of [{", ".join(_RELATIONS)}]')
    index = data.get("model-index") or []
    if not isinstance(index, list):
        return [*errors, '"model-index" must be an array']
    for number, model in enumerate(index):
        results = model.get("results") if isinstance(model, dict) else None
        for at, result in enumerate(results or []):
            missing = [key for key in ("task", "dataset", "metrics") if key not in result]
            errors += [f'"model-index[{number}].results[{at}].{key}" is required' for key in missing]
    return errors


def base_models(data: dict[str, Any]) -> list[Any]:
    """The card's ``base_model``, which may be one or several, as a list."""
    bases = data.get("base_model")
    if bases is None:
        return []
    return bases if isinstance(bases, list) else [bases]
