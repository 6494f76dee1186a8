from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hubpublish import recipe
from hubpublish.errors import RecipeError
from hubpublish.inspection import Auto
from hubpublish.passes import PASSES

from .conftest import Change, Problems

SHA = "a" * 64


def test_the_example_is_read_in_full(example: str) -> None:
    found = recipe.loads(example)
    assert found.schema_version == 1
    assert found.source == recipe.Source(
        repo="owner/model", copy_files=(recipe.CopiedFile(path="config.json"),)
    )
    assert found.variants[0].data == (recipe.DataFile(path="onnx/model.onnx_data", sha256="b" * 64),)
    assert [each.name for each in found.passes] == ["concat_tree", "sum_to_add"]
    built = found.passes[0].build()
    assert type(built) is PASSES["concat_tree"]
    assert built.options.model_dump() == {"max_inputs": 6}
    assert found.device == recipe.DeviceSpec(profile="webgpu-min")
    assert found.verify.gate == "exact"
    assert found.target.repo == "${NAMESPACE}/model-webgpu"


def test_defaults(changed: Change) -> None:
    text = changed("device: webgpu-min\nverify:\n  gate: exact\n  inputs: {noise: 2}\n", "")
    found = recipe.loads(text)
    assert found.device.profile == "webgpu-min"
    assert found.verify == recipe.VerifySpec(gate="exact", inputs=recipe.InputSpec(noise=2, seed=0))
    assert (found.target.create, found.target.private) == (False, False)
    assert found.card.usage == "auto"


@pytest.mark.parametrize("text", ["1234567", "1e10", "0123456", "0x1F", "true", "null_", "1_000", "1.0"])
def test_a_revision_is_its_text(changed: Change, text: str) -> None:
    assert recipe.loads(changed("revision: main", f"revision: {text}")).source.revision == text


@pytest.mark.parametrize("digits", ["0" * 64, "1" * 64, "12345e" + "7" * 58, "1e" + "9" * 62])
def test_a_sha256_is_its_text(changed: Change, digits: str) -> None:
    assert recipe.loads(changed(SHA, digits)).variants[0].sha256 == digits


def test_a_repo_that_looks_like_a_number_is_its_text(changed: Change) -> None:
    assert recipe.loads(changed("repo: owner/model", "repo: 007")).source.repo == "007"


def test_a_license_named_no_is_its_text(changed: Change) -> None:
    assert recipe.loads(changed("license: mit", "license: no")).card.license == "no"


def test_sha256_is_lowered(changed: Change) -> None:
    assert recipe.loads(changed(SHA, "A" * 64)).variants[0].sha256 == SHA


def test_numbers_as_people_write_them(changed: Change) -> None:
    gate = recipe.loads(changed("gate: exact", "gate: {max_abs: 1e-3, mean_abs: 0}")).verify.gate
    assert gate == recipe.Tolerance(max_abs=1e-3, mean_abs=0.0)


def test_inputs(changed: Change) -> None:
    inputs = "{noise: 3, seed: 7, images: [a/b.png], shapes: {x: [1, 3, 8, 0]}, ranges: {ids: [-5, 9]}, "
    inputs += 'values: {sr: 16000, mode: "on", flag: true, grid: [[1, 2.5], [3, 4]], 7: []}}'
    found = recipe.loads(changed("inputs: {noise: 2}", f"inputs: {inputs}")).verify.inputs
    assert found.images == ("a/b.png",)
    assert found.shapes == {"x": (1, 3, 8, 0)}
    assert found.ranges == {"ids": (-5, 9)}
    grid = [[1, 2.5], [3, 4]]
    assert found.values == {"sr": 16000, "mode": "on", "flag": True, "grid": grid, "7": []}


def test_a_device_is_a_profile_or_more(changed: Change) -> None:
    plain = recipe.loads(changed("device: webgpu-min", "device: webgpu-chromium")).device.build()
    assert (plain.profile.name, plain.runtime, plain.enforce_sizes) == ("webgpu-chromium", None, False)
    more = "device: {profile: webgpu-desktop, runtime: web-1.30, enforce_sizes: true}"
    device = recipe.loads(changed("device: webgpu-min", more)).device.build()
    assert device.runtime is not None
    assert (device.profile.name, device.runtime.name, device.enforce_sizes) == (
        "webgpu-desktop",
        "web-1.30",
        True,
    )


def test_passes_may_be_chosen_by_themselves(changed: Change) -> None:
    listed = "  - concat_tree: {max_inputs: 6}\n  - sum_to_add\n"
    auto = changed("passes:\n" + listed, "passes: auto\n")
    found = recipe.loads(auto)
    assert found.build_passes(found.variants[0]) == Auto()
    assert recipe.loads(recipe.dumps(found)) == found
    bounded = recipe.loads(auto.replace("gate: exact", "gate: {max_abs: 1e-3}"))
    assert bounded.build_passes(bounded.variants[0]) == Auto(approximate=True)
    own = recipe.loads(auto.replace("    data:", "    passes: [sum_to_add]\n    data:"))
    assert [each.name for each in own.build_passes(own.variants[0])] == ["sum_to_add"]  # type: ignore[union-attr]


def test_a_variant_overrides(changed: Change) -> None:
    override = "dtype: fp32\n    passes: [sum_to_add]\n    verify: {gate: exact_unoptimized}"
    variant = recipe.loads(changed("dtype: fp32", override)).variants[0]
    assert variant.passes is not None
    assert [each.name for each in variant.passes] == ["sum_to_add"]
    assert variant.verify == recipe.VerifySpec(gate="exact_unoptimized")


ONE_PROBLEM = [
    ("revision: main", "revison: main", "4:3: unknown key 'revison' in source; did you mean 'revision'?"),
    ("card:", "crad:", "22:1: unknown key 'crad' at the top level; did you mean 'card'?"),
    (
        "  copy: [config.json]",
        "  copy_files: [config.json]",
        "5:3: unknown key 'copy_files' in source; known: repo, revision, copy",
    ),
    (
        "    dtype: fp32",
        "    dtype: fp32\n    zzz: 1",
        "9:5: unknown key 'zzz' in variants[0]; known: path, dtype, sha256, data, passes, verify",
    ),
    (
        "license: mit",
        "license: mit\n  license: mit",
        "24:3: duplicate key 'license' in card: lines 23 and 24",
    ),
    ("card:", "schema: 1\ncard:", "22:1: duplicate key 'schema' at the top level: lines 1 and 22"),
    (
        "  - concat_tree: {max_inputs: 6}\n  - sum_to_add\n",
        "  automatic\n",
        "14:3: passes: unknown word 'automatic' for passes; write auto, or a list of passes",
    ),
    (
        "  - concat_tree: {max_inputs: 6}\n  - sum_to_add\n",
        "  sum_to_add\n",
        "14:3: passes: unknown word 'sum_to_add' for passes; write it as a list: [sum_to_add]",
    ),
    (
        "device: webgpu-min",
        "device: {runtime: web-1.3}",
        "16:19: device.runtime: unknown runtime 'web-1.3'; did you mean 'web-1.30'?",
    ),
    (
        "device: webgpu-min",
        "device: {enforce_sizes: 1}",
        "16:25: device.enforce_sizes must be true or false, not 1",
    ),
    (
        "  - sum_to_add",
        "  - auto",
        "15:5: auto is no pass, it chooses them: write auto alone, without a list or options",
    ),
    (
        "  - sum_to_add",
        "  - sum_to_ad",
        "15:5: unknown pass 'sum_to_ad'; did you mean 'sum_to_add'?",
    ),
    (
        "{max_inputs: 6}",
        "{max_input: 6}",
        "14:19: unknown key 'max_input' in passes[0].concat_tree; did you mean 'max_inputs'?",
    ),
    (
        "{max_inputs: 6}",
        "{max_inputs: 1}",
        "14:31: passes[0].concat_tree.max_inputs must be at least 2, not 1",
    ),
    (
        "{max_inputs: 6}",
        "{max_inputs: six}",
        "14:31: passes[0].concat_tree.max_inputs must be a whole number, not 'six'",
    ),
    ("{max_inputs: 6}", "6", "14:18: passes[0].concat_tree must be a mapping, not 6"),
    (
        "  - sum_to_add",
        "  - sum_to_add:\n    x: 1",
        "15:5: passes[1]: a pass is a name, or one name with its options in {} or indented below it",
    ),
    (
        "device: webgpu-min",
        "device: webgpu-mim",
        "16:9: device: unknown device 'webgpu-mim'; did you mean 'webgpu-min'?",
    ),
    ("device: webgpu-min", "device: []", "16:9: device must be a mapping, not an empty list"),
    ("gate: exact", "gate: exakt", "18:9: verify.gate: unknown gate 'exakt'; did you mean 'exact'?"),
    (
        "gate: exact",
        "gate: {max_ab: 1}",
        "18:10: unknown key 'max_ab' in verify.gate; did you mean 'max_abs'?",
    ),
    (
        "gate: exact",
        "gate: {}",
        "18:9: verify.gate: a tolerance needs at least one of max_abs, mean_abs, mean_sigmoid",
    ),
    ("gate: exact", "gate: {max_abs: -1}", "18:19: verify.gate.max_abs must be at least 0, not -1"),
    ("gate: exact", "gate: {max_abs: .inf}", "18:19: verify.gate.max_abs must be finite, not inf"),
    (
        SHA,
        "a" * 63,
        f"9:13: variants[0].sha256: '{'a' * 63}' is not a SHA-256: 64 hexadecimal digits, this has 63 char",
    ),
    (
        SHA,
        "g" * 64,
        f"9:13: variants[0].sha256: '{'g' * 64}' is not a SHA-256: 64 hexadecimal digits, this has other",
    ),
    (f"    sha256: {SHA}\n", "", "7:5: variants[0] needs the key 'sha256'"),
    ("  license: mit", "  license:", "23:11: card.license must be text, but has no value"),
    ("  repo: owner/model\n", "", "3:3: source needs the key 'repo'"),
    ("schema: 1\n", "", "1:1: the recipe needs the key 'schema'; begin with 'schema: 1'"),
    ("repo: owner/model", "repo: ${USER}/model", "may stand in target.repo alone"),
    ("repo: owner/model", "repo: a/b/c", "3:9: source.repo: 'a/b/c' is not a repo id: 'owner/name'"),
    (
        "repo: owner/model",
        "repo: https://huggingface.co/owner/model/tree/main",
        "is an address; write the repo id, 'owner/model'",
    ),
    ("{noise: 2}", "{noise: 2.5}", "19:19: verify.inputs.noise must be a whole number, not 2.5"),
    ("{noise: 2}", "{noise: true}", "19:19: verify.inputs.noise must be a whole number, not true"),
    ("{noise: 2}", "{noise: 0}", "19:19: verify.inputs.noise: 0 without images leaves nothing to compare on"),
    ("{noise: 2}", "{shapes: {x: [1, -3]}}", "19:28: verify.inputs.shapes.x[1] must be at least 0, not -3"),
    ("{noise: 2}", "{shapes: {x: 3}}", "19:24: verify.inputs.shapes.x must be a list, not 3"),
    (
        "{noise: 2}",
        "{ranges: {x: [3, 2]}}",
        "19:24: verify.inputs.ranges.x: must be [lowest, highest], but 3",
    ),
    ("{noise: 2}", "{ranges: {x: [3]}}", "19:24: verify.inputs.ranges.x: must be [lowest, highest], not [3]"),
    ("{noise: 2}", "{values: {x: [[1], 2]}}", "verify.inputs.values.x: is ragged"),
    ("{noise: 2}", "{values: {x: [1, a]}}", "verify.inputs.values.x: mixes numbers and texts"),
    ("{noise: 2}", "{values: {x: .nan}}", "verify.inputs.values.x: holds nan"),
    ("{noise: 2}", "{values: {x: }}", "verify.inputs.values.x: is empty"),
    ("{noise: 2}", "{values: {x: {y: 1}}}", "verify.inputs.values.x: must be a number"),
    (
        "{noise: 2}",
        "{values: {x: 1}, ranges: {x: [0, 1]}}",
        "19:40: verify.inputs.ranges.x: input 'x' has a fixed value under values",
    ),
    ("license: mit", "license: MIT", "card.license: 'MIT' is not a license id of the Hub"),
    ("license: mit", 'license: "m\\0"', "23:12: card.license: 'm\\x00' is not a license id"),
    (
        "license: mit",
        'license: mit\n  credits: "\\ud800"',
        "card.credits: holds the control character U+D800",
    ),
    ("license: mit", 'license: mit\n  title: "a\\nb"', "card.title: 'a\\nb' is more than one line"),
    ("  - path: onnx/model.onnx\n", "  - path: onnx/model.bin\n", "does not end with .onnx"),
    ("  - path: onnx/model.onnx_", "  - path: other/model.onnx_", "is not in the model's folder, 'onnx'"),
    (
        "repo: ${NAMESPACE}/model-webgpu",
        "repo: Owner/Model",
        "21:9: target.repo: is the source, 'owner/model'",
    ),
    ("repo: ${NAMESPACE}/model-webgpu", "repo: model", "target.repo: 'model' has no owner"),
    ("repo: ${NAMESPACE}/model-webgpu", "repo: $NAMESPACE/x", "holds a '$' that begins no variable"),
    ("repo: ${NAMESPACE}/model-webgpu", "repo: ${A}/b--${C}", "is not a repo id"),
    (
        "license: mit",
        "license: mit\n  tags: ['${A}']",
        "24:10: card.tags[0]: holds ${A}; variables are filled in",
    ),
    ("copy: [config.json]", "copy: ['${A}.json']", "5:10: source.copy[0].path: holds ${A}; variables are"),
    (
        "card:",
        "  tag: v 1\ncard:",
        "22:8: target.tag: 'v 1' is not a name that git has for a tag: no space or any",
    ),
    ("card:", "  tag: v-{sorce}\ncard:", "'v-{sorce}' holds {sorce}; a tag may hold {source} and {key}"),
    ("card:", "  tag: v-${NAME}\ncard:", "'v-${NAME}' holds {NAME}; a tag may hold {source} and {key}"),
    ("card:", "  tag: main\ncard:", "target.tag: 'main' is what git or the Hub call something else"),
    ("card:", f"  tag: {'e' * 40}\ncard:", "would be taken for a commit"),
    ("card:", "  tag: {source: 1}\ncard:", "22:8: target.tag must be text, not a mapping"),
    ("license: mit", "license: mit\n  free_text: notes", "24:14: card.free_text must be a list, not 'notes'"),
    (
        "license: mit",
        "license: mit\n  free_text: [My Notes]",
        "24:15: card.free_text[0]: 'My Notes' is not a name",
    ),
    ("license: mit", "license: mit\n  free_text: [a--b]", "card.free_text[0]: 'a--b' is not a name"),
    (
        "license: mit",
        "license: mit\n  free_text: [a, b, a]",
        "24:21: card.free_text[2]: 'a' is listed already",
    ),
    (
        "license: mit",
        "license: mit\n  credits: |\n    By me.\n    <!-- end of free text: x -->\n",
        "24:12: card.credits: holds a marker of free text; name the region in card.free_text",
    ),
]


@pytest.mark.parametrize(
    "tag",
    ["v1", "1.0", "1e3", "v-{source}", "{key}", "{source}-{key}", "webgpu/v-{key}", "ü", "a@b", "x.lock2"],
)
def test_a_tag_is_its_text(changed: Change, tag: str) -> None:
    quoted = f"'{tag}'" if tag.startswith("{") else tag
    found = recipe.loads(changed("card:", f"  tag: {quoted}\ncard:"))
    assert found.target.tag == tag
    assert recipe.loads(recipe.dumps(found)) == found
    filled = tag.replace("{source}", "0" * 12).replace("{key}", "0" * 12)
    assert subprocess.run(["git", "check-ref-format", f"refs/tags/{filled}"]).returncode == 0


@pytest.mark.parametrize(
    "tag",
    [
        *("", " ", "-x", "/x", "x/", "x//y", ".x", "x/.y", "x.", "x..y", "x.lock", "x.lock/y", "x~y", "x^y"),
        *("x:y", "x?y", "x*y", "x[y", "x\\y", "x y", "x@{y", "@", "HEAD", "main", "refs/tags/x", "{", "{}"),
        *("x\n", "{Source}", "{{source}}", "{source", "x" * 256, "\x07"),
    ],
)
def test_what_is_no_tag(changed: Change, problems: Problems, tag: str) -> None:
    (found,) = problems(changed("card:", f"  tag: {json.dumps(tag)}\ncard:"))
    assert "22:8: target.tag: " in found


def test_free_text_and_tag_are_not_there_unless_they_are_named(changed: Change) -> None:
    found = recipe.loads(changed("card:", "card:"))
    assert (found.card.free_text, found.target.tag) == ((), None)
    assert "free_text" not in recipe.dumps(found)
    assert "tag:" not in recipe.dumps(found)


def test_regions_have_names(changed: Change) -> None:
    found = recipe.loads(changed("license: mit", "license: mit\n  free_text: [notes, my-notes_2]"))
    assert found.card.free_text == ("notes", "my-notes_2")
    assert recipe.loads(recipe.dumps(found)) == found


def test_a_marker_in_a_line_of_other_words_is_text(changed: Change) -> None:
    text = "Write between `<!-- free text: notes -->` and its end."
    assert recipe.loads(changed("license: mit", f"license: mit\n  credits: '{text}'")).card.credits == text


@pytest.mark.parametrize(("old", "new", "expected"), ONE_PROBLEM)
def test_one_problem_is_one_line_with_its_place(
    changed: Change, problems: Problems, old: str, new: str, expected: str
) -> None:
    found = problems(changed(old, new))
    if old == "card:" and new == "crad:":
        assert len(found) == 1, "the misspelled key must not be missing as well"
    assert len(found) == 1, found
    assert found[0].startswith("r.yaml:")
    assert expected in found[0]


@pytest.mark.parametrize(
    "path",
    ["../x.json", "a/../b", "/etc/passwd", "C:/x", "a\\b", "a//b", "./a", "a/", "", ".git/config", "*.json"],
)
@pytest.mark.parametrize("place", ["copy", "data", "variant", "image"])
def test_a_path_stays_in_its_folder(changed: Change, problems: Problems, path: str, place: str) -> None:
    old, new = {
        "copy": ("[config.json]", f"['{path}']"),
        "data": ("path: onnx/model.onnx_data", f"path: '{path}'"),
        "variant": ("path: onnx/model.onnx\n", f"path: '{path}'\n"),
        "image": ("{noise: 2}", f"{{images: ['{path}']}}"),
    }[place]
    assert len(problems(changed(old, new))) == 1


def second_variant(path: str) -> str:
    return (
        f"passes:\n  - path: {path}\n".replace("passes:\n", "")
        + f"    dtype: fp16\n    sha256: {SHA}\npasses:"
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "onnx/model.onnx",
            "13:11: variants[1].path: 'onnx/model.onnx' would be published in the place of variants[0]",
        ),
        (
            "onnx/Model.onnx",
            "13:11: variants[1].path: 'onnx/Model.onnx' would be published in the place of variants[0]",
        ),
        ("onnx/model.onnx/x.onnx", "would be published in the place of variants[0]"),
    ],
)
def test_variants_must_not_collide(changed: Change, problems: Problems, path: str, expected: str) -> None:
    found = problems(changed("passes:", second_variant(path)))
    assert expected in found[0]


@pytest.mark.parametrize("path", ["README.md", "readme.md", "report.json", "recipe.yaml", "manifest.json/x"])
def test_a_copied_file_must_not_be_one_of_ours(changed: Change, problems: Problems, path: str) -> None:
    (found,) = problems(changed("[config.json]", f"[{path}]"))
    assert "which every publication writes" in found


@pytest.mark.parametrize("path", ["config.json", "onnx/model.onnx", "onnx/model.onnx_data", "onnx"])
def test_a_copied_file_must_not_take_another_ones_place(
    changed: Change, problems: Problems, path: str
) -> None:
    (found,) = problems(changed("[config.json]", f"[config.json, {path}]"))
    assert "5:23: source.copy[1]" in found


def test_usage_may_hold_what_looks_like_a_variable(changed: Change) -> None:
    text = changed("license: mit", "license: mit\n  usage: 'echo ${HOME}'\n  credits: '`${name}`'")
    assert recipe.loads(text).card.usage == "echo ${HOME}"


def test_all_problems_are_told_in_the_order_of_the_file(changed: Change) -> None:
    text = changed("revision: main", "revison: main").replace("exact", "exacd").replace("fp32", "fp 32")
    with pytest.raises(RecipeError) as caught:
        recipe.loads(text, "configs/x.yaml")
    error = caught.value
    assert error.where == "configs/x.yaml:4:3"
    assert [line.split(": ")[0] for line in str(error).splitlines()] == [
        "configs/x.yaml:4:3",
        "configs/x.yaml:8:12",
        "configs/x.yaml:18:9",
    ]
    listed = error.to_dict()["problems"]
    assert isinstance(listed, list)
    assert [each["line"] for each in listed] == [4, 8, 18]


def test_very_many_problems_are_cut_but_counted(changed: Change, problems: Problems) -> None:
    keys = "\n".join(f"  zz{number}: 1" for number in range(50))
    found = problems(changed("license: mit", f"license: mit\n{keys}"))
    assert len(found) == 21
    assert found[-1] == "and 30 more"


def test_a_misspelled_key_that_is_required_is_not_missing_as_well(
    changed: Change, problems: Problems
) -> None:
    assert problems(changed(f"sha256: {SHA}", f"sha265: {SHA}")) == [
        "r.yaml:9:5: unknown key 'sha265' in variants[0]; did you mean 'sha256'?"
    ]


def test_a_key_with_a_letter_that_only_looks_right(changed: Change, problems: Problems) -> None:
    (found,) = problems(changed("card:", "c\u0430rd:"))
    assert "(with U+0430)" in found
    assert "did you mean 'card'?" in found


@pytest.mark.parametrize("version", ["2", "0", "true", "1.0", "one", "[1]", ""])
def test_another_schema_is_the_only_problem(example: str, problems: Problems, version: str) -> None:
    text = example.replace("schema: 1", f"schema: {version}").replace("source:", "sauce:")
    (found,) = problems(text)
    assert found.startswith("r.yaml:1:")
    assert "reads schema 1" in found


def test_load_names_the_file(tmp_path: Path, example: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(example.replace("fp32", "f/p").encode())
    with pytest.raises(RecipeError) as caught:
        recipe.load(path)
    assert str(caught.value).startswith(f"{path}:8:12: variants[0].dtype: 'f/p' is not a short name")
