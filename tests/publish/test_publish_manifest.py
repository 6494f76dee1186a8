import hashlib
import json
from pathlib import Path

import pytest

import hubpublish
from hubpublish.layout import MANIFEST
from hubpublish.publish import make_manifest, stage
from hubpublish.publish.manifest import parse_manifest


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
