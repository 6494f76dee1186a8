from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from hubpublish.devices import PROFILES, Device, Fit, NodeWidth, read_runtime
from hubpublish.errors import DeviceFitError
from hubpublish.misfit import require_fit
from hubpublish.passes import PASSES, PassOutcome, Skipped
from hubpublish.rewrite import rewrite
from tests.errors import error_of

MIN = PROFILES["webgpu-min"]
HEADER = '<ir_version: 8, opset_import: ["": 17]>'


def model(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f"{HEADER} {text}"), path)
    return path


def refused(source: Path, out: Path) -> DeviceFitError:
    error = error_of(DeviceFitError, lambda: rewrite(source, out, [], Device(MIN, enforce_sizes=True)))
    assert not out.exists()
    assert error.exit_code == 4
    return error


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        # 4,096 rows of float32: 2**15 columns are 512 MiB, 2**14 are 256 MiB, 2**13 are 128 MiB.
        (2**15, "buffer of 512 MiB over 256 MiB"),
        (2**14, "binding of 256 MiB over 128 MiB"),
    ],
)
def test_a_tensor_that_is_too_large_is_named(tmp_path: Path, lines: int, what: str) -> None:
    source = model(tmp_path, f"g (float[4096, {lines}] x) => (float[4096, {lines}] y) {{ y = Relu (x) }}")
    assert rewrite(source, tmp_path / "all.onnx", [], Device(MIN)).inspection is not None
    error = refused(source, tmp_path / "out.onnx")
    assert error.what == f"1 node needs larger tensors than webgpu-min grants: Relu y in main: {what}"
    assert (error.kind, error.where) == ("too_large", str(source))
    assert [each["node"] for each in error.details["nodes"]] == ["y"]  # type: ignore[attr-defined]


def test_what_fits_a_binding_is_not_refused(tmp_path: Path) -> None:
    source = model(tmp_path, "g (float[4096, 8192] x) => (float[4096, 8192] y) { y = Relu (x) }")
    rewrite(source, tmp_path / "out.onnx", [], Device(MIN, enforce_sizes=True))
    assert (tmp_path / "out.onnx").exists()


def test_a_size_that_is_not_known_is_not_taken_for_small(tmp_path: Path) -> None:
    source = model(tmp_path, "g (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }")
    error = refused(source, tmp_path / "out.onnx")
    assert error.kind == "sizes_unknown"
    assert error.what == (
        "the size of 2 tensors is not known, or only declared by the model, so it is not known whether they "
        "fit webgpu-min"
    )


def test_a_size_that_is_only_declared_is_not_taken_for_true(tmp_path: Path) -> None:
    text = "g (float[64] x) => (float[1,1] y) { n = NonZero (x) f = Cast <to = 1> (n) y = Relu (f) }"
    assert refused(model(tmp_path, text), tmp_path / "out.onnx").kind == "sizes_unknown"


def test_the_reason_is_that_of_the_pass_that_could_have_narrowed_it() -> None:
    wide = NodeWidth(node="cut", op="Split", scope="main", slots=13, narrowed_by="split_tree")
    fit = Fit(profile=MIN.name, limit=8, widest=wide, widest_by_op=(wide,), too_wide=(wide,), cannot_run=())
    model = ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=8)
    split_tree, fold = (
        PassOutcome(model, False, name, {}, True) for name in ("split_tree", "fold_constants")
    )
    fold.skipped.append(Skipped(node="cut", op="Split", scope="main", reason="takes 960,000 bytes"))
    error = error_of(DeviceFitError, lambda: require_fit(fit, [split_tree, fold], Path("model.onnx")))
    assert "takes" not in error.what
    assert str(error.hint).startswith("lower the passes' max_inputs and max_outputs")
    split_tree.skipped.append(Skipped(node="cut", op="Split", scope="main", reason="its sizes are computed"))
    error = error_of(DeviceFitError, lambda: require_fit(fit, [split_tree, fold], Path("model.onnx")))
    assert error.what.endswith(
        "Split cut in main binds 13, 8 granted (split_tree left it alone: its sizes are computed)"
    )
    assert error.hint == (
        "export the model in another way, so that these reasons are gone, or name a device that grants more"
    )


@pytest.mark.parametrize("runtime", ["web-1.22", None])
def test_a_limit_of_the_runtime_counts_where_the_device_grants_more(
    tmp_path: Path, runtime: str | None
) -> None:
    parts = ", ".join(f"p{number}" for number in range(8))
    source = model(tmp_path, f"g (float[8] x) => (float p0) {{ [s] {parts} = Split <axis = 0> (x) }}")
    device = Device(PROFILES["webgpu-chromium"], read_runtime(runtime) if runtime else None)
    error = error_of(DeviceFitError, lambda: rewrite(source, tmp_path / "out.onnx", (), device))
    assert error.what == (
        "1 node binds more storage buffers than webgpu-chromium or the runtime grants: "
        "Split s in main binds 9, 8 granted"
    )
    assert error.hint == "add the pass split_tree, or name a device or runtime that grants more"
    done = rewrite(source, tmp_path / "out.onnx", (PASSES["split_tree"](),), device)
    assert done.inspection is not None
    assert done.inspection.fit


def test_what_a_newer_runtime_grants_is_not_refused(tmp_path: Path) -> None:
    parts = ", ".join(f"p{number}" for number in range(8))
    source = model(tmp_path, f"g (float[8] x) => (float p0) {{ {parts} = Split <axis = 0> (x) }}")
    rewrite(source, tmp_path / "out.onnx", (), Device(PROFILES["webgpu-chromium"], read_runtime("web-1.24")))
    assert (tmp_path / "out.onnx").exists()
