from __future__ import annotations

import re
from functools import cache

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hubpublish.card import render
from hubpublish.inspection import Group
from hubpublish.markdown import code
from hubpublish.pictures import NONE, Picture, PictureRow, Pictures, VariantPictures
from hubpublish.preview import operator_rows, output_rows, render_preview
from hubpublish.publish import Conflict, Plan, PlanEntry, TargetState
from hubpublish.recipe.writer import plain
from hubpublish.report import Report
from hubpublish.verify import InputResult, OutputComparison, Verification
from hubpublish.verify.result import Level, LevelResult
from tests.publication import TARGET
from tests.reports import card_spec, distance, recipe_of, report_of, variant_report, verification

OLD, NEW = "1" * 64, "2" * 64
ENTRIES = (
    PlanEntry("README.md", "changed", OLD, NEW, 1000, 2500),
    PlanEntry("onnx/model.onnx", "added", None, NEW, None, 224_005_088),
    PlanEntry("config.json", "unchanged", OLD, OLD, 0, 0),
    PlanEntry("old|name.json", "deleted", OLD, None, 7, None),
)


@cache
def plain_report() -> Report:
    return report_of()


def preview(
    *entries: PlanEntry,
    conflicts: tuple[Conflict, ...] = (),
    exists: bool = True,
    cards: tuple[str, str] = ("a\nb\n", "a\nc\n"),
    report: Report | None = None,
    pictures: Pictures = NONE,
) -> str:
    state = TargetState(TARGET, "main", exists, "f" * 40 if exists else None)
    return render_preview(report or plain_report(), Plan(state, (), entries, conflicts), *cards, pictures)


def parsed(text: str) -> list[Token]:
    """Every token of the Markdown, as GitHub reads it, those inside of lines too."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [each for token in tokens for each in (token, *(token.children or ()))]


def proof_of(*outputs: OutputComparison, default: tuple[OutputComparison, ...] = ()) -> Verification:
    """Outputs on one input, the same at both levels unless others are given for the default."""

    def level(name: Level, found: tuple[OutputComparison, ...]) -> LevelResult:
        return LevelResult(
            level=name, inputs=(InputResult(label="noise 0", status="compared", outputs=found),)
        )

    levels = (level("disabled", outputs), level("default", default or outputs))
    return verification(held="exact_unoptimized").model_copy(update={"levels": levels})


def output(
    name: str = "y", differing: int = 0, max_abs: float | None = 0.0, nonfinite: int = 0
) -> OutputComparison:
    found = distance(differing, max_abs or 0.0)
    found = found.model_copy(update={"max_abs": max_abs, "nonfinite_differing": nonfinite})
    return OutputComparison(
        name=name, dtype="float32", shape=(1500,), identical=not differing, distance=found
    )


def drawn(name: str = "y", comparison: OutputComparison | None = None, *, image: bool = True) -> Pictures:
    before, after, difference, source = (
        Picture(f"pictures/1-m-{file}.png", alt, words)
        for file, alt, words in (
            ("1-y-before", "mask before", "sigmoid of the values"),
            ("1-y-after", "mask after", "sigmoid of the values"),
            ("1-y-difference", "difference", "× 4,096, black where none differs" if comparison else ""),
            ("input", "input", "preprocessing undone"),
        )
    )
    row = PictureRow("x", name, comparison or output(name), before, after, difference, source)
    label = "image cat.png" if image else "noise 0"
    return Pictures((VariantPictures("onnx/model.onnx", label, image, "default", (row,)),))


def test_every_file_with_hash_and_size_before_and_after() -> None:
    lines = preview(*ENTRIES).splitlines()
    start = lines.index("| File | Change | SHA-256 now | SHA-256 then | Size now | Size then |")
    assert lines[start + 2 : start + 6] == [
        f"| `README.md` | changed | `{OLD[:16]}…` | `{NEW[:16]}…` | 1.0 kB | 2.5 kB |",
        f"| `onnx/model.onnx` | added | – | `{NEW[:16]}…` | – | 224.0 MB |",
        f"| `config.json` | unchanged | `{OLD[:16]}…` | `{OLD[:16]}…` | 0 B | 0 B |",
        f"| `old\\|name.json` | deleted | `{OLD[:16]}…` | – | 7 B | – |",
    ]


def test_the_change_of_the_card() -> None:
    assert "```diff\n--- now\n+++ then\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n```" in preview(*ENTRIES)
    assert "The card would stay as it is." in preview(*ENTRIES, cards=("a\n", "a\n"))


def test_a_card_with_code_in_it_does_not_end_the_diff() -> None:
    # A line that did not change stands behind a space, where it would close the block.
    old, new = "# Title\n```js\nrun();\n```\n", "# Other\n```js\nrun();\n```\n"
    assert preview(*ENTRIES, cards=(old, new)).endswith(
        "\n````diff\n--- now\n+++ then\n@@ -1,4 +1,4 @@\n-# Title\n+# Other\n ```js\n run();\n ```\n````\n"
    )


def test_what_would_happen_in_a_word() -> None:
    assert "Nothing would change." in preview(ENTRIES[2])
    assert "Nothing would change." not in preview(*ENTRIES)
    missing = preview(ENTRIES[1], exists=False)
    assert "The target does not exist yet" in missing
    assert ("`target: {create: true}`" in missing) is not report_of().recipe["target"]["create"]
    assert "\n\n## Files\n" in missing
    assert "stand in the way" not in preview(*ENTRIES)
    conflicts = (Conflict("README.md", "edited since"),)
    text = preview(*ENTRIES, conflicts=conflicts)
    assert "stand in the way:**\n\n- `README.md`: edited since" in text


def test_the_operators_that_change() -> None:
    variant = variant_report()
    assert operator_rows(variant) == [
        ("Constant", 0, 3),
        ("Add", 0, 2),
        ("Concat", 1, 3),
        ("Split", 1, 3),
        ("Sum", 1, 0),
    ]
    text = preview(*ENTRIES)
    assert "| `Constant` | 0 | 3 |" in text
    assert "| `split_tree` | 1 Split | 3 Constant, 3 Split | – |" in text
    assert "binds 10 storage buffers before, 7 after" in text
    assert "8 nodes before, 16 nodes after" in text


def test_no_table_where_no_operator_changes() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) { y = Tanh (x) }'
    assert "| Operator |" not in preview(*ENTRIES, report=report_of(variant_report(text=text)))


def test_it_reads_as_markdown() -> None:
    text = preview(*ENTRIES)
    assert "\n\n\n" not in text
    assert text.endswith("\n")


def test_how_many_files_change_and_how() -> None:
    assert "\n1 added, 1 changed, 1 deleted, 1 unchanged:\n" in preview(*ENTRIES)
    assert "\n1 unchanged:\n" in preview(ENTRIES[2])


def test_the_tag_that_the_commit_would_get() -> None:
    recipe = plain(recipe_of(target={"tag": "webgpu-{source}"}))
    text = preview(*ENTRIES, report=report_of(recipe=recipe))
    assert "The commit would be tagged `webgpu-0123456789ab`.\n" in text
    assert "tagged" not in preview(*ENTRIES)


class TestOutputs:
    def test_are_counted_over_inputs_and_levels(self) -> None:
        text = preview(*ENTRIES, report=report_of(variant_report(proof=proof_of(output(), output("z")))))
        assert "Compared on `noise 0`, with onnxruntime 1.99.0 on the CPU." in text
        assert "| `y` | disabled, default | 1 | 0 of 1,500 | 0 |\n" in text
        assert "| `z` | disabled, default | 1 | 0 of 1,500 | 0 |\n" in text

    def test_that_differ_come_first(self) -> None:
        proof = proof_of(output(), output("z"), default=(output(), output("z", 3, 2**-12, nonfinite=1)))
        rows = output_rows(variant_report(proof=proof))
        assert [(row.output, row.levels, row.differing) for row in rows] == [
            ("z", "default", 3),
            ("y", "disabled, default", 0),
            ("z", "disabled", 0),
        ]
        text = preview(*ENTRIES, report=report_of(variant_report(proof=proof)))
        assert "| `z` | default | 1 | 3 of 1,500; 1 of them NaN or infinite in only one | 0.000244 |" in text

    def test_beyond_the_first_are_summed_up(self) -> None:
        many = [output(f"y{number}", differing=number, max_abs=1.0) for number in range(1, 14)]
        text = preview(*ENTRIES, report=report_of(variant_report(proof=proof_of(*many))))
        assert "| `y10` |" in text
        assert "| `y11` |" not in text
        assert "And 3 rows more, with 36 values that differ; `report.json` has them.\n" in text

    def test_on_several_inputs_are_one_row(self) -> None:
        results = tuple(
            InputResult(
                label=f"noise {number}", status="compared", outputs=(output(differing=number, max_abs=apart),)
            )
            for number, apart in ((0, 0.0), (2, 0.5), (1, None))
        )
        proof = verification().model_copy(update={"levels": (LevelResult(level="default", inputs=results),)})
        (row,) = output_rows(variant_report(proof=proof))
        assert (row.inputs, row.values, row.differing, row.max_abs) == (3, 4500, 3, 0.5)

    def test_none_make_no_table(self) -> None:
        both_fail = LevelResult(level="default", inputs=(InputResult(label="noise 0", status="both_fail"),))
        proof = verification().model_copy(update={"levels": (both_fail,)})
        assert "| Output |" not in preview(*ENTRIES, report=report_of(variant_report(proof=proof)))


class TestPictures:
    def test_are_a_row_of_four_with_captions(self) -> None:
        lines = preview(*ENTRIES, pictures=drawn()).splitlines()
        start = lines.index("| Input | Before | After | Difference |")
        assert lines[start - 2] == (
            "`onnx/model.onnx` on `image cat.png`, at the runtime's default optimization level."
        )
        assert re.findall(
            r'<img src="pictures/1-m-([^"]+)" width="200" alt="([^"]+)">', lines[start + 2]
        ) == [
            ("input.png", "input"),
            ("1-y-before.png", "mask before"),
            ("1-y-after.png", "mask after"),
            ("1-y-difference.png", "difference"),
        ]
        assert lines[start + 3] == (
            "| `x`: preprocessing undone | `y`: sigmoid of the values | `y`: sigmoid of the values "
            "| 0 of 1,500 values differ |"
        )

    def test_of_what_differs_say_by_how_much(self) -> None:
        text = preview(*ENTRIES, pictures=drawn(comparison=output("y", 3, 2**-12, nonfinite=1)))
        assert (
            "| 3 of 1,500 values differ, by 0.000244 at most, 1 of them NaN or infinite in only one; "
            "× 4,096, black where none differs |\n"
        ) in text

    def test_of_noise_say_how_to_see_more(self) -> None:
        assert "photos under `verify.inputs.images`" in preview(*ENTRIES, pictures=drawn(image=False))
        assert "photos under" not in preview(*ENTRIES, pictures=drawn())

    def test_that_cannot_be_drawn_are_a_line(self) -> None:
        text = preview(*ENTRIES, pictures=Pictures(missing="pictures of the outputs need Pillow: `pip ...`"))
        assert (
            "\n## Pictures\n\nNone: pictures of the outputs need Pillow: `pip ...`.\n\n## On the device\n"
            in text
        )

    def test_without_any_there_is_no_section(self) -> None:
        assert "Pictures" not in preview(*ENTRIES)

    def test_read_as_markdown(self) -> None:
        for pictures in (drawn(), Pictures(missing="x")):
            text = preview(*ENTRIES, pictures=pictures)
            assert "\n\n\n" not in text
            assert not re.search(r"[ \t]$", text, re.MULTILINE)


HOSTILE = (
    *("a`b", "``", "`a", "a|b", "<img src=x>", "](http://x)", "**x**", "a\nb", " a  b ", "#", "\\"),
    *("\x1b[31mred", "\u202egnp.exe", "```\n# Title", "x" * 300, "a` | `b", "a\\|b"),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_a_code_span_whatever_it_is(name: str) -> None:
    shown = "".join(char if char.isprintable() else "?" for char in " ".join(name.split()))
    (span,) = [token for token in parsed(f"Before {code(name)} after") if token.type == "code_inline"]
    assert span.content == shown
    plain = parsed(preview(*ENTRIES, pictures=drawn()))
    found = parsed(preview(*ENTRIES, pictures=drawn(name)))
    assert [token.type for token in found] == [token.type for token in plain]
    assert [token.content for token in found if token.content == shown] == [shown] * 2


def test_the_empty_name() -> None:
    assert [token.content for token in parsed(f"a {code('')} b") if token.type == "code_inline"] == ["  "]


@pytest.mark.parametrize("name", ["<img src=//e>", "a`b", "](http://e)", "a|b", "**x**", "@octocat"])
def test_operators_that_stand_in_the_way_are_text_whatever_their_names(name: str) -> None:
    variant = variant_report()
    given = {"problem": "no_kernel", "op": name, "dtype": "", "nodes": 2, "first": "n"}
    given |= {"what": f"no kernel for {name}", "happens": "runs on the CPU", "runtimes": ("web-1.22",)}
    given |= {"bytes_from_gpu": 0, "bytes_to_gpu": 0, "passes": (), "believed": False}
    inspection = variant.inspection.model_copy(update={"groups": (Group.model_validate(given),)})
    report = report_of(variant.model_copy(update={"inspection": inspection}))
    for text in (preview(report=report), render(report, card_spec())):
        tokens = parsed(text)
        spans = [token.content for token in tokens if token.type == "code_inline"]
        assert {name, f"no kernel for {name}"} <= set(spans)
        others = [token for token in tokens if token.type not in ("code_inline", "inline")]
        assert not [token for token in others if token.type == "html_inline" and "img" in token.content]
        assert not any(name in token.content for token in others if token.type == "text")
        links = [dict(token.attrs) for token in others if token.type == "link_open"]
        assert not any("//e" in str(each) for each in links)
