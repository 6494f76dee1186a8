"""Files that are no recipe, or were made to do harm: one clear error each."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubpublish import recipe
from hubpublish.errors import RecipeError
from hubpublish.recipe.document import MAX_BYTES, MAX_DEPTH, compose, scalar

from .conftest import Change, Problems

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)

REFUSED = [
    ("", "empty"),
    ("# only a comment\n", "empty"),
    ("--- \n", "not a text"),
    ("- schema: 1\n", "not a list"),
    ("schema\n", "not a text"),
    ("schema: 1\n---\nschema: 1\n", "r.yaml:2:1: a second document begins here"),
    ("schema: 1\nsource:\n\trepo: a/b\n", "r.yaml:3:1: a tab cannot indent in YAML"),
    ("schema: 1\nsource: a: b\n", "r.yaml:2:10: not valid YAML: mapping values are not allowed here"),
    ("schema: [1\n", "not valid YAML"),
    ("schema: '1\n", "not valid YAML"),
    ("schema: 1\nsource: !!python/object/apply:os.system ['true']\n", "r.yaml:2:9: YAML tags such as"),
    ("schema: 1\nsource: !!python/name:os.system\n", "r.yaml:2:9: YAML tags such as"),
    ("schema: !!int '1'\n", "r.yaml:1:9: YAML tags such as"),
    ("schema: !!binary aGk=\n", "YAML tags"),
    ("schema: ! 1\n", "YAML tags"),
    ("schema: !x 1\n", "YAML tags"),
    ("schema: 1\nsource: &s {repo: a/b}\ntarget: *s\n", "r.yaml:3:9: aliases such as '*s' are not supported"),
    ("schema: 1\n" + LAUGHS, "aliases"),
    ("schema: &a [*a]\n", "aliases"),
    ("schema: 1\nsource: {<<: {repo: a/b}}\n", "r.yaml:2:10: merge keys ('<<') are not supported"),
    ("schema: 1\n? [a, b]\n: 1\n", "r.yaml:2:3: a key at the top level is not a name"),
    ("schema: 1\n? {a: b}\n: 1\n", "is not a name"),
    ("schema: 1\n'': 1\n", "is not a name"),
    ("[a]: 1\n", "not a recipe"),
    ("a: 1\nb: 2\n", "not a recipe"),
    ("schema: 1\nx: " + "[" * 100_000, f"nested more than {MAX_DEPTH} deep"),
    ("schema: 1\nx: " + "{a: " * 100_000, f"nested more than {MAX_DEPTH} deep"),
    ("schema: 1\nx:\n " + "- " * 100_000, f"nested more than {MAX_DEPTH} deep"),
    ("schema: 1\n" + "? " * 100_000, f"nested more than {MAX_DEPTH} deep"),
    ("schema: 1\nx: \0\n", "r.yaml:2:4: not valid YAML: the character U+0000"),
    ("schema: 1\nx: \x07\n", "the character U+0007"),
    ("schema: 1\nx: \ud800\n", "the character U+D800"),
    ('schema: "\\U7fffffff"\n', "not valid YAML"),
    ('schema: "\\UFFFFFFFF"\n', "not valid YAML"),
    ("%YAML 3.0\n---\nschema: 1\n", "not valid YAML"),
    ("%YAML 1." + "9" * 5000 + "\n---\nschema: 1\n", "not valid YAML"),
    ("schema: " + "9" * 5000, "reads schema 1"),
    ("schema: 1\n" + "#" * MAX_BYTES, "larger than"),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_one_clear_error(problems: Problems, text: str, expected: str) -> None:
    lines = problems(text)
    assert any(expected in line for line in lines), lines
    assert all(len(line) < 400 for line in lines), "a message must stay readable"


def test_a_number_of_thousands_of_digits(changed: Change, problems: Problems) -> None:
    (found,) = problems(changed("{noise: 2}", f"{{noise: {'9' * 5000}}}"))
    assert "verify.inputs.noise is a number of 5000 digits" in found
    (found,) = problems(changed("{noise: 2}", f"{{noise: 0x{'f' * 5000}}}"))
    assert "verify.inputs.noise is a number of 5002 digits" in found
    (found,) = problems(changed("{noise: 2}", f"{{seed: {'9' * 500}}}"))
    assert "verify.inputs.seed must be less than 4294967296" in found
    (found,) = problems(changed("{noise: 2}", f"{{values: {{x: {'9' * 30}}}}}"))
    assert "64 bits" in found


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n"])
def test_line_endings_and_byte_order_mark(tmp_path: Path, example: str, ending: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + example.replace("\n", ending).encode())
    assert recipe.load(path) == recipe.loads(example)
    path.write_bytes(b"\xef\xbb\xbf" + example.replace("fp32", "f/p").replace("\n", ending).encode())
    with pytest.raises(RecipeError, match=r"r\.yaml:8:12: "):
        recipe.load(path)


def test_text_beyond_ascii(changed: Change) -> None:
    text = changed("license: mit", "license: mit\n  credits: Žofie 日本 🎉\n  title: مرحبا")
    assert recipe.loads(text).card.credits == "Žofie 日本 🎉"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"schema: 1\nsource: \xff\n", "r.yaml:2:9: not UTF-8: byte 0xff"),
        ("schema: 1\n".encode("utf-16"), "r.yaml:1:1: not UTF-8"),
        (b"#" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError) as caught:
        recipe.load(path)
    assert expected in str(caught.value)


def test_no_file_a_folder_and_a_name_that_cannot_be(tmp_path: Path) -> None:
    for path, expected in (
        (tmp_path / "none.yaml", "there is no such file"),
        (tmp_path, "this is a folder"),
        (tmp_path / ("x" * 5000), "cannot be read"),
        (Path("a\0b"), "cannot be read"),
    ):
        with pytest.raises(RecipeError) as caught:
            recipe.load(path)
        assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("010", 10),
        ("0o10", 8),
        ("0x1f", 31),
        ("+5", 5),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("yes", "yes"),
        ("off", "off"),
        ("True", True),
        ("~", None),
        ("'1'", "1"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    node = compose(f"x: {text}", "r.yaml").value[0][1]
    assert scalar(node) == value
    assert type(scalar(node)) is type(value)
