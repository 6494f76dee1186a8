"""New pins in a recipe's file: other bytes of it stay as they are, whatever they are."""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hubpublish import recipe as recipes
from hubpublish.errors import RecipeError, UsageError
from hubpublish.recipe.checks import Location
from hubpublish.upstream.edit import edited, write
from hubpublish.upstream.pins import pins, with_values
from tests.errors import error_of

OLD, NEW, DATA, OTHER = "a1" * 32, "b2" * 32, "c3" * 32, "d4" * 32
COMMIT, LATER = "e5" * 20, "f6" * 20
MODEL: Location = ("variants", 0, "sha256")

RECIPE = f"""\
# A comment with {OLD}
schema:   1
source: {{repo: owner/model, revision: {COMMIT}, copy: [config.json, {{path: a.json, sha256: {DATA}}}]}}
variants:
- path: onnx/model.onnx   # {OLD} again
  dtype: fp32
  sha256:    {OLD}   # and again {OLD}

  data: [ {{ path: "onnx/model.onnx_data" , sha256: '{DATA}' }} ]
passes: [ ]
verify: {{inputs: {{values: {{"{OLD}": 1}}}}}}
target: {{repo: owner/other}}
card:
  license: mit
  summary: |
    sha256: {OLD}
  # the end, without a line break"""


def bumped(text: str, values: dict[Location, str]) -> str:
    return edited(text, "r.yaml", values, with_values(recipes.loads(text), values))


def model_line(written: str) -> str:
    """A recipe whose one pin is written like this, behind its key."""
    text = RECIPE.replace(f"    {OLD}   # and again {OLD}", f" {written}")
    assert text != RECIPE
    return text


def test_changes_the_pin_and_nothing_that_looks_like_it() -> None:
    expected = RECIPE.replace(f"sha256:    {OLD}", f"sha256:    {NEW}")
    assert bumped(RECIPE, {MODEL: NEW}) == expected


def test_changes_all_kinds_of_pins_in_flow_and_block_style() -> None:
    values: dict[Location, str] = {
        ("source", "revision"): LATER,
        ("source", "copy", 1, "sha256"): OTHER,
        MODEL: NEW,
        ("variants", 0, "data", 0, "sha256"): "0" * 64,
    }
    expected = (
        RECIPE.replace(COMMIT, LATER)
        .replace(f"a.json, sha256: {DATA}", f"a.json, sha256: {OTHER}")
        .replace(f"sha256:    {OLD}", f"sha256:    {NEW}")
        .replace(f"'{DATA}'", f"'{'0' * 64}'")
    )
    assert bumped(RECIPE, values) == expected


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("above", ["", "# 日本 🎉 Žofie\n", "# a\u2028# b\x85# tab\there\n"])
def test_line_endings_marks_and_characters_before_it(ending: str, mark: str, above: str) -> None:
    text = mark + (above + RECIPE).replace("\n", ending)
    expected = text.replace(f"sha256:    {OLD}", f"sha256:    {NEW}")
    assert expected != text
    assert bumped(text, {MODEL: NEW}) == expected


@pytest.mark.parametrize(
    ("written", "then"),
    [
        (OLD, NEW),
        (OLD.upper(), NEW),
        (f"'{OLD}'  ", f"'{NEW}'  "),
        (f'"{OLD}"', f'"{NEW}"'),
        (f"&{OLD} {OLD}", f"&{OLD} {NEW}"),
        (f"&{OLD}   '{OLD}'", f"&{OLD}   '{NEW}'"),
        (f"|- # {OLD}\n    {OLD}\n  # {OLD}", f"|- # {OLD}\n    {NEW}\n  # {OLD}"),
        (f">-\n      {OLD}\n", f">-\n      {NEW}\n"),
        (f"\n    {OLD}", f"\n    {NEW}"),
        (f'"\\x61{OLD[1:]}"  # {OLD}', f'"{NEW}"  # {OLD}'),
        (f'&a "{OLD[:32]}\\\n      {OLD[32:]}"', f'&a "{NEW}"'),
        (f"? {OLD}", None),
    ],
)
def test_however_a_pin_is_written(written: str, then: str | None) -> None:
    text = model_line(written)
    if then is None:
        with pytest.raises(RecipeError):
            recipes.loads(text)
        return
    assert bumped(text, {MODEL: NEW}) == model_line(then)


def test_several_of_which_one_changes_its_length() -> None:
    values: dict[Location, str] = {MODEL: NEW, ("variants", 0, "data", 0, "sha256"): OTHER}
    text = model_line(f'"\\x61{OLD[1:]}"')
    assert bumped(text, values) == model_line(f'"{NEW}"').replace(f"'{DATA}'", f"'{OTHER}'")


def test_an_explicit_key() -> None:
    text = RECIPE.replace(f"  sha256:    {OLD}   # and again {OLD}", f"  ? 'sha256'\n  : {OLD}")
    assert bumped(text, {MODEL: NEW}) == text.replace(f": {OLD}\n\n", f": {NEW}\n\n")


def test_two_variants_with_one_hash_are_told_apart() -> None:
    second = f"- {{path: onnx/model_fp16.onnx, dtype: fp16, sha256: {OLD}}}\n"
    text = RECIPE.replace("passes:", second + "passes:")
    after = bumped(text, {("variants", 1, "sha256"): NEW})
    assert after == text.replace(second, second.replace(OLD, NEW))
    assert [pin.sha256 for pin in pins(recipes.loads(after)) if pin.role == "model"] == [OLD, NEW]


def test_what_would_become_another_recipe_is_refused() -> None:
    expected = recipes.loads(RECIPE)
    error = error_of(RecipeError, lambda: edited(RECIPE, "r.yaml", {MODEL: NEW}, expected))
    assert (error.kind, error.where) == ("not_editable", "r.yaml")
    assert "variants[0].sha256" in error.what
    broken = error_of(RecipeError, lambda: edited(RECIPE, "r.yaml", {MODEL: "]"}, expected))
    assert broken.kind == "not_editable"


@pytest.mark.parametrize("location", [("variants", 1, "sha256"), ("source", "copy", 0, "sha256"), ("none",)])
def test_a_place_that_is_not_there_is_refused(location: Location) -> None:
    call = lambda: edited(RECIPE, "r.yaml", {location: NEW}, recipes.loads(RECIPE))  # noqa: E731
    assert error_of(RecipeError, call).kind == "not_editable"


# -- whatever a recipe looks like

_HASHES = st.sampled_from([OLD, NEW, DATA, OTHER, OLD.upper(), "0" * 64, "1" * 64, "1e" * 32])
_SPACES = st.sampled_from(["", " ", "   "])
_COMMENTS = st.one_of(
    st.just(""),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Co")), max_size=20).map(
        lambda text: f" # {text}".replace("\ufeff", "")
    ),
    _HASHES.map(lambda sha256: f"  # sha256: {sha256}"),
)
_STYLES = st.sampled_from(["{}", "'{}'", '"{}"', "&anchor {}", "\n      {}", "|-\n      {}"])


@st.composite
def recipe_texts(draw: st.DrawFn) -> str:
    """Recipes as people may write them, with comments and blank lines anywhere."""

    numbers = itertools.count()

    def pin(sha256: str, indent: str) -> str:
        style = draw(_STYLES).replace("anchor", f"anchor{next(numbers)}")
        comment = "" if "|" in style else draw(_COMMENTS)
        return f"{indent}sha256:{draw(_SPACES) or ' '}{style.format(sha256)}{comment}\n"

    def line(text: str) -> str:
        return f"{text}{draw(_COMMENTS)}\n" + draw(st.sampled_from(["", "\n", "  \n"]))

    parts = [line("schema: 1"), line("source:"), line("  repo: owner/model")]
    if draw(st.booleans()):
        parts.append(line(f"  revision: {draw(st.sampled_from(['main', COMMIT, LATER, repr(COMMIT)]))}"))
    if draw(st.booleans()):
        parts.append(line("  copy: [config.json, {path: a.json, sha256: " + draw(_HASHES) + "}]"))
    parts.append(line("variants:"))
    for number in range(draw(st.integers(1, 3))):
        parts += [line(f"  - path: onnx/model{number}.onnx"), line("    dtype: fp32")]
        parts.append(pin(draw(_HASHES), "    "))
        if draw(st.booleans()):
            parts += [line("    data:"), line(f"      - path: onnx/model{number}.onnx_data_1")]
            parts.append(pin(draw(_HASHES), "        ").replace("\n      ", "\n          "))
    parts += [line("passes: []"), line("target: {repo: owner/other}"), line("card: {license: mit}")]
    text = "".join(parts)
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(max_examples=60, deadline=None)
@given(recipe_texts(), st.data())
def test_nothing_but_pins_changes(text: str, data: st.DataObject) -> None:
    recipe = recipes.loads(text)
    every = list(pins(recipe))
    chosen = data.draw(st.lists(st.sampled_from(every), unique=True, min_size=1))
    values = {pin.location: data.draw(_HASHES.map(str.lower)) for pin in chosen}
    after = bumped(text, values)
    assert recipes.loads(after) == with_values(recipe, values)
    # What is not a pin is there still, in order: both texts are equal once every pin is a gap.
    assert _with_gaps(after) == _with_gaps(text)


def _with_gaps(text: str) -> str:
    """The text with a hole for each pin, found by PyYAML itself and not by the code under test."""
    mark = len(text) - len(text.removeprefix("\ufeff"))
    for node in sorted(_pins_in(yaml.compose(text[mark:])), key=lambda node: -node.start_mark.index):
        first, last = node.start_mark.index + mark, node.end_mark.index + mark
        before, value, after = text[first:last].rpartition(node.value)
        assert value
        text = text[:first] + before + "…" + after + text[last:]
    return text


def _pins_in(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "sha256":
                yield value
            else:
                yield from _pins_in(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _pins_in(item)


# -- the file


def test_writing_keeps_mode_mark_and_symbolic_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "r.yaml", tmp_path / "r.yaml"
    real.parent.mkdir()
    real.write_bytes(b"\xef\xbb\xbfone\r\n")
    real.chmod(0o640)
    link.symlink_to(real)
    write(link, "one\r\n", "two é\r\n")
    assert real.read_bytes() == "\ufefftwo é\r\n".encode()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert [*real.parent.iterdir()] == [real]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"edited")
    assert error_of(UsageError, lambda: write(path, "one", "two")).kind == "changed_meanwhile"
    assert path.read_bytes() == b"edited"
    assert [*tmp_path.iterdir()] == [path]


def test_a_failure_to_write_leaves_the_file_and_no_debris(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"one")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    error = error_of(UsageError, lambda: write(path, "one", "two"))
    assert (error.kind, "No space left" in error.what) == ("cannot_write", True)
    assert path.read_bytes() == b"one"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    assert error_of(UsageError, lambda: write(tmp_path / "r.yaml", "one", "two")).kind == "cannot_write"
