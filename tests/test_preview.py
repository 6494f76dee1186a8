from __future__ import annotations

from hubpublish.preview import operator_rows, render_preview
from hubpublish.publish import Conflict, Plan, PlanEntry, TargetState
from hubpublish.report import Report
from tests.publication import TARGET
from tests.reports import report_of, variant_report

OLD, NEW = "1" * 64, "2" * 64
ENTRIES = (
    PlanEntry("README.md", "changed", OLD, NEW, 1000, 2500),
    PlanEntry("onnx/model.onnx", "added", None, NEW, None, 224_005_088),
    PlanEntry("config.json", "unchanged", OLD, OLD, 0, 0),
    PlanEntry("old|name.json", "deleted", OLD, None, 7, None),
)


def preview(
    *entries: PlanEntry,
    conflicts: tuple[Conflict, ...] = (),
    exists: bool = True,
    cards: tuple[str, str] = ("a\nb\n", "a\nc\n"),
    report: Report | None = None,
) -> str:
    state = TargetState(TARGET, "main", exists, "f" * 40 if exists else None)
    return render_preview(report or report_of(), Plan(state, (), entries, conflicts), *cards)


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
    assert "| Constant | 0 | 3 |" in text
    assert "binds 10 storage buffers before, 7 after" in text
    assert "8 nodes before, 16 nodes after" in text


def test_no_table_where_no_operator_changes() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) { y = Tanh (x) }'
    assert "| Operator |" not in preview(*ENTRIES, report=report_of(variant_report(text=text)))


def test_it_reads_as_markdown() -> None:
    text = preview(*ENTRIES)
    assert "\n\n\n" not in text
    assert text.endswith("\n")
