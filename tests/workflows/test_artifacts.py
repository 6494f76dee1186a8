"""Artifacts that anybody may have made: two texts are read of them, or they are refused."""

from __future__ import annotations

import zipfile

import artifacts
import pytest

from tests.workflows.archives import RECIPE, about, packed, preview

BOMB = 40 * 2**20


def test_of_an_artifact_two_texts_are_read() -> None:
    archive = packed(
        about(failed=True), ("preview.md", b"All is well."), ("../evil", b"x"), ("run.json", b"x")
    )
    assert artifacts.read(archive) == artifacts.Preview(RECIPE, failed=True, text="All is well.")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"no archive", "no readable archive", id="no archive"),
        pytest.param(preview()[:-30], "no readable archive", id="truncated"),
        pytest.param(packed(about()), "no preview.md", id="no preview"),
        pytest.param(packed(("preview.md", b"x")), "no about.json", id="of nothing"),
        pytest.param(packed(about(), ("../preview.md", b"x")), "no preview.md", id="a path upwards"),
        pytest.param(packed(about(), ("/etc/preview.md", b"x")), "no preview.md", id="an absolute path"),
        pytest.param(
            packed(about(), ("preview.md", b"x"), ("preview.md", b"y")), "several preview.md", id="twice"
        ),
        pytest.param(packed(about(), ("preview.md", bytes(BOMB))), "too large", id="a bomb"),
        pytest.param(
            packed(about(), ("preview.md", b"x"), compression=zipfile.ZIP_LZMA), "unusual", id="LZMA"
        ),
        pytest.param(packed(about(), ("preview.md", b"\xff\xfe")), "not text", id="bytes"),
        pytest.param(packed(about(), ("preview.md", b"a\0b")), "not text", id="zeros"),
        pytest.param(packed(("about.json", b"[" * 4000), ("preview.md", b"x")), "does not say", id="deep"),
        pytest.param(packed(("about.json", b"{}"), ("preview.md", b"x")), "does not say", id="empty"),
        pytest.param(packed(about("configs/<img>.yaml"), ("preview.md", b"x")), "names no recipe", id="HTML"),
        pytest.param(packed(about("../../x.yaml"), ("preview.md", b"x")), "names no recipe", id="elsewhere"),
        pytest.param(packed(about(["a"]), ("preview.md", b"x")), "names no recipe", id="a list"),
        pytest.param(
            packed(about(failed="</details>"), ("preview.md", b"x")), "names no recipe", id="a word"
        ),
        pytest.param(
            packed(about(), ("preview.md", b"x"), *((f"{n}.png", b"") for n in range(300))),
            "more than 200 files",
            id="many files",
        ),
    ],
)
def test_anything_else_is_refused_and_says_why(content: bytes, why: str) -> None:
    with pytest.raises(artifacts.ArtifactError, match=why):
        artifacts.read(content)
