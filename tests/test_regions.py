from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubpublish.regions import (
    BrokenRegionsError,
    empty_region,
    filled,
    holds_marker,
    holds_words,
    outside_of,
    texts_of,
)

BEGIN, END = "<!-- free text: notes -->", "<!-- end of free text: notes -->"
CARD = f"# Title\n\n{empty_region('notes')}\n\n## Files\n\n{empty_region('examples')}\n"


def with_notes(text: str) -> str:
    return f"# Title\n\n{BEGIN}\n{text}{END}\n\n## Files\n\n{empty_region('examples')}\n"


def test_a_region_begins_empty() -> None:
    assert list(texts_of(CARD)) == ["notes", "examples"]
    assert not any(map(holds_words, texts_of(CARD).values()))
    assert not texts_of("# Title\n")


@pytest.mark.parametrize("text", ["", "\n \n", "<!-- hubpublish: another hint -->\n", "\r\n"])
def test_what_is_no_word_of_anybody(text: str) -> None:
    assert not holds_words(text)


@pytest.mark.parametrize("text", ["x", "<!-- a comment of mine -->", "see <!-- hubpublish: x -->"])
def test_what_is_somebodys_word(text: str) -> None:
    assert holds_words(text)


def test_a_text_is_what_stands_between() -> None:
    assert texts_of(with_notes("One.\n\n- two\n")) == {
        "notes": "One.\n\n- two\n",
        "examples": texts_of(CARD)["examples"],
    }
    assert texts_of(with_notes(""))["notes"] == ""


def test_the_outside_is_the_same_whatever_is_written() -> None:
    assert outside_of(with_notes("One.\n")) == outside_of(CARD)
    assert outside_of(with_notes("One.\n").replace("Title", "Other")) != outside_of(CARD)
    assert "hubpublish" not in outside_of(CARD)


def test_what_editors_change_unasked_is_no_change() -> None:
    assert outside_of(CARD.replace("\n", "\r\n")) == outside_of(CARD)
    assert outside_of(CARD.rstrip()) == outside_of(CARD) == outside_of(f"{CARD}\n\n")
    assert texts_of(with_notes("One.\n").replace("\n", "\r\n"))["notes"] == "One.\n"


def test_filled_with_nothing_is_as_it_was_made() -> None:
    assert filled(CARD, {}) == CARD
    assert filled(with_notes("One.\n"), {}) == CARD
    old = with_notes("<!-- hubpublish: another hint -->\n")
    assert filled(old, {}) == old


def test_filled_takes_the_texts_that_it_has_regions_for() -> None:
    assert filled(CARD, {"notes": "One.\n", "none": "x\n"}) == with_notes("One.\n")


@pytest.mark.parametrize(
    "line",
    [
        "Write `<!-- free text: notes -->` in a line.",
        " <!-- free text: notes -->",
        "<!-- free text: notes --> ",
        "<!-- Free text: notes -->",
        "<!-- free text: -->",
        "<!-- free text: No tes -->",
        "<!--free text: notes-->",
        "<!-- end of free text -->",
        "x\r<!-- free text: notes -->",
    ],
)
def test_what_only_looks_like_a_marker_is_text(line: str) -> None:
    assert not holds_marker(line)
    assert texts_of(with_notes(f"{line}\n"))["notes"] == f"{line}\n"


BROKEN = [
    (f"{BEGIN}\n", "the marker that ends its free text 'notes' is missing"),
    (f"{BEGIN}\n{BEGIN}\n{END}\n", "its free text 'notes' begins twice"),
    (f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n", "its free text 'notes' begins twice"),
    (f"{END}\n", "the marker that begins its free text 'notes' is missing"),
    (f"{END}\n{BEGIN}\n", "the marker that begins its free text 'notes' is missing"),
    (f"{BEGIN}\n{END}\n{END}\n", "its free text 'notes' ends twice"),
    (f"{BEGIN}\n{empty_region('a')}\n{END}\n", "its free text 'a' begins before 'notes' has ended"),
    (
        f"{BEGIN}\n<!-- end of free text: a -->\n{END}\n",
        "its free text 'notes' ends with the marker of 'a'",
    ),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_markers_that_enclose_nothing(text: str, why: str, ending: str) -> None:
    for ask in (texts_of, outside_of, lambda text: filled(text, {})):
        with pytest.raises(BrokenRegionsError) as caught:
            ask(text.replace("\n", ending))
        assert str(caught.value) == why


LINES = st.lists(
    st.sampled_from(
        [BEGIN, END, *empty_region("a").split("\n"), "", "x", "# y", "```", "<!--", "-->", "\r", "é"]
    ),
    max_size=12,
)


@given(LINES)
def test_any_lines_are_regions_or_are_refused(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        texts = texts_of(text)
    except BrokenRegionsError:
        return
    assert texts_of(filled(text, texts)) == texts
    assert outside_of(filled(text, texts)) == outside_of(text)
    assert not any(map(holds_words, texts_of(filled(text, {})).values()))


@given(st.text().filter(lambda text: not holds_marker(text)))
def test_any_text_survives(text: str) -> None:
    words = f"{text}\n".replace("\r\n", "\n")
    if holds_words(words):
        made = filled(CARD, {"notes": words})
        assert texts_of(made)["notes"] == words
        assert outside_of(made) == outside_of(CARD)
