"""Status and bump for people: what they say, and that no name from the Hub can say anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hubpublish.upstream import (
    Bump,
    FileChange,
    ModelDifference,
    PinChange,
    RecipeStatus,
    bump_lines,
    bump_markdown,
    status_lines,
)
from hubpublish.upstream.differences import ModelFacts, ValueChange, WeightsDifference
from hubpublish.upstream.words import code, plain, sentences

OLD, NEW, COMMIT = "a1" * 32, "b2" * 32, "c3" * 20
HOSTILE = "x\x1b[31m\n::error::`|<!-- @all\u202e"


def status(**fields: Any) -> list[str]:
    given = {"recipe": "configs/a.yaml", "source": "acme/a", "commit": COMMIT, "target": "acme/a-webgpu"}
    return list(status_lines(RecipeStatus(**{**given, "upstream": "unchanged", **fields})))


def changed(path: str = "onnx/model.onnx", role: Any = "model", **fields: Any) -> FileChange:
    return FileChange(**{"path": path, "role": role, "change": "changed", "old": OLD, "new": NEW, **fields})


def facts(**fields: Any) -> ModelFacts:
    given = {"nodes": 1200, "opsets": {"": 17}, "ir_version": 8, "weights": 300, "weight_bytes": 178_200_000}
    return ModelFacts(**{**given, "inputs": {"x": "float32 [1, 3]"}, "outputs": {}, **fields})


def weights(added: int = 0, removed: int = 0) -> WeightsDifference:
    return WeightsDifference(
        equal=not added and not removed,
        added=added,
        added_bytes=added * 1000,
        removed=removed,
        removed_bytes=removed * 1000,
    )


def difference(**fields: Any) -> ModelDifference:
    given = {"path": "onnx/model.onnx", "old": facts(), "new": facts(), "equal": False, "graph_equal": False}
    return ModelDifference(**{**given, "weights": weights(), **fields})


def said(**fields: Any) -> list[str]:
    return list(sentences(difference(**fields), plain))


def bump(**fields: Any) -> Bump:
    given = {
        "recipe": Path("configs/a.yaml"),
        "source": "acme/a",
        "url": "https://h/acme/a",
        "pins": (PinChange("onnx/model.onnx", "variants[0].sha256", OLD, NEW),),
        "old_commit": None,
        "new_commit": COMMIT,
        "differences": (),
        "files": (),
        "notes": (),
        "before": "1",
        "after": "2",
    }
    return Bump(**{**given, **fields})


class TestStatus:
    def test_of_what_is_up_to_date(self) -> None:
        assert status(published="up_to_date") == [
            "configs/a.yaml: upstream unchanged, target up to date",
            "  source acme/a at c3c3c3c3c3c3, target acme/a-webgpu",
        ]

    def test_of_what_changed(self) -> None:
        files = (changed(), changed("README.md", "card", old=None, new=None))
        found = status(
            upstream="changed", published="behind", action="bump", files=files, what=("model", "card")
        )
        assert found == [
            "configs/a.yaml: upstream changed (model, card), target behind",
            "  source acme/a at c3c3c3c3c3c3, target acme/a-webgpu",
            "  onnx/model.onnx changed: it was a1a1a1a1a1a1, and is b2b2b2b2b2b2",
            "  README.md changed",
            "  next: hubpublish bump configs/a.yaml",
        ]

    def test_of_what_moved_without_touching_a_pin(self) -> None:
        found = status(published="behind", action="publish", what=("card",))
        assert found[0] == "configs/a.yaml: upstream moved (card), target behind"
        assert found[-1] == "  next: hubpublish run configs/a.yaml"

    def test_names_not_more_than_a_few_files_that_nobody_takes(self) -> None:
        files = [changed(f"{number}.txt", "other") for number in range(30)]
        found = status(files=(*files, *(changed(f"{number}.json", "copied") for number in range(20))))
        assert sum(".txt" in line for line in found) == 10
        assert sum(".json" in line for line in found) == 20
        assert "  and 20 files more that the recipe does not take" in found

    def test_of_a_lost_file(self) -> None:
        lost = changed(change="removed", new=None, required=True, now="onnx/new.onnx")
        found = status(upstream="changed", action="look", files=(lost,))
        assert "  onnx/model.onnx removed: it may be onnx/new.onnx now" in found
        assert found[-1] == "  next: find out where the files went, and correct the recipe"

    def test_of_an_edited_target(self) -> None:
        found = status(published="edited", action="look", edited={"config.json": "edited since"})
        assert "  acme/a-webgpu: config.json edited since" in found
        assert found[-1].endswith("hubpublish run configs/a.yaml --as-pr")

    def test_of_what_was_rolled_back(self) -> None:
        found = status(published="withdrawn", action="look")
        assert found[0].endswith("rolled back in the target")
        assert found[-1].endswith("hubpublish run configs/a.yaml --force")

    def test_of_a_target_without_a_name(self) -> None:
        assert "variables that target.repo names" in status(target=None)[-1]

    def test_of_an_error(self) -> None:
        error = {"message": "it is so\nand so", "where": "acme/a", "hint": "do this", "exit_code": 3}
        found = status(upstream="unknown", commit=None, action="look", error=error)
        assert found == [
            "configs/a.yaml: status unknown",
            "  acme/a: it is so",
            "  and so",
            "  next: do this",
        ]

    def test_quotes_a_path_for_the_shell(self) -> None:
        assert (
            status(recipe="my recipe.yaml", action="publish")[-1] == "  next: hubpublish run 'my recipe.yaml'"
        )


class TestSentences:
    def test_of_nothing_but_names(self) -> None:
        [only] = said(equal=True, graph_equal=True)
        assert "same graph, same weights" in only

    def test_of_weights(self) -> None:
        assert said(graph_equal=True, weights=weights(5, 5)) == [
            "The graph is equal apart from its weights.",
            "Weights: 5 of 300 tensors differ (4.9 KiB of 169.9 MiB).",
        ]
        assert said(weights=weights(5, 9), old=facts(weights=304))[-1].endswith("; there were 304.")
        assert said(weights=weights(0, 2))[-1] == (
            "Weights: gone without a successor: 2 tensors (2 KiB); the other 300 are equal."
        )
        assert said(graph_equal=True)[-2:] == [
            "The weights are equal: 300 tensors (169.9 MiB).",
            "The same weights are used in other places.",
        ]

    def test_of_a_graph(self) -> None:
        found = said(
            old=facts(nodes=1300, opsets={"": 13, "com.x": 1}, ir_version=7),
            ops_added={"GridSample": 20},
            ops_removed={f"Op{number}": 1000 for number in range(12)},
            interface=(
                ValueChange(name="x", kind="input", old="float32 [1]", new="float32 [N]"),
                ValueChange(name="y", kind="output", old="float32 [1]", new=None),
                ValueChange(name="z", kind="output", old=None, new="int64 []"),
            ),
        )
        assert found[:-1] == [
            "The graph differs: 1,200 nodes, it had 1,300.",
            "Operators added: GridSample 20.",
            f"Operators removed: {', '.join(f'Op{number} 1,000' for number in range(10))}, and 2 more.",
            "The opset is 17, it was 13.",
            "The opset of com.x is no longer imported, it was 1.",
            "The IR version is 8, it was 7.",
            "The input x is float32 [N], it was float32 [1].",
            "The output y is gone: float32 [1].",
            "The output z is new: int64 [].",
        ]

    def test_where_there_is_nothing_to_compare_with(self) -> None:
        found = list(sentences(ModelDifference(path="m", reason="it is gone", new=facts()), plain))
        assert found == [
            "There is no comparison: it is gone.",
            "The new model has 1,200 nodes, opset 17, IR version 8 and 300 tensors (169.9 MiB) of weights.",
            "Its inputs: x float32 [1, 3].",
            "Its outputs: none.",
        ]


class TestBump:
    def test_that_changes_nothing(self) -> None:
        found = list(bump_lines(bump(after="1", pins=())))
        assert found == ["configs/a.yaml: nothing to bump: acme/a is at c3c3c3c3c3c3, and every pin holds"]
        assert bump_markdown(bump(after="1", pins=())) == ""

    def test_for_a_terminal(self) -> None:
        made = bump(
            old_commit="d4" * 20,
            differences=(difference(),),
            files=(changed("a.txt", "other"),),
            notes=("look here",),
        )
        found = list(bump_lines(made))
        assert found[:4] == [
            "configs/a.yaml: acme/a is at c3c3c3c3c3c3",
            "  source.revision: d4d4d4d4d4d4 -> c3c3c3c3c3c3",
            "  variants[0].sha256 (onnx/model.onnx): a1a1a1a1a1a1 -> b2b2b2b2b2b2",
            "  onnx/model.onnx",
        ]
        assert found[-2:] == ["  Other files of the source: a.txt (changed).", "  look here"]

    def test_for_a_pull_request(self) -> None:
        made = bump(
            old_commit="d4" * 20,
            differences=(difference(),),
            files=(changed("a.txt", "other"),),
            notes=("look",),
        )
        assert bump_markdown(made) == (
            f"[acme/a](https://h/acme/a) is at commit [`c3c3c3c3c3c3`](https://h/acme/a/commit/{COMMIT}), "
            "the recipe pins `d4d4d4d4d4d4`.\n\n"
            "| file | SHA-256 so far | SHA-256 now |\n"
            "| --- | --- | --- |\n"
            "| `onnx/model.onnx` | `a1a1a1a1a1a1` | `b2b2b2b2b2b2` |\n\n"
            "**`onnx/model.onnx`**\n\n"
            "- The graph differs: 1,200 nodes, as before.\n"
            "- The weights are equal: 300 tensors (169.9 MiB).\n\n"
            "Other files of the source: `a.txt` (changed).\n\n"
            "**Look at this:** `look`\n"
        )

    def test_of_a_commit_alone(self) -> None:
        assert "No file that the recipe pins has changed." in bump_markdown(
            bump(pins=(), old_commit="d4" * 20)
        )


@pytest.mark.parametrize("text", [HOSTILE, "`", "``x", "a|b", "", "\r\n", "<script>"])
def test_a_name_is_one_span_of_code(text: str) -> None:
    span = code(text)
    assert span.isprintable()
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert span.endswith(fence)
    assert fence not in span[len(fence) : -len(fence)].replace("`" * (len(fence) + 1), "")


def test_names_from_the_hub_stay_names() -> None:
    hostile = changed(HOSTILE, "other", now=HOSTILE, change="removed")
    bad = difference(
        path=HOSTILE,
        ops_added={HOSTILE: 1},
        old=facts(opsets={HOSTILE: 1}),
        interface=(ValueChange(name=HOSTILE, kind="input", old=HOSTILE, new=HOSTILE + "2"),),
    )
    alone = ModelDifference(path=HOSTILE, reason=HOSTILE, new=facts(inputs={HOSTILE: HOSTILE}))
    made = bump(differences=(bad, alone), files=(hostile,), notes=(HOSTILE,))
    error = {"message": HOSTILE, "where": HOSTILE, "hint": HOSTILE, "exit_code": 3}
    for line in [
        *bump_lines(made),
        *status(files=(hostile,), edited={HOSTILE: "edited since"}),
        *status(error=error),
    ]:
        assert line.isprintable()
        assert not line.startswith("::")
    text = bump_markdown(made)
    assert all(line.isprintable() for line in text.splitlines())
    outside = [part for line in text.splitlines() for part in line.split("``")[::2]]
    assert not [part for part in outside if "<!--" in part or "@all" in part]
