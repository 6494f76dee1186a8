from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from hubpublish.devices import PROFILES, Device
from hubpublish.errors import DeviceFitError, SourceError, UsageError
from hubpublish.passes import PASSES, RewritePass
from hubpublish.rewrite import rewrite
from tests.errors import error_of
from tests.publication import SMALL, model_bytes

MIN = Device(PROFILES["webgpu-min"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes())
    return path


def every() -> list[RewritePass]:  # type: ignore[type-arg]
    return [each() for each in PASSES.values()]


def test_measures_before_and_after(source: Path, tmp_path: Path) -> None:
    done = rewrite(source, tmp_path / "out.onnx", every(), MIN)
    assert done.saved.path == tmp_path / "out.onnx"
    assert done.saved.data is None
    assert [outcome.name for outcome in done.outcomes] == list(PASSES)
    assert (done.before.nodes, done.after.nodes) == (8, 16)
    assert (done.before.ops["Sum"], done.after.ops.get("Sum")) == (1, None)
    assert done.inspection_before is not None
    assert not done.inspection_before.fit
    assert done.inspection is not None
    assert done.inspection.fit
    onnx.checker.check_model(onnx.load(done.saved.path), full_check=True)


def test_without_a_profile_fits_nothing(source: Path, tmp_path: Path) -> None:
    done = rewrite(source, tmp_path / "out.onnx", [])
    assert (done.inspection_before, done.inspection) == (None, None)
    assert done.saved.path.exists()


def test_leaves_the_source_as_it_is(source: Path, tmp_path: Path) -> None:
    rewrite(source, tmp_path / "out.onnx", every())
    assert source.read_bytes() == model_bytes()


def test_gives_the_same_bytes_each_time(source: Path, tmp_path: Path) -> None:
    files = [rewrite(source, tmp_path / f"{n}" / "out.onnx", every(), MIN).saved.path for n in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("where", ["initializer", "constant"])
@pytest.mark.parametrize("name", ["weights.onnx", "weights.onnx_data"])
def test_never_replaces_the_data_of_its_source(where: str, name: str, tmp_path: Path) -> None:
    tensor = onnx.numpy_helper.from_array(np.ones(400, np.float32), "w")
    onnx.external_data_helper.set_external_data(tensor, name)
    (tmp_path / name).write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    constant = onnx.helper.make_node("Constant", [], ["w"], value=tensor)
    graph = onnx.helper.make_graph(
        [constant] * (where == "constant"),
        "g",
        [],
        [onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [400])],
        [tensor] * (where == "initializer"),
    )
    source = tmp_path / "model.onnx"
    source.write_bytes(onnx.helper.make_model(graph, ir_version=10).SerializeToString())
    with pytest.raises(UsageError, match="would replace the data") as caught:
        rewrite(source, tmp_path / "weights.onnx", every())
    assert caught.value.where == str(tmp_path / name)
    assert (tmp_path / name).read_bytes() == np.ones(400, np.float32).tobytes()


class TestWhatDoesNotFit:
    def test_is_not_written(self, source: Path, tmp_path: Path) -> None:
        target = tmp_path / "out.onnx"
        target.write_bytes(b"before")
        error_of(DeviceFitError, lambda: rewrite(source, target, [], MIN))
        assert target.read_bytes() == b"before"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "out.onnx"]

    def test_is_named_with_what_would_help(self, source: Path, tmp_path: Path) -> None:
        error = error_of(DeviceFitError, lambda: rewrite(source, tmp_path / "out.onnx", [], MIN))
        assert error.exit_code == 4
        assert error.what == (
            "2 nodes bind more storage buffers than webgpu-min grants: "
            "Split cut in main binds 10, 8 granted; Concat join in main binds 10, 8 granted"
        )
        assert error.hint == "add the passes concat_tree, split_tree, or name a device that grants more"
        assert [node["node"] for node in error.details["nodes"]] == ["cut", "join"]  # type: ignore[attr-defined]

    def test_because_of_options_says_so(self, source: Path, tmp_path: Path) -> None:
        passes = [
            PASSES["concat_tree"](PASSES["concat_tree"].Options(max_inputs=20)),  # type: ignore[call-arg]
            PASSES["split_tree"](),
        ]
        error = error_of(DeviceFitError, lambda: rewrite(source, tmp_path / "out.onnx", passes, MIN))
        assert error.what.startswith("1 node binds more storage buffers than webgpu-min grants: Concat join")
        assert "max_inputs" in str(error.hint)

    def test_names_five_and_counts_the_rest(self, tmp_path: Path) -> None:
        # Each of other inputs: of equal nodes the runtime keeps one.
        concat = "[{name}] c{name} = Concat <axis = 0> (n{name}, x, x, x, x, x, x, x)"
        names = [f"n{number}" for number in range(8)]
        negated = [f"n{name} = Neg ({f'n{names[at - 1]}' if at else 'x'})" for at, name in enumerate(names)]
        nodes = "\n".join([*negated, *(concat.format(name=name) for name in names)])
        text = f'<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[16] cn0) {{ {nodes} }}'
        source = tmp_path / "many.onnx"
        source.write_bytes(model_bytes(text))
        error = error_of(DeviceFitError, lambda: rewrite(source, tmp_path / "out.onnx", [], MIN))
        assert re.match("8 nodes bind .*Concat n4 in main binds 9, 8 granted; and 3 more$", error.what)
        assert len(error.details["nodes"]) == 8  # type: ignore[arg-type]

    def test_says_why_a_pass_left_it_alone(self, tmp_path: Path) -> None:
        text = SMALL.replace("(float[2,18] x)", "(float[2,18] x, int64[9] sizes)")
        text = text.replace("<axis = 1> (x)", "<axis = 1> (x, sizes)")
        source = tmp_path / "model.onnx"
        source.write_bytes(model_bytes(text))
        error = error_of(DeviceFitError, lambda: rewrite(source, tmp_path / "out.onnx", every(), MIN))
        assert re.search(
            r"Split cut in main binds 10, 8 granted \(split_tree left it alone: its sizes .*\)", error.what
        )


def test_a_missing_source(tmp_path: Path) -> None:
    error = error_of(SourceError, lambda: rewrite(tmp_path / "none.onnx", tmp_path / "out.onnx", []))
    assert error.exit_code == 3
    assert not (tmp_path / "out.onnx").exists()
