"""Texts of strangers: what GitHub would act on is broken up, what people read stays."""

from __future__ import annotations

import re

import pytest
import texts
from hypothesis import given
from hypothesis import strategies as some

BREAK = "\u200b"


ACTING = """@alice|@acme/team|mail@example.org|#12|acme/models#12|GH-12|gh-12|&#64;alice|&commat;alice
<!--|<script>|</details>|<img src=x>|<?php|![a](b)|![a][b]|/merge
https://github.com/acme/models/issues/1|http://www.GitHub.com/a/b/pull/2|github.com/a/b/commit/abcdef1
https://github.com/orgs/acme/discussions/3"""


@pytest.mark.parametrize("acting", re.split(r"[|\n]", ACTING))
def test_what_acts_is_broken_up_and_reads_the_same(acting: str) -> None:
    made = texts.harmless(f"{acting} here")
    assert acting not in made
    assert made.replace(BREAK, "") == f"{acting} here"


@pytest.mark.parametrize(
    "plain",
    [
        *(
            "# A heading",
            "| `a` | 1 < 2 |",
            "a & b",
            "https://github.com/ZhengPeng7/BiRefNet",
            "a @ b",
            "a/b",
        ),
        *(
            "```diff\n--- now\n+++ then\n@@ -1 +1 @@\n```",
            "**same bits**, 0 of 36",
            "[x](https://example.org/#y)",
        ),
    ],
)
def test_what_does_not_act_stays(plain: str) -> None:
    assert texts.harmless(plain) == plain


def test_what_hides_or_turns_a_line_is_dropped() -> None:
    assert texts.harmless("a\u202eb\u2066c\u200bd\x1b[31me\rf\u2028g") == "abcd[31me\nfg"


@given(some.text(alphabet="@#a1<!-&;/\n `~[]()\u200b\r", max_size=60))
def test_nothing_acts_whatever_the_text(text: str) -> None:
    made = texts.harmless(text)
    for acting in ("@a", "#1", "<!", "<a", "</", "![", "&a", "&#1", "\n/a"):
        assert acting not in made
    assert texts.harmless(made).replace(BREAK, "") == made.replace(BREAK, "")


@given(some.lists(some.sampled_from(["a line", "```", "````diff", "~~~", "`` ` ``", "x" * 50]), max_size=30))
def test_a_cut_text_fits_and_closes_its_code(lines: list[str]) -> None:
    text = "\n".join(lines)
    made = texts.cut(text, 200, "more")
    assert len(made) <= 200
    assert texts.cut(made, 10_000, "") == made  # nothing is left open
    assert made.endswith("more") or made.startswith(text)


def test_the_previews_pictures_are_named_and_no_others() -> None:
    text = '<img src="pictures/0.png" width="200" alt="mask before"> ![after](pictures/1.png) ![x](https://e.org/y.png)'
    made = texts.without_pictures(text, "in the artifacts")
    assert made == "*mask before: in the artifacts* *after: in the artifacts* ![x](https://e.org/y.png)"
