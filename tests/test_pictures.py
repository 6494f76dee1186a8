from __future__ import annotations

import builtins
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import PIL.Image
import pytest

from hubpublish import pictures, source
from hubpublish.pictures import Picture, Pictures
from hubpublish.recipe import InputSpec, VerifySpec
from hubpublish.report import Report
from hubpublish.runlog import RunLog
from hubpublish.transform import RunContext, transform
from hubpublish.verify import kept, verify
from tests.outputs import PATH, Outputs
from tests.publication import Publication, files_below, model_bytes
from tests.reports import report_of, variant_report

CONFIG = {"do_normalize": True, "image_mean": [0.5, 0.25, 0], "image_std": [0.5, 1, 2]}
PHOTO = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
# The mask is the mean of the channels; a rewrite may move one value of it.
MASK = "g (float[1,3,8,8] x) => (float[1,1,8,8] y) { y = ReduceMean <axes = [1]> (x) }"
SAME = MASK.replace("y = ReduceMean <axes = [1]> (x)", "z = ReduceMean <axes = [1]> (x) y = Identity (z)")
CHANGED = SAME.replace("Identity (z)", "Add (z, one)")
ONE = np.zeros((1, 1, 8, 8), np.float32)
ONE[0, 0, 5, 2] = 2**-10


def verified(folder: Path, after: str, gate: Any = "exact", **inputs: Any) -> Pictures:
    """Verifies and draws two models, as a dry run into ``folder`` does."""
    config = folder / "preprocessor_config.json"
    config.write_text(json.dumps(CONFIG))
    PIL.Image.fromarray(PHOTO).save(folder / "photo.png")
    for name, text in (("before", MASK), ("after", after)):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
        if "one" in text:
            model.graph.initializer.append(onnx.numpy_helper.from_array(ONE, "one"))
        onnx.save(model, folder / f"{name}.onnx")
    proof = verify(
        folder / "before.onnx",
        folder / "after.onnx",
        spec=VerifySpec(gate=gate, inputs=InputSpec(**{"noise": 1, **inputs})),
        base_dir=folder,
        preprocessor=config,
        keep=folder / "outputs" / PATH,
    )
    assert proof.passed, proof.reason
    report = report_of(variant_report(proof=proof))
    return pictures.draw(report, folder / "outputs", folder / "pictures", config)


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


IMAGE, Y = {"x": noise(1, 3, 8, 8)}, {"y": noise(1, 1, 8, 8)}


def pixels(folder: Path, picture: Picture) -> np.ndarray:
    with PIL.Image.open(folder / picture.path) as opened:
        assert opened.format == "PNG"
        assert not opened.info  # no time, no text
        return np.asarray(opened)


class TestOfModels:
    def test_a_single_value_that_differs_is_seen(self, tmp_path: Path) -> None:
        found = verified(tmp_path, CHANGED, {"max_abs": 0.01})
        ((row,),) = (variant.rows for variant in found.variants)
        (variant,) = found.variants
        assert (variant.path, variant.label, variant.level) == (PATH, "noise 0", "default")
        assert (row.input, row.output, variant.image, found.missing) == ("x", "y", False, None)
        assert row.comparison.distance is not None
        assert (row.comparison.distance.differing, row.comparison.distance.elements) == (1, 64)
        difference = pixels(tmp_path, row.difference)
        seen = np.argwhere(difference)  # row 5, column 2, each value 32 pixels wide
        assert (seen.min(axis=0).tolist(), seen.max(axis=0).tolist()) == ([160, 64], [191, 95])
        assert difference.max() >= 128
        assert re.fullmatch(r"× (512|1,024|2,048), black where none differs", row.difference.words)

    def test_a_photo_and_its_identical_masks(self, tmp_path: Path) -> None:
        (variant,) = verified(tmp_path, SAME, images=("photo.png",)).variants
        (row,) = variant.rows
        assert (variant.label, variant.image) == ("image photo.png", True)
        assert row.source.words == "preprocessing undone"
        assert np.array_equal(pixels(tmp_path, row.source)[::32, ::32], PHOTO)
        logits = ((PHOTO / 255 - [0.5, 0.25, 0]) / [0.5, 1, 2]).mean(axis=2)
        for mask in (row.before, row.after):
            assert mask.words == "sigmoid of the values"
            shown = pixels(tmp_path, mask)[::32, ::32]
            assert np.abs(shown - 255 / (1 + np.exp(-logits))).max() <= 0.51
        assert row.comparison.identical
        assert not pixels(tmp_path, row.difference).any()

    def test_a_run_keeps_what_is_drawn_and_makes_the_same_files(self, publication: Publication) -> None:
        text = MASK.replace("y =", "m =").replace(" }", " [total] y = Sum (m, m, m) }")
        publication.models[PATH] = model_bytes(f'<ir_version: 8, opset_import: ["": 13]> {text}')
        publication.seed({"preprocessor_config.json": json.dumps(CONFIG).encode()})
        plain, without = self.report(publication, None)
        report, context = self.report(publication, publication.out / "outputs")
        assert plain.to_json() == report.to_json()
        assert files_below(without.staging) == files_below(context.staging)
        found = pictures.draw(report, publication.out / "outputs", publication.out / "pictures")
        assert [(variant.path, len(variant.rows)) for variant in found.variants] == [(PATH, 1)]
        assert (publication.out / found.variants[0].rows[0].after.path).is_file()

    @staticmethod
    def report(publication: Publication, keep: Path | None) -> tuple[Report, RunContext]:
        recipe = publication.recipe()
        upstream = source.resolve(publication.api, recipe.source)
        fetched = source.fetch(publication.api, recipe, upstream, publication.folder / "sources")
        context = RunContext(
            recipe=recipe,
            folder=publication.folder,
            preprocessor=None,
            staging=publication.folder / f"staged-{keep is None}",
            failures=publication.folder / "failures",
            cache=publication.folder,
            log=RunLog.start(),
            say=publication.said.append,
            keep=keep,
        )
        context.staging.mkdir()
        return report_of(*(transform(each, context) for each in fetched.variants)), context


def test_the_first_few_outputs_that_look_like_masks(outputs: Outputs, tmp_path: Path) -> None:
    masks = {name: noise(1, 1, 8, 8) for name in ("b", "c", "d")}
    others = {"label": noise(1, 7), "shape": np.array([1, 8]), "small": noise(1, 4, 4)}
    outputs.hold({"hint": noise(1, 1, 8, 8), **IMAGE}, {**others, **masks})
    (variant,) = outputs.draw().variants
    assert [(row.input, row.output) for row in variant.rows] == [("x", "small"), ("x", "b"), ("x", "c")]
    kinds = ("after", "before", "difference")
    names = [f"{name}-{kind}" for name in ("1-small", "2-b", "3-c") for kind in kinds]
    made = [f"1-onnx-model.onnx-{name}.png" for name in (*names, "input")]
    assert sorted(files_below(tmp_path / "pictures")) == made


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ((1, 18), (1, 18)),
        ((1, 3, 8, 8), (1, 3, 8, 8)),
        ((1, 3, 8, 8), (1, 1, 1, 1)),
        ((1, 3, 8, 8), (8, 8)),
        ((2, 3, 8, 8), (1, 1, 8, 8)),
        ((1, 4, 8, 8), (1, 1, 8, 8)),
        ((1, 3, 8, 8), (1, 3, 64)),
        ((1, 3, 224, 224), (1, 197, 768)),  # tokens with their features
        ((1, 3, 8, 8), (1, 1, 0, 8)),
    ],
)
def test_of_models_that_make_no_masks_there_are_none(
    outputs: Outputs, tmp_path: Path, given: tuple[int, ...], made: tuple[int, ...]
) -> None:
    outputs.hold({"x": noise(*given)}, {"y": noise(*made)})
    assert outputs.draw() == pictures.NONE
    assert not (tmp_path / "pictures").exists()


@pytest.mark.parametrize(
    ("image", "mask"), [((518, 686), (1, 518, 686)), ((518, 686), (1, 37, 49)), ((8, 6), (1, 1, 2, 9))]
)
def test_masks_of_another_size(outputs: Outputs, image: tuple[int, int], mask: tuple[int, ...]) -> None:
    outputs.hold({"x": noise(1, 3, *image)}, {"y": noise(*mask)})
    assert len(outputs.draw().variants[0].rows) == 1


@pytest.mark.parametrize(
    ("array", "size"),
    [
        (noise(1, 8, 6, 3), (256, 192, 3)),
        (noise(1, 1, 8, 6), (256, 192)),
        (noise(1, 3, 8, 6).astype(np.float16), (256, 192, 3)),
        (np.zeros((1, 8, 6, 3), np.uint8), (256, 192, 3)),
    ],
)
def test_inputs_that_look_like_images(
    outputs: Outputs, tmp_path: Path, array: np.ndarray, size: tuple[int, ...]
) -> None:
    outputs.hold({"x": array}, Y)
    assert pixels(tmp_path, outputs.draw().variants[0].rows[0].source).shape == size


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "bool", "uint8", "int64"])
def test_masks_of_other_types(outputs: Outputs, tmp_path: Path, dtype: str) -> None:
    import ml_dtypes

    kind = getattr(ml_dtypes, dtype, dtype)
    mask = np.array([[0, 1], [1, 0]]).reshape(1, 1, 2, 2).astype(kind)
    outputs.hold(IMAGE, {"y": (mask, mask[:, :, ::-1].copy())})
    (row,) = outputs.draw().variants[0].rows
    assert pixels(tmp_path, row.before)[::128, ::128].tolist() == [[0, 255], [255, 0]]
    assert pixels(tmp_path, row.difference).all()


def test_the_same_outputs_are_the_same_bytes(outputs: Outputs, tmp_path: Path) -> None:
    outputs.hold(IMAGE, Y)
    outputs.draw("one/pictures")
    outputs.draw("two/pictures")
    first, second = (files_below(tmp_path / name) for name in ("one", "two"))
    assert first == second
    assert len(first) == 4


@pytest.mark.parametrize("name", ["..", "a/../../b", "C:\\x", "ü", "nul", "-", "x" * 300, "a b|`<i>](y)\n"])
def test_no_name_leads_out_of_the_folder(outputs: Outputs, tmp_path: Path, name: str) -> None:
    outputs.hold(IMAGE, {name: Y["y"]})
    before = set(files_below(tmp_path))
    (row,) = outputs.draw().variants[0].rows
    assert row.output == name
    made = set(files_below(tmp_path)) - before
    assert made == {each.path for each in (row.source, row.before, row.after, row.difference)}
    pattern = r"pictures/1-onnx-model\.onnx-(input|1-[A-Za-z0-9._-]{1,60}-(before|after|difference))\.png"
    assert all(re.fullmatch(pattern, each) for each in made)


def test_names_that_are_written_alike_are_two_pictures(outputs: Outputs) -> None:
    outputs.hold(IMAGE, {"m/1": noise(1, 1, 8, 8), "m:1": -noise(1, 1, 8, 8)})
    assert len({row.before.path for row in outputs.draw().variants[0].rows}) == 2


def test_the_path_of_a_variant_may_be_any(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "a b/`m|`<i>.onnx")
    outputs.hold(IMAGE, Y)
    (variant,) = outputs.draw().variants
    assert variant.rows[0].source.path == "pictures/1-a-b-m-i-.onnx-input.png"


@pytest.fixture
def no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)


@pytest.mark.usefixtures("no_pillow")
def test_without_pillow_it_is_said_how_to_get_them(outputs: Outputs, tmp_path: Path) -> None:
    outputs.hold(IMAGE, Y)
    found = outputs.draw()
    assert found.variants == ()
    assert found.missing == "pictures of the outputs need Pillow: `pip install 'hubpublish[images]'`"
    assert not (tmp_path / "pictures").exists()
    outputs.hold(IMAGE, {"label": noise(1, 7)})
    assert outputs.draw() == pictures.NONE


@pytest.mark.parametrize("damage", ["missing", "truncated", "index", "another report"])
def test_what_is_not_whole_is_not_drawn(outputs: Outputs, damage: str) -> None:
    outputs.hold(IMAGE, Y)
    if damage == "missing":
        (outputs.folder / "1.bin").unlink()
    elif damage == "truncated":
        (outputs.folder / "0.bin").write_bytes(b"12345")
    elif damage == "index":
        (outputs.folder / kept.INDEX).write_text("{}")
    else:
        outputs.report = report_of()
    assert outputs.draw() == pictures.NONE


def test_where_nothing_was_kept_there_are_none(tmp_path: Path) -> None:
    assert pictures.draw(report_of(), tmp_path / "outputs", tmp_path / "pictures") == pictures.NONE
