from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from hubpublish.errors import SourceError, UsageError
from hubpublish.verify import RunLimits, Verification, verification_error

from .conftest import CRASHING, CRASHING_SIZES, ENDLESS, OnnxFile, Verify

SUM = "g (float[4] a, float[4] b, float[4] c) => (float[4] y) { y = Sum(a, b, c) }"
CHAIN = "g (float[4] a, float[4] b, float[4] c) => (float[4] y) { t = Add(a, b) y = Add(t, c) }"
OTHER_ORDER = "g (float[4] a, float[4] b, float[4] c) => (float[4] y) { t = Add(b, c) y = Add(t, a) }"


def test_an_exact_rewrite_passes_at_both_levels(onnx_file: OnnxFile, check: Verify) -> None:
    result = check(onnx_file(SUM), onnx_file(CHAIN), noise=2)
    assert result
    assert (result.held, result.kind, result.depends_on_input) == ("exact", None, True)
    assert [level.level for level in result.levels] == ["disabled", "default"]
    for level in result.levels:
        assert level.identical
        assert [inputs.label for inputs in level.inputs] == ["noise 0", "noise 1"]
        (output,) = level.inputs[0].outputs
        assert (output.name, output.dtype, output.shape, output.identical) == ("y", "float32", (4,), True)
    assert result.runtime.startswith("onnxruntime 1.")
    assert len(result.runs) == 8
    assert all(run.peak_bytes for run in result.runs)


def test_the_report_repeats_and_has_no_durations(onnx_file: OnnxFile, check: Verify) -> None:
    pair = onnx_file(SUM), onnx_file(CHAIN)
    first, second = check(*pair).model_dump_json(), check(*pair).model_dump_json()
    assert first == second
    assert "seconds" not in first
    assert str(pair[0].parent) not in first
    assert Verification.model_validate_json(first).model_dump_json() == first


def test_another_order_of_addition_is_different(onnx_file: OnnxFile, check: Verify) -> None:
    values: dict[str, Any] = {"a": [1e8, 1, 0, 0], "b": [-1e8, 1, 0, 0], "c": [1, 1, 0, 1]}
    result = check(onnx_file(SUM), onnx_file(OTHER_ORDER), values=values)
    assert not result
    assert (result.kind, result.held, result.failed_level) == ("different", None, "disabled")
    assert result.reason == (
        "output 'y' differs in 1 of 4 values, by 1 at most (on values, optimizations disabled)"
    )
    assert [level.level for level in result.levels] == ["disabled"]
    tolerant = check(onnx_file(SUM), onnx_file(OTHER_ORDER), values=values, gate={"max_abs": 1.0})
    assert (tolerant.passed, tolerant.held, tolerant.gate) == (True, "tolerance", {"max_abs": 1.0})


def test_the_error_says_what_kind(onnx_file: OnnxFile, check: Verify) -> None:
    error = verification_error(check(onnx_file(SUM), onnx_file(OTHER_ORDER.replace("Add(t", "Sub(t"))))
    assert (error.exit_code, error.kind) == (5, "different")
    assert error.hint
    json.dumps(error.to_dict(), allow_nan=False)


def conv(op: str) -> tuple[str, dict[str, np.ndarray]]:
    """The runtime folds what is added into the Conv's bias, c + (b + k); what is summed it does not."""
    random = np.random.default_rng(0)
    text = f"""g (float[1,4,8,8] x) => (float[1,4,8,8] y) {{
      c = Conv<pads = [1,1,1,1]>(x, w, b)
      s = {op}(c, k)
      y = Identity(s)
    }}"""
    shapes = {"w": (4, 4, 3, 3), "b": (4,), "k": (1, 4, 1, 1)}
    return text, {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_exact_failing_at_the_default_level_only_names_the_other_gate(
    onnx_file: OnnxFile, check: Verify
) -> None:
    models = [onnx_file(text, **weights) for text, weights in (conv("Sum"), conv("Add"))]
    result = check(*models)
    assert result.kind == "different_default_level"
    assert "default level" in str(result.reason)
    assert "gate exact_unoptimized" in str(result.reason)
    disabled, default = result.levels
    assert disabled.identical
    (output,) = default.inputs[0].outputs
    assert output.distance is not None
    assert output.own is not None
    # How far the original's own levels are apart depends on the processor; the verdict must agree with it.
    within = output.distance.max_abs <= output.own.max_abs  # type: ignore[operator]
    assert f"exact_unoptimized {'holds' if within else 'does not'}" in str(result.reason)
    other = check(*models, gate="exact_unoptimized")
    assert (other.passed, other.held) == ((True, "exact_unoptimized") if within else (False, None))


def test_a_crash_of_the_original_is_undecided(onnx_file: OnnxFile, check: Verify) -> None:
    crashing = onnx_file(CRASHING, opset=17, ir=8, sizes=CRASHING_SIZES)
    fine = onnx_file(
        "g (float[20] x) => (float[1] o1) { a = Constant<value_ints = [1]>() o1 = Gather(x, a) }"
    )
    result = check(crashing, fine)
    assert (result.passed, result.kind) == (False, "original_crashed")
    assert "SIGSEGV" in str(result.reason)
    assert check(fine, crashing).kind == "rewritten_crashed"


def test_models_that_do_not_load(onnx_file: OnnxFile, check: Verify, tmp_path: Path) -> None:
    fine = onnx_file("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    foreign = onnx_file("g (float[2] x) => (float[2] y) { y = com.acme.Neg(x) }")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    for bad in (foreign, broken):
        assert check(bad, fine).kind == "original_does_not_load"
        assert check(fine, bad).kind == "rewritten_does_not_load"
    with pytest.raises(UsageError):
        check(fine, tmp_path / "missing.onnx")


GATHER = "g (float[6] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }"
CLAMPED = "g (float[6] x, int64[1] i) => (float[1] y) { j = Clip(i, low, high) y = Gather(x, j) }"
BOUNDS = {"low": np.array(-6), "high": np.array(5)}


def test_what_fails_must_still_fail(onnx_file: OnnxFile, check: Verify) -> None:
    original, lenient = onnx_file(GATHER), onnx_file(CLAMPED, **BOUNDS)
    result = check(original, lenient, values={"i": [9]})
    assert result.kind == "rewritten_succeeds_where_original_fails"
    assert "Gather" in str(result.reason)
    assert check(lenient, original, values={"i": [9]}).kind == "rewritten_fails"


def test_a_failure_on_some_inputs_does_not_hide_the_others(onnx_file: OnnxFile, check: Verify) -> None:
    original = onnx_file(GATHER)
    same = onnx_file(GATHER.replace("{ y = Gather(x, i)", "{ z = Identity(x) y = Gather(z, i)"))
    # Seeded: one of these inputs is in bounds and one is not.
    result = check(original, same, noise=2, ranges={"i": (-9, 9)})
    assert result.passed
    assert {inputs.status for inputs in result.levels[0].inputs} == {"compared", "both_fail"}


def test_a_failure_on_every_input_proves_nothing(onnx_file: OnnxFile, check: Verify) -> None:
    result = check(onnx_file(GATHER), onnx_file(GATHER), values={"i": [9]})
    assert (result.kind, result.depends_on_input) == ("original_fails", None)
    assert result.levels[0].inputs[0].status == "both_fail"


@pytest.mark.parametrize("noise", [1, 2])
def test_outputs_that_do_not_depend_on_the_inputs(onnx_file: OnnxFile, check: Verify, noise: int) -> None:
    dead = onnx_file("g (float[4] x) => (float[4] y) { z = Mul(x, zero) y = Abs(z) }", zero=np.float32(0))
    result = check(dead, dead, noise=noise)
    assert (result.kind, result.depends_on_input) == ("output_independent_of_input", False)
    assert "2 different inputs" in str(result.reason)


def test_dependence_is_probed_where_every_input_is_fixed(onnx_file: OnnxFile, check: Verify) -> None:
    alive = onnx_file("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    assert check(alive, alive, values={"x": [1, 2]}).depends_on_input is True
    by_integer = onnx_file("g (float[2] x, int64[2] i) => (int64[2] y) { y = Neg(i) }")
    assert check(by_integer, by_integer, values={"x": [1, 2], "i": [5, 6]}).depends_on_input is True
    no_input = onnx_file("g () => (float[1] y) { y = Constant<value_floats = [1.0]>() }")
    result = check(no_input, no_input)
    assert (result.passed, result.depends_on_input) == (True, None)
    assert "not checked" in result.notes[0]
    assert result.inputs[0].label == "no inputs"


def test_empty_outputs_are_compared_by_shape_only_when_asked_for(onnx_file: OnnxFile, check: Verify) -> None:
    text = "g (float[3] x, int64[N] i) => (float[N] y) { y = Gather(x, i) }"
    model, other = onnx_file(text), onnx_file(text.replace("y = G", "z = Neg(x) y = G"))
    empty = np.zeros(0, np.int64)
    undecided = check(model, other, shapes={"i": (0,)})
    assert undecided.kind == "output_independent_of_input"
    asked = check(model, other, given={"x": np.zeros(3, np.float32), "i": empty})
    assert (asked.passed, asked.depends_on_input) == (True, None)
    assert "empty" in asked.notes[0]


def test_an_original_that_does_not_repeat(onnx_file: OnnxFile, check: Verify) -> None:
    random = onnx_file("g (float[99] x) => (float[99] y) { r = RandomNormalLike(x) y = Add(x, r) }")
    assert check(random, random).kind == "original_not_deterministic"


def test_limits_leave_it_undecided(onnx_file: OnnxFile, check: Verify) -> None:
    endless = onnx_file(ENDLESS)
    result = check(endless, endless, limits=RunLimits(seconds=0.5))
    assert result.kind == "timeout"
    assert "original" in str(result.reason)
    result = check(endless, endless, limits=RunLimits(seconds=60, memory=30_000_000))
    assert result.kind == "out_of_memory"


def test_nan_is_compared_by_its_bits(onnx_file: OnnxFile, check: Verify) -> None:
    root = onnx_file("g (float[64] x) => (float[64] y) { y = Sqrt(x) }")
    assert check(root, root).held == "exact"
    masked = """g (float[64] x) => (float[64] y) {
      r = Sqrt(x) bad = IsNaN(r) zero = Constant<value_float = 0.0>() y = Where(bad, zero, r)
    }"""
    assert "NaN" in str(check(root, onnx_file(masked)).reason)


PLAIN = """g (float16[5] x, bool[3] b, int32 n, string[2] s, float[B,N] m, float[N] v)
  => (float16[5] y, bool[3] c, int32 k, string[2] t, float[B,N] p, seq(float[N]) q, optional(float[N]) o) {
    y = Neg(x) c = Not(b) k = Neg(n) t = Identity(s) p = Add(m, v) q = SequenceConstruct(v, v) o = Optional(v)
}"""
RAW = f"""g (bfloat16[5] x, float[5] f) => (bfloat16[5] y, int4[5] i, float8e5m2[5] e, float[5] g) {{
    y = Identity(x)
    i = Cast<to = {onnx.TensorProto.INT4}>(f)
    e = Cast<to = {onnx.TensorProto.FLOAT8E5M2}>(f)
    g = Neg(f)
}}"""


@pytest.mark.parametrize(
    ("text", "inputs"),
    [(PLAIN, {"values": {"s": ["a", "é"]}, "shapes": {"m": (2, 3)}}), (RAW, {})],
)
def test_types_and_shapes(onnx_file: OnnxFile, check: Verify, text: str, inputs: dict[str, Any]) -> None:
    result = check(onnx_file(text), onnx_file(text), **inputs)
    assert result.held == "exact", result.reason
    dtypes = {output.name: output.dtype for output in result.levels[0].inputs[0].outputs}
    if text is PLAIN:
        assert (dtypes["q"], dtypes["q[1]"]) == ("seq(tensor(float))", "float32")
    else:
        assert dtypes == {"y": "bfloat16", "i": "int4", "e": "float8e5m2", "g": "float32"}


def test_packed_values_count_one_by_one(onnx_file: OnnxFile, check: Verify) -> None:
    changed = RAW.replace(f"{onnx.TensorProto.INT4}>(f)", f"{onnx.TensorProto.INT4}>(g)")
    changed = changed.replace("i = Cast", "g = Neg(f) i = Cast").replace("    g = Neg(f)\n}", "}")
    result = check(onnx_file(RAW), onnx_file(changed))
    assert "output 'i' differs in" in str(result.reason)
    assert "of 5 values" in str(result.reason)


def test_what_is_inside_a_sequence_counts(onnx_file: OnnxFile, check: Verify) -> None:
    text = "g (float[2] x) => (seq(float[2]) y) { z = Neg(x) y = SequenceConstruct(x, z) }"
    other = check(onnx_file(text), onnx_file(text.replace("Neg", "Abs")))
    assert "'y[1]'" in str(other.reason)
    shorter = check(onnx_file(text), onnx_file(text.replace("(x, z)", "(x)")))
    assert (shorter.kind, "y[1]" in str(shorter.reason)) == ("different", True)


@pytest.mark.parametrize("none", ["SequenceEmpty<dtype = {}>()", "Optional<type = {}>()"])
def test_the_type_of_nothing_counts(onnx_file: OnnxFile, check: Verify, none: str) -> None:
    kind = "seq" if "Sequence" in none else "optional"
    paths = []
    for dtype, number in (("float", "1"), ("int64", "7")):
        value = none.format(number if kind == "seq" else f"{dtype}[2]")
        paths.append(
            onnx_file(f"g (float[2] x) => ({kind}({dtype}[2]) y, float[2] z) {{ y = {value} z = Neg(x) }}")
        )
    assert check(paths[0], paths[0]).held == "exact"
    result = check(*paths)
    assert result.kind == "different"
    assert "output 'y'" in str(result.reason)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("float[4] w = {1, 2, 3, 4}", None),
        ("double[4] w = {1, 2, 3, 4}", "takes input 'w' as float64, not as float32"),
        ("float[1] w = {1}", "takes input 'w' only in the shape [1], where the original takes [4]"),
    ],
)
def test_inputs_that_need_not_be_given_stay_as_they_are(
    onnx_file: OnnxFile, check: Verify, changed: str, message: str | None
) -> None:
    text = "g (float[4] x, W) => (float[?] y) { c = Cast<to = 1>(w) d = Mul(c, zero) y = Sub(x, d) }"
    original = onnx_file(text.replace("W", "float[4] w = {1, 2, 3, 4}"), zero=np.zeros(1, np.float32))
    result = check(original, onnx_file(text.replace("W", changed), zero=np.zeros(1, np.float32)))
    assert (result.passed, result.kind) == ((True, None) if message is None else (False, "different"))
    assert message is None or message in str(result.reason)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("N, 3", "1, 3", False),
        ("N, 3", "M, 3", True),
        ("N, 3", "M, K", True),
        ("1, 3", "M, 3", True),
        ("N, 3", "-1, 3", True),
        ("-1, 3", "1, 3", False),
    ],
)
def test_an_input_that_takes_fewer_shapes_is_different(
    onnx_file: OnnxFile, check: Verify, before: str, after: str, same: bool
) -> None:
    paths = [
        onnx_file(f"g (float[{shape}] x) => (float[a,b] y) {{ y = Neg(x) }}") for shape in (before, after)
    ]
    result = check(*paths)
    assert result.kind == (None if same else "different")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (float[2] z) => (float[2] y) { y = Neg(z) }", "other inputs"),
        ("g (double[2] x) => (double[2] y) { y = Neg(x) }", "other inputs"),
        ("g (float[2] x) => (float[2] z) { z = Neg(x) }", "other outputs"),
        ("g (float[2] x) => (float[2] y) { t = Unsqueeze(x, axes) y = Identity(t) }", "another shape"),
    ],
)
def test_another_interface_is_different(onnx_file: OnnxFile, check: Verify, text: str, message: str) -> None:
    original = onnx_file("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    weights = {"axes": np.array([0])} if "axes" in text else {}
    result = check(
        original, onnx_file(text.replace("(float[2] y)", "(float[a,b] y)") if weights else text, **weights)
    )
    assert result.kind == "different"
    assert message in str(result.reason)


@pytest.mark.parametrize("which", [0, 1])
def test_external_data_that_is_missing(which: int, tmp_path: Path, check: Verify) -> None:
    paths = [tmp_path / name / "model.onnx" for name in ("before", "after")]
    for path in paths:
        path.parent.mkdir()
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Add (x, w) }'
        )
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
        onnx.save(model, path, save_as_external_data=True, location="w.data", size_threshold=0)
    gone = paths[which].parent / "w.data"
    gone.unlink()
    with pytest.raises(SourceError) as caught:
        check(*paths, cache=tmp_path / "cache")
    assert (caught.value.kind, caught.value.where) == ("external_data_missing", str(gone))


def test_external_data_beside_the_model(tmp_path: Path, check: Verify) -> None:
    paths = []
    for folder, value in (("a", 1), ("b", 1), ("c", 2)):
        model = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21]> g (float[300] x) => (float[300] y) { y = Add(x, w) }'
        )
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.full(300, value, np.float32), "w"))
        paths.append(tmp_path / folder / "model.onnx")
        paths[-1].parent.mkdir()
        onnx.save(model, paths[-1], save_as_external_data=True, location="model.onnx_data", size_threshold=1)
    assert check(paths[0], paths[1]).held == "exact"
    assert check(paths[0], paths[2]).kind == "different"


def test_models_in_the_hubs_cache_are_links(onnx_file: OnnxFile, tmp_path: Path, check: Verify) -> None:
    inline = onnx_file("g (float[300] x) => (float[300] y) { y = Add(x, w) }", w=np.ones(300, np.float32))
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "onnx"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    onnx.save(
        onnx.load(inline),
        blobs / "one",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=1,
    )
    (blobs / "model.onnx_data").rename(blobs / "two")
    (snapshot / "model.onnx").symlink_to(blobs / "one")
    (snapshot / "model.onnx_data").symlink_to(blobs / "two")
    assert check(snapshot / "model.onnx", inline).held == "exact"


def test_progress_and_no_trace_on_disk(
    onnx_file: OnnxFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    from hubpublish.recipe import VerifySpec
    from hubpublish.verify import verify

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    said: list[str] = []
    verify(onnx_file(SUM), onnx_file(CHAIN), spec=VerifySpec(), base_dir=tmp_path, progress=said.append)
    assert said[0] == "running the original model on noise 0, optimizations disabled"
    assert len(said) == 8
    assert list(temporary.iterdir()) == []
