"""A recipe with anything anywhere in it loads, or is refused at a place in the file."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hubpublish import recipe
from hubpublish.errors import RecipeError

Path_ = tuple[str | int, ...]
PLACE = re.compile(r".*r\.yaml:\d+:\d+: |and \d+ more$")
ANYTHING: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        float("nan"),
        "",
        "x",
        "../../x",
        "/etc/passwd",
        "\u202e\x07",
        "x" * 5000,
    ),
    *([], [None], [[]], ["x"] * 300, {}, {"a": 1}, {"": None}, "${A}${B}", "https://user:secret@host/y?t=1"),
]
TOKENS = (
    *(
        b"\t",
        b"\0",
        b"\xff",
        b"!!python/object:os.system ",
        b"&a ",
        b"*a ",
        b"[",
        b"{",
        b"}",
        b"- ",
        b": ",
        b"? ",
    ),
    *(
        b"|",
        b"%",
        b"---\n",
        b"...\n",
        b"\xef\xbb\xbf",
        b"\r",
        b"<<: ",
        b"!!binary ",
        b"'",
        b'"',
        b"\xe2\x80\xa8",
    ),
)


@pytest.fixture
def whole(example: str) -> dict[str, Any]:
    """A recipe with a value at every key."""
    data: dict[str, Any] = yaml.safe_load(example)
    data["source"]["copy"] = ["config.json", {"path": "a.json", "sha256": "c" * 64}]
    data["variants"][0] |= {"passes": ["split_tree"], "verify": {"gate": {"max_abs": 1e-3}}}
    data["device"] = {"profile": "webgpu-min"}
    inputs = {
        "noise": 1,
        "seed": 0,
        "shapes": {"x": [1, 3]},
        "values": {"sr": 16000},
        "ranges": {"n": [0, 5]},
    }
    data["verify"] = {"gate": "exact", "inputs": {**inputs, "images": ["a.png"]}}
    data["target"] = {"repo": "${NS}/x", "create": True, "private": False, "tag": "v-{source}"}
    texts = ("title", "summary", "credits", "citation", "inputs", "outputs", "license_differs_because")
    data["card"] |= {**dict.fromkeys(texts, "words"), "tags": ["a"], "base_model": ["a/b"], "usage": "auto"}
    data["card"] |= {"pipeline_tag": "image-segmentation", "free_text": ["notes"]}
    recipe.loads(yaml.safe_dump(data))
    return data


def paths(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    yield path
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in children:
        yield from paths(value, (*path, key))


def changed(data: dict[str, Any], path: Path_, value: Any) -> Any:
    if not path:
        return value
    result = copy.deepcopy(data)
    parent: Any = result
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return result


def tried(content: bytes, folder: Path) -> bool:
    """Whether it loads; if not, every line of the error names its place and has no control characters."""
    (folder / "r.yaml").write_bytes(content)
    try:
        recipe.load(folder / "r.yaml")
    except RecipeError as error:
        refusal = str(error)
    else:
        return True
    assert all(PLACE.match(line) for line in refusal.splitlines()), refusal
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", refusal)
    return False


def test_anything_anywhere(whole: dict[str, Any], tmp_path: Path) -> None:
    outcomes = [
        tried(yaml.safe_dump(changed(whole, path, value), allow_unicode=True).encode(), tmp_path)
        for path in paths(whole)
        for value in ANYTHING
    ]
    assert len(outcomes) > 1000
    assert any(outcomes)


def test_bytes_anywhere(whole: dict[str, Any], tmp_path: Path) -> None:
    chance, original = random.Random(7), yaml.safe_dump(whole).encode()
    for _ in range(300):
        content = bytearray(original)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(content))
            match chance.randrange(4):
                case 0:
                    content[at] = chance.randrange(256)
                case 1:
                    del content[at : at + chance.choice((1, 2, 10, 100))]
                case 2:
                    content[at:at] = chance.choice(TOKENS)
                case _:
                    start = chance.randrange(len(content))
                    content[at:at] = content[start : start + chance.randrange(60)]
        tried(bytes(content), tmp_path)
