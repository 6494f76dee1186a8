"""A recipe to break, and what is found in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hubpublish import recipe
from hubpublish.errors import RecipeError

EXAMPLE = f"""\
schema: 1
source:
  repo: owner/model
  revision: main
  copy: [config.json]
variants:
  - path: onnx/model.onnx
    dtype: fp32
    sha256: {"a" * 64}
    data:
      - path: onnx/model.onnx_data
        sha256: {"b" * 64}
passes:
  - concat_tree: {{max_inputs: 6}}
  - sum_to_add
device: webgpu-min
verify:
  gate: exact
  inputs: {{noise: 2}}
target:
  repo: ${{NAMESPACE}}/model-webgpu
card:
  license: mit
"""

Change = Callable[[str, str], str]
Problems = Callable[[str], list[str]]


@pytest.fixture
def example() -> str:
    """A valid recipe, as text."""
    return EXAMPLE


@pytest.fixture
def changed() -> Change:
    """The example with one part replaced."""

    def change(old: str, new: str) -> str:
        assert EXAMPLE.count(old) == 1, f"{old!r} is there {EXAMPLE.count(old)} times"
        return EXAMPLE.replace(old, new)

    return change


@pytest.fixture
def problems() -> Problems:
    """All lines of the error that a text gives."""

    def find(text: str) -> list[str]:
        with pytest.raises(RecipeError) as caught:
            recipe.loads(text, "r.yaml")
        assert caught.value.exit_code == 2
        return str(caught.value).splitlines()

    return find
