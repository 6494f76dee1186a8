import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import hubpublish
from hubpublish.layout import CARD, MANIFEST
from hubpublish.publish import make_manifest, stage, stage_content
from hubpublish.publish.manifest import manifest_with_card, parse_manifest
from hubpublish.regions import empty_region


def test_staged_files_have_both_hashes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello\n")
    staged = stage("x/a", tmp_path / "a")
    assert staged.sha256 == hashlib.sha256(b"hello\n").hexdigest()
    assert staged.git_oid == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    assert staged.size == 6


def test_the_manifest_lists_every_file_but_itself(tmp_path: Path) -> None:
    for name in ("b", "a", MANIFEST):
        (tmp_path / name).write_text(name)
    files = [stage(name, tmp_path / name) for name in ("b", "a", MANIFEST)]
    text = make_manifest(files, key="k", source_commit="c" * 40)
    made = json.loads(text)
    assert made["hubpublish"] == hubpublish.__version__
    assert (made["key"], made["source_commit"]) == ("k", "c" * 40)
    assert made["files"] == {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b")}
    assert text.endswith("}\n")
    assert text == make_manifest(reversed(files), key="k", source_commit="c" * 40)
    assert parse_manifest(text.encode()) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"manifest_version": 3, "name": "an extension"}',
        '{"hubpublish": "1", "key": "k", "source_commit": "c", "files": {"a": "no hash"}}',
        '{"hubpublish": "1", "key": "k", "source_commit": "c", "files": []}',
        "\udcff",
    ],
)
def test_what_is_no_manifest_of_ours(text: str) -> None:
    assert parse_manifest(text.encode(errors="surrogateescape")) is None


def test_a_later_version_may_add_fields() -> None:
    text = '{"hubpublish": "9", "key": "k", "source_commit": "c", "files": {}, "new": 1}'
    assert parse_manifest(text.encode()) is not None


def test_a_manifest_knows_a_card_without_what_people_write_in_it(tmp_path: Path) -> None:
    def manifest_of(text: str) -> Any:
        (tmp_path / CARD).write_text(text)
        return json.loads(make_manifest([stage(CARD, tmp_path / CARD)], key="k", source_commit="c" * 40))

    region = empty_region("notes")
    found = manifest_of(f"# A\n\n{region}\n")
    assert found["free_text"]["texts"] == {"notes": hashlib.sha256(b"").hexdigest()}
    written = manifest_of(f"# A\n\n{region}\n".replace("<!-- end", "Mine.\n<!-- end"))
    assert written["free_text"]["outside"] == found["free_text"]["outside"]
    assert written["free_text"]["texts"] != found["free_text"]["texts"]
    assert written["files"] != found["files"]
    assert manifest_of(f"# B\n\n{region}\n")["free_text"]["outside"] != found["free_text"]["outside"]
    assert "free_text" not in manifest_of("# A\n")


@pytest.mark.parametrize(
    "free_text", ['{"outside": 1, "texts": {}}', '{"texts": {}}', '{"outside": "x", "texts": {}}', "[]"]
)
def test_free_text_that_is_not_as_we_write_it(free_text: str) -> None:
    text = f'{{"hubpublish": "1", "key": "k", "source_commit": "c", "files": {{}}, "free_text": {free_text}}}'
    assert parse_manifest(text.encode()) is None


def test_a_manifest_for_another_card_keeps_what_else_is_in_it(tmp_path: Path) -> None:
    card = stage_content(CARD, b"# Other")
    text = '{"hubpublish": "1", "key": "k", "source_commit": "c", "files": {"a": "b"}, "later": [1]}'
    made = json.loads(manifest_with_card(text.encode(), card))
    assert made["files"] == {"a": "b", CARD: card.sha256}
    assert made["git_oids"] == {CARD: card.git_oid}
    assert made["later"] == [1]
