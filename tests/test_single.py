from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from hubpublish import single
from hubpublish.errors import DeviceFitError, SourceError, UsageError, VerificationError
from hubpublish.passes import PASSES
from hubpublish.single import inspect_file, parse_gate, parse_pass, rewrite_file, verify_files, write_report
from hubpublish.verify import Verification
from tests.errors import error_of
from tests.publication import SMALL, model_bytes, sha256

DEFAULT = [name for name, each in PASSES.items() if each.exact and each.by_default]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes())
    return path


class TestRewrite:
    def test_applies_every_exact_pass_by_default(self, source: Path, tmp_path: Path) -> None:
        done = rewrite_file(source, tmp_path / "out.onnx", [], None)
        assert [outcome.name for outcome in done.outcomes] == DEFAULT
        assert done.inspection is None

    def test_applies_those_that_the_device_asks_for(self, source: Path, tmp_path: Path) -> None:
        report = tmp_path / "report.json"
        done = rewrite_file(source, tmp_path / "out.onnx", ["auto"], "webgpu-min", report, "web-1.30")
        names = ["split_tree", "sum_to_add", "fold_constants", "compress_constants"]
        assert [outcome.name for outcome in done.outcomes if outcome.name != "patch_grid"] == names
        written = json.loads(report.read_text("utf-8"))
        assert written["inspection_before"]["totals"]["on_cpu"] == 1
        assert written["inspection"]["totals"]["on_cpu"] == 0
        assert written["inspection"]["runtimes"] == ["web-1.30"]

    @pytest.mark.parametrize(
        ("passes", "runtime", "said"),
        [
            (["auto"], None, "passes are chosen for a device"),
            (["auto", "sum_to_add"], None, "auto chooses all passes"),
            (["sum_to_add"], "web-1.30", "a runtime is asked for a device"),
        ],
    )
    def test_refuses_what_has_no_meaning(
        self, source: Path, tmp_path: Path, passes: list[str], runtime: str | None, said: str
    ) -> None:
        out = tmp_path / "out.onnx"
        error = error_of(UsageError, lambda: rewrite_file(source, out, passes, None, None, runtime))
        assert (error.what, error.exit_code, out.exists()) == (said, 2, False)

    def test_applies_the_named_ones_in_order(self, source: Path, tmp_path: Path) -> None:
        passes = ["sum_to_add", "concat_tree:max_inputs=3"]
        done = rewrite_file(source, tmp_path / "out.onnx", passes, None)
        assert [(each.name, each.options) for each in done.outcomes] == [
            ("sum_to_add", {}),
            ("concat_tree", {"max_inputs": 3}),
        ]

    def test_checks_a_device_only_if_asked(self, source: Path, tmp_path: Path) -> None:
        target = tmp_path / "out.onnx"
        error_of(DeviceFitError, lambda: rewrite_file(source, target, ["sum_to_add"], "webgpu-min"))
        assert not target.exists()
        rewrite_file(source, target, ["sum_to_add"], None)
        assert target.exists()

    def test_never_replaces_its_source(self, source: Path, tmp_path: Path) -> None:
        link = tmp_path / "link.onnx"
        link.symlink_to(source)
        for target in (source, link, tmp_path / "." / "model.onnx"):
            error = error_of(UsageError, lambda target=target: rewrite_file(source, target, [], None))  # type: ignore[misc]
            assert error.exit_code == 2
        assert source.read_bytes() == model_bytes()

    def test_never_replaces_its_sources_data(self, tmp_path: Path) -> None:
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 13]> g (float[400] x) => (float[400] y) { y = Mul (x, w) }'
        )
        weight = np.arange(400, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        source = tmp_path / "a.onnx"
        onnx.save(model, source, save_as_external_data=True, location="b.onnx_data")
        before = (tmp_path / "b.onnx_data").read_bytes()
        error = error_of(UsageError, lambda: rewrite_file(source, tmp_path / "b.onnx", [], None))
        assert "b.onnx_data" in str(error)
        assert (tmp_path / "b.onnx_data").read_bytes() == before
        done = rewrite_file(source, tmp_path / "c.onnx", [], None)
        assert done.saved.data == tmp_path / "c.onnx_data"

    def test_makes_folders_and_refuses_one_as_target(self, source: Path, tmp_path: Path) -> None:
        rewrite_file(source, tmp_path / "new" / "folder" / "out.onnx", [], None)
        error_of(UsageError, lambda: rewrite_file(source, tmp_path / "new", [], None))

    def test_never_writes_its_report_over_a_model(self, source: Path, tmp_path: Path) -> None:
        for report in (source, tmp_path / "out.onnx", tmp_path / "out.onnx_data"):
            error = error_of(
                UsageError,
                lambda report=report: rewrite_file(source, tmp_path / "out.onnx", [], None, report),  # type: ignore[misc]
            )
            assert error.what == "the report would replace a model"

    def test_of_nothing_that_is_there(self, tmp_path: Path) -> None:
        error = error_of(SourceError, lambda: rewrite_file(tmp_path / "none", tmp_path / "out", [], None))
        assert error.exit_code == 3


class TestPassOptions:
    def test_are_numbers_where_numbers_belong(self) -> None:
        assert parse_pass("split_tree:max_outputs=4").options.model_dump() == {"max_outputs": 4}
        assert parse_pass("split_tree: max_outputs = 4").options.model_dump() == {"max_outputs": 4}
        text = "static_shape:shapes={x: [1, 3], y: [2]},max_bytes=9"
        expected = {"max_bytes": 9, "shapes": {"x": (1, 3), "y": (2,)}}
        assert parse_pass(text).options.model_dump() == expected
        assert parse_pass("split_tree").options.model_dump() == {"max_outputs": 5}

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("split_tre", "did you mean 'split_tree'?"),
            ("", "unknown pass"),
            ("split_tree:max_outputs", "'max_outputs' is no option"),
            ("split_tree:max_output=4", "did you mean 'max_outputs'?"),
            ("split_tree:max_outputs=many", "max_outputs must be a whole number, not 'many'"),
            ("split_tree:max_outputs=2.5", "max_outputs must be a whole number"),
            ("split_tree:max_outputs=1", "max_outputs must be at least 2, not 1"),
            ("split_tree:max_outputs=[", "'[' is no value"),
            ("sum_to_add:x=1", "unknown key 'x'; there are none"),
        ],
    )
    def test_that_are_wrong_are_named(self, text: str, named: str) -> None:
        error = error_of(UsageError, lambda: parse_pass(text))
        assert named in str(error)
        assert "--pass" in str(error.where)


class TestGate:
    def test_is_a_name_or_bounds(self) -> None:
        assert parse_gate("exact") == "exact"
        assert parse_gate("max_abs=1e-3, mean_abs=1e-5") == {"max_abs": 1e-3, "mean_abs": 1e-5}

    @pytest.mark.parametrize(
        ("gate", "named"),
        [
            ("exat", "did you mean 'exact'?"),
            ("max_abs=x", "'x' is no number"),
            ("max_abs=", "'' is no number"),
            ("maxabs=1", "did you mean 'max_abs'?"),
            ("max_abs=-1", "max_abs must be at least 0"),
            ("max_abs=inf", "max_abs must be finite"),
        ],
    )
    def test_that_is_wrong_is_named(self, source: Path, gate: str, named: str) -> None:
        assert named in str(error_of(UsageError, lambda: compared(source, source, gate=gate)))


class TestInspection:
    def test_counts_and_measures(self, source: Path) -> None:
        found = inspect_file(source, "webgpu-min")
        assert found.statistics.nodes == 8
        assert not found.fit
        assert [(each.node, each.slots) for each in found.widest][:3] == [
            ("cut", 10),
            ("join", 10),
            ("scale", 3),
        ]
        assert single.FileInspection.model_validate_json(found.model_dump_json()) == found

    def test_needs_a_device_that_there_is(self, source: Path) -> None:
        error = error_of(UsageError, lambda: inspect_file(source, "webgpu-mni"))
        assert error.hint == "did you mean 'webgpu-min'?"

    def test_needs_a_runtime_that_there_is(self, source: Path) -> None:
        assert inspect_file(source, "webgpu-min", "web-1.30").runtimes == ("web-1.30",)
        error = error_of(UsageError, lambda: inspect_file(source, "webgpu-min", "web-1.31"))
        assert error.hint == "known: web-1.22, web-1.23, web-1.24, web-1.26, web-1.30, native-0.4.0"


class TestReport:
    def test_says_what_was_done(self, source: Path, tmp_path: Path) -> None:
        done = rewrite_file(source, tmp_path / "out.onnx", [], "webgpu-min")
        write_report(done, tmp_path / "new" / "report.json")
        report = json.loads((tmp_path / "new" / "report.json").read_text())
        assert report["output"] == [
            {
                "path": "out.onnx",
                "sha256": sha256((tmp_path / "out.onnx").read_bytes()),
                "size": (tmp_path / "out.onnx").stat().st_size,
            }
        ]
        assert [each["name"] for each in report["passes"]] == DEFAULT
        assert (report["before"]["nodes"], report["after"]["nodes"]) == (8, 16)
        assert (len(report["fit_before"]["too_wide"]), report["fit"]["too_wide"]) == (2, [])

    def test_that_cannot_be_written(self, source: Path, tmp_path: Path) -> None:
        done = rewrite_file(source, tmp_path / "out.onnx", [], None)
        error = error_of(UsageError, lambda: write_report(done, source / "report.json"))
        assert str(source) in str(error)


class TestVerification:
    def test_in_a_line(self, source: Path, tmp_path: Path) -> None:
        rewrite_file(source, tmp_path / "out.onnx", [], None)
        result = compared(source, tmp_path / "out.onnx", cache=tmp_path / "cache")
        assert single.in_words(result).startswith(
            "exact on 2 inputs (optimizations disabled and default), onnx"
        )

    def test_of_another_model(self, source: Path, tmp_path: Path) -> None:
        other = tmp_path / "other.onnx"
        other.write_bytes(model_bytes(SMALL.replace("[neg] n1 = Neg", "[neg] n1 = Abs")))
        error = error_of(VerificationError, lambda: compared(source, other, cache=tmp_path / "cache"))
        assert (error.exit_code, error.kind) == (5, "different")

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"shapes": ["x"]}, "--shape"),
            ({"shapes": ["x=99999999999"]}, "--shape: x[0] must be less than"),
            ({"values": ["x"]}, "--value"),
            ({"files": ["x=none.npy"]}, "none.npy"),
        ],
    )
    def test_needs_options_that_make_sense(self, source: Path, options: dict[str, Any], named: str) -> None:
        assert named in str(error_of(UsageError, lambda: compared(source, source, **options)))

    def test_names_the_option_that_settles_a_shape(self, tmp_path: Path) -> None:
        path = tmp_path / "free.onnx"
        text = '<ir_version: 8, opset_import: ["": 17]> g (float[B,3,H,64] x) => (y) { y = Neg (x) }'
        onnx.save(onnx.parser.parse_model(text), path)
        error = error_of(UsageError, lambda: compared(path, path))
        assert error.hint == "set --shape x=1,3,N,64"
        error = error_of(UsageError, lambda: compared(path, path, shapes=["x=1,2,3,64"]))
        assert error.hint == "correct --shape x=..."

    def test_names_options_and_no_recipe_where_the_original_fails(self, tmp_path: Path) -> None:
        path = tmp_path / "fails.onnx"
        text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (y) {
          i = Constant <value = int64[1] {9}> () a = Gather (x, i) y = Add (a, x) }"""
        onnx.save(onnx.parser.parse_model(text), path)
        error = error_of(VerificationError, lambda: compared(path, path))
        assert error.kind == "original_fails"
        assert error.hint == "give inputs that the model accepts: --value, --input and --shape"
        assert error.details["verification"]["hint"] == error.hint  # type: ignore[index]

    @pytest.mark.parametrize("position", [0, 1])
    def test_needs_both_files(self, source: Path, tmp_path: Path, position: int) -> None:
        files = [source, source]
        files[position] = tmp_path / "none.onnx"
        assert error_of(SourceError, lambda: compared(*files)).where == str(tmp_path / "none.onnx")


def compared(original: Path, rewritten: Path, **options: Any) -> Verification:
    given: dict[str, Any] = {
        "gate": "exact",
        "shapes": [],
        "values": [],
        "files": [],
        "cache": original.parent / "cache",
        "say": lambda line: None,
        **options,
    }
    return verify_files(original, rewritten, **given)
