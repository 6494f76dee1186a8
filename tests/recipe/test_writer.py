from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hubpublish import recipe
from hubpublish.devices import PROFILES
from hubpublish.errors import RecipeError
from hubpublish.passes import PASSES
from hubpublish.recipe.writer import plain

from .conftest import EXAMPLE, Change

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))

# What YAML is likely to read as something else, or to lose.
TRICKY = [
    "null",
    "~",
    "true",
    "no",
    "1e10",
    "0x1F",
    "0o7",
    "12:30",
    "2024-01-01",
    ".inf",
    "- a",
    "a: b",
    "#x",
]
TRICKY += [
    "'",
    '"',
    "a # b",
    " a",
    "a ",
    "!x",
    "&a",
    "*a",
    "@",
    "`",
    "%",
    "|",
    ">",
    "{a",
    "[a",
    "?",
    "<<",
    "=",
]
texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Cn")), min_size=1, max_size=40)
lines = (st.sampled_from(TRICKY) | texts).filter(lambda text: text.strip() and "${" not in text)
paragraphs = st.lists(lines | st.sampled_from(["", "  ", "\t", "# a", "---", "..."]), min_size=1, max_size=5)
prose = paragraphs.map("\n".join).filter(lambda text: text.strip())
words = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
hashes = st.from_regex(r"[0-9a-f]{64}", fullmatch=True) | st.sampled_from(["1" * 64, "1e" + "5" * 62])
repos = st.builds("{}/{}".format, words.map("a{}".format), words)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1)
bounds = st.floats(0, 1e6) | st.none()


@st.composite
def values(draw: st.DrawFn) -> object:
    scalars = draw(st.sampled_from([numbers, lines, st.booleans()]))
    width = draw(st.integers(0, 3))
    rows = st.lists(scalars, min_size=width, max_size=width)
    return draw(scalars | rows | st.lists(rows, min_size=1, max_size=3))


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int]:
    low, high = sorted(draw(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2)))
    return low, high


any_pass = st.sampled_from(sorted(PASSES)) | st.integers(2, 9).map(
    lambda most: {"concat_tree": {"max_inputs": most}}
)
passes = st.lists(any_pass.map(recipe.PassSpec.model_validate), max_size=3).map(tuple)
names: st.SearchStrategy[recipe.Gate] = st.sampled_from(["exact", "exact_unoptimized"])
gates = names | st.builds(recipe.Tolerance, max_abs=st.floats(0, 1), mean_abs=bounds, mean_sigmoid=bounds)


@st.composite
def verifications(draw: st.DrawFn) -> recipe.VerifySpec:
    inputs = recipe.InputSpec(
        noise=draw(st.integers(1, 9)),
        seed=draw(st.integers(0, 2**32 - 1)),
        images=tuple(draw(st.lists(words, max_size=2))),
        shapes=draw(st.dictionaries(lines, st.lists(st.integers(0, 9)).map(tuple), max_size=2)),
        values=draw(st.dictionaries(words.map("v{}".format) | st.just("1e3"), values(), max_size=2)),
        ranges=draw(st.dictionaries(words.map("r{}".format), ranges(), max_size=2)),
    )
    return recipe.VerifySpec(gate=draw(gates), inputs=inputs)


@st.composite
def variants(draw: st.DrawFn) -> tuple[recipe.Variant, ...]:
    found = []
    for name in draw(st.lists(words, min_size=1, max_size=3, unique=True)):
        data = [{"path": f"onnx/{name}.onnx_data", "sha256": draw(hashes)}] if draw(st.booleans()) else []
        found.append(
            recipe.Variant(
                path=f"onnx/{name}.onnx",
                dtype=draw(words | st.sampled_from(["1e3", "0x1", "null"])),
                sha256=draw(hashes),
                data=tuple(recipe.DataFile.model_validate(each) for each in data),
                passes=draw(st.none() | passes),
                verify=draw(st.none() | verifications()),
            )
        )
    return tuple(found)


@st.composite
def recipes(draw: st.DrawFn) -> recipe.Recipe:
    copied = draw(st.dictionaries(words.map("{}.json".format), st.none() | hashes, max_size=3))
    copied.pop("report.json", None)
    copied.pop("manifest.json", None)
    optional = {
        name: draw(st.none() | prose) for name in ("summary", "inputs", "outputs", "credits", "citation")
    }
    return recipe.Recipe(
        schema_version=1,
        source=recipe.Source(
            repo=draw(repos),
            revision=draw(words | st.sampled_from(["1234567", "1e10", "0123456"])),
            copy_files=tuple(recipe.CopiedFile(path=path, sha256=pin) for path, pin in copied.items()),
        ),
        variants=draw(variants()),
        passes=draw(passes),
        device=recipe.DeviceSpec(profile=draw(st.sampled_from(sorted(PROFILES)))),
        verify=draw(verifications()),
        target=recipe.Target(
            repo=draw(repos.map("b{}".format) | words.map("${{NAMESPACE}}/{}".format)),
            create=draw(st.booleans()),
            private=draw(st.booleans()),
        ),
        card=recipe.CardSpec(
            license=draw(st.sampled_from(["mit", "no", "1.0", "apache-2.0"])),
            license_differs_because=draw(st.none() | prose),
            pipeline_tag=draw(st.sampled_from([None, "image-segmentation", "null"])),
            tags=tuple(draw(st.lists(lines, max_size=3))),
            base_model=tuple(draw(st.lists(repos, max_size=2))),
            title=draw(st.none() | lines),
            usage=draw(st.just("auto") | prose),
            **optional,
        ),
    )


@given(recipes())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_reads_as_the_same(found: recipe.Recipe) -> None:
    text = recipe.dumps(found)
    assert recipe.loads(text) == found
    assert recipe.dumps(recipe.loads(text)) == text


@given(recipes())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_json_reads_as_the_same(found: recipe.Recipe) -> None:
    assert recipe.Recipe.model_validate_json(found.model_dump_json(by_alias=True)) == found
    assert recipe.Recipe.model_validate(found.model_dump()) == found


def test_a_recipe_does_not_change(example: str) -> None:
    found = recipe.loads(example)
    with pytest.raises(ValidationError, match="frozen"):
        found.passes = ()


def test_the_written_text(changed: Change) -> None:
    """Other YAML readers take the same from it, keys come in order, and nothing unset is there."""
    text = recipe.dumps(recipe.loads(changed("revision: main", "revision: 1e10")))
    assert list(yaml.safe_load(text)) == [
        "schema",
        "source",
        "variants",
        "passes",
        "device",
        "verify",
        "target",
        "card",
    ]
    assert yaml.safe_load(text)["source"] == {
        "repo": "owner/model",
        "revision": "1e10",
        "copy": ["config.json"],
    }
    assert "copy: [config.json]" in text
    assert "  - concat_tree: {max_inputs: 6}\n  - sum_to_add\ndevice: webgpu-min\n" in text
    assert "revision: '1e10'" in text
    assert "null" not in text


def test_an_override_by_nothing_stays_one(changed: Change) -> None:
    found = recipe.loads(changed("dtype: fp32", "dtype: fp32\n    passes: []"))
    assert found.variants[0].passes == ()
    assert recipe.loads(recipe.dumps(found)).variants[0].passes == ()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_recipe_of_this_repository_loads(path: Path) -> None:
    found = recipe.load(path)
    assert recipe.loads(recipe.dumps(found)) == found
    assert "schema/recipe.schema.json" in path.read_text(encoding="utf-8").splitlines()[0]


def test_the_target_is_filled_in_from_the_environment(example: str) -> None:
    found = recipe.loads(example)
    assert recipe.target_repo(found, {"NAMESPACE": "someone"}) == "someone/model-webgpu"


@pytest.mark.parametrize("environ", [{}, {"NAMESPACE": ""}])
def test_an_unset_variable_is_named(example: str, environ: dict[str, str]) -> None:
    with pytest.raises(RecipeError, match="NAMESPACE is not set") as caught:
        recipe.target_repo(recipe.loads(example), environ)
    assert (caught.value.kind, caught.value.exit_code) == ("target_unset", 2)


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("${NAMESPACE}", "someone/else", "someone/else"),
        ("${NAMESPACE}", "no-owner", "has no owner"),
        ("${NAMESPACE}", "OWNER/model", "is the source"),
        ("${NAMESPACE}/x", "a/b", "not a repo id"),
        ("${NAMESPACE}/x", "${NAMESPACE}", "not a repo id"),
        ("${NAMESPACE}/x", "a b", "not a repo id"),
        ("${NAMESPACE}/x", "a\n", "not a repo id"),
    ],
)
def test_what_a_variable_holds_is_checked(changed: Change, template: str, value: str, expected: str) -> None:
    found = recipe.loads(changed("${NAMESPACE}/model-webgpu", template))
    if expected == value:
        assert recipe.target_repo(found, {"NAMESPACE": value}) == expected
    else:
        with pytest.raises(RecipeError, match=expected):
            recipe.target_repo(found, {"NAMESPACE": value})


def test_the_resolved_recipe_cannot_move(example: str) -> None:
    copied = {"LICENSE": "c" * 64, "config.json": "d" * 64}
    found = recipe.resolved(recipe.loads(example), commit="f" * 40, target="someone/repo", copied=copied)
    assert found.source.revision == "f" * 40
    assert found.target.repo == "someone/repo"
    assert {each.path: each.sha256 for each in found.source.copy_files} == copied
    assert found.source.copy_files[0].path == "config.json"
    assert recipe.loads(recipe.dumps(found)) == found
    assert recipe.loads(EXAMPLE).source.revision == "main"
    again = recipe.resolved(found, commit="f" * 40, target="someone/repo", copied=copied)
    assert again == found


class TestChosenPasses:
    """What is published names the passes that were applied, and never auto."""

    ONE = (("sum_to_add", {}), ("concat_tree", {"max_inputs": 4}))
    TWO = (("split_tree", {"max_outputs": 5}),)

    @staticmethod
    def auto(*own: object) -> recipe.Recipe:
        variants: list[dict[str, object]] = [
            {"path": f"onnx/{number}.onnx", "dtype": "fp32", "sha256": f"{number}" * 64}
            | ({} if passes is None else {"passes": passes})
            for number, passes in enumerate(own)
        ]
        data = {"schema": 1, "source": {"repo": "a/b"}, "variants": variants, "passes": "auto"}
        data |= {"target": {"repo": "c/d"}, "card": {"license": "mit"}}
        return recipe.loads(yaml.safe_dump(data))

    def test_stand_once_where_they_are_the_same(self) -> None:
        both = {"onnx/0.onnx": self.ONE, "onnx/1.onnx": self.ONE}
        found = recipe.with_passes(self.auto(None, None), both)
        assert plain(found)["passes"] == ["sum_to_add", {"concat_tree": {"max_inputs": 4}}]
        assert [each.passes for each in found.variants] == [None, None]
        assert recipe.loads(recipe.dumps(found)) == found
        assert recipe.with_passes(found, both) == found

    def test_are_those_of_each_file(self) -> None:
        asked = self.auto(None, None, "auto", ["fold_constants"])
        applied = {f"onnx/{number}.onnx": self.TWO if number else self.ONE for number in range(4)}
        found = recipe.with_passes(asked, applied)
        names = [
            each.passes and [its.name for its in each.passes if its != "auto"] for each in found.variants
        ]  # type: ignore[union-attr]
        assert names == [None, ["split_tree"], ["split_tree"], ["fold_constants"]]
        for number, variant in enumerate(found.variants[:3]):
            built = found.build_passes(variant)
            assert [each.name for each in built] == [name for name, _ in applied[f"onnx/{number}.onnx"]]  # type: ignore[union-attr]
        assert "auto" not in recipe.dumps(found).partition("card:")[0]

    def test_are_none_where_the_list_is_empty(self) -> None:
        found = recipe.with_passes(self.auto(None), {"onnx/0.onnx": ()})
        assert found.passes == ()

    def test_of_a_recipe_that_names_its_passes_stay(self, example: str) -> None:
        named = recipe.loads(example)
        assert recipe.with_passes(named, {each.path: self.TWO for each in named.variants}) == named


def test_a_copied_file_without_a_hash_is_not_resolved(example: str) -> None:
    with pytest.raises(ValueError, match=r"config\.json"):
        recipe.resolved(recipe.loads(example), commit="f" * 40, target="a/b", copied={})


def test_an_unknown_pass_is_refused_from_python_as_well() -> None:
    with pytest.raises(ValidationError, match="did you mean 'sum_to_add'"):
        recipe.PassSpec.model_validate("sum_to_ad")
