from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from hubpublish.errors import HubpublishError, SourceError, UnsupportedModelError, UsageError
from hubpublish.model import external, load, save, sha256_of
from hubpublish.passes import PASSES
from tests.models.build import assert_runs_same, parse, random_feeds

Model = onnx.ModelProto


def small_model() -> Model:
    return parse("""<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y)
        <float[2] w = {1, 2}> { y = Sum(x, w, w) }""")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes | str], Path]:
    def written(content: bytes | str) -> Path:
        path = tmp_path / "model.onnx"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


# What is not a model


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"garbage that is no protobuf \xff\xfe" * 10,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        b"<!DOCTYPE html><html><body>Not found</body></html>",
        b'{"error": "Repository not found"}',
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        onnx.ModelProto(ir_version=8, producer_name="no graph").SerializeToString(),
        onnx.TensorProto(name="a tensor alone", dims=[1]).SerializeToString(),
    ],
    ids=["empty", "nul", "garbage", "lfs", "html", "json", "png", "no graph", "tensor"],
)
def test_a_file_that_is_no_model_is_refused(content: bytes, write: Callable[[bytes], Path]) -> None:
    path = write(content)
    with pytest.raises(UnsupportedModelError) as caught:
        load(path)
    assert caught.value.where == str(path)
    assert caught.value.hint


def test_a_truncated_model_is_refused(write: Callable[[bytes], Path]) -> None:
    whole = small_model().SerializeToString()
    for length in range(0, len(whole), 7):
        path = write(whole[:length])
        with pytest.raises(HubpublishError):
            save(load(path), path.with_name("out.onnx"))


def test_a_missing_file_and_a_folder_are_source_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(SourceError) as caught:
            load(path)
        assert caught.value.where == str(path)
        assert caught.value.kind == "file_not_found"


def test_an_invalid_graph_is_refused(write: Callable[[bytes], Path]) -> None:
    model = small_model()
    model.graph.node.append(helper.make_node("Relu", ["x"], ["y"]))
    with pytest.raises(UnsupportedModelError, match="redeclared"):
        load(write(model.SerializeToString()))


def test_a_model_without_opset_import_loads_and_saves(write: Callable[[bytes], Path]) -> None:
    model = small_model()
    del model.opset_import[:]
    path = write(model.SerializeToString())
    save(load(path), path)
    assert list(onnx.load(path).opset_import) == []


# Saving


def test_hash_is_that_of_the_bytes(write: Callable[[bytes], Path]) -> None:
    assert sha256_of(write(b"abc")).startswith("ba7816bf8f01cfea")


def test_saving_creates_the_folder_and_leaves_nothing_else(
    write: Callable[[bytes], Path], tmp_path: Path
) -> None:
    saved = save(load(write(small_model().SerializeToString())), tmp_path / "new" / "deep" / "out.onnx")
    assert saved.data is None
    assert [path.name for path in saved.path.parent.iterdir()] == ["out.onnx"]
    ordinary = saved.path.with_name("ordinary")
    ordinary.touch()
    assert stat.S_IMODE(saved.path.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_saving_replaces_a_file_and_not_what_a_link_points_to(
    write: Callable[[bytes], Path], tmp_path: Path
) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(b"of somebody else")
    target = tmp_path / "out.onnx"
    target.symlink_to(blob)
    save(load(write(small_model().SerializeToString())), target)
    assert blob.read_bytes() == b"of somebody else"
    assert not target.is_symlink()


@pytest.mark.parametrize("failing", ["write_bytes", "replace"])
def test_a_failing_save_leaves_the_old_file_and_no_debris(
    failing: str, write: Callable[[bytes], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(write(small_model().SerializeToString()))
    target = tmp_path / "out.onnx"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, failing, full)
    with pytest.raises(UsageError, match="No space left") as caught:
        save(model, target)
    monkeypatch.undo()
    assert caught.value.where == str(target)
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "out.onnx"]


def test_saving_over_a_folder_or_below_a_file_is_a_clear_error(
    write: Callable[[bytes], Path], tmp_path: Path
) -> None:
    source = write(small_model().SerializeToString())
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder", source / "below.onnx"):
        with pytest.raises(UsageError, match="cannot write"):
            save(load(source), target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "model.onnx"]


@pytest.mark.parametrize("name", ["out.onnx", "out.onnx_data"])
def test_what_is_no_file_is_never_replaced(name: str, write: Callable[[bytes], Path], tmp_path: Path) -> None:
    model = load(write(small_model().SerializeToString()))
    os.mkfifo(tmp_path / name)
    (tmp_path / "link.onnx").symlink_to(tmp_path / name)
    for target in ("out.onnx", "link.onnx")[: 1 + (name == "out.onnx")]:
        with pytest.raises(UsageError, match="no file") as caught:
            save(model, tmp_path / target)
        assert caught.value.kind == "cannot_write"
    assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)


def test_a_name_that_is_too_long_is_a_clear_error(write: Callable[[bytes], Path], tmp_path: Path) -> None:
    model = load(write(small_model().SerializeToString()))
    with pytest.raises(UsageError, match="too long"):
        save(model, tmp_path / ("n" * 300))


def test_what_protobuf_cannot_hold_is_refused(
    write: Callable[[bytes], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(write(small_model().SerializeToString()))

    def too_large(*_: object, **__: object) -> bytes:
        raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB")

    monkeypatch.setattr(ir, "to_proto", too_large)
    with pytest.raises(UnsupportedModelError, match="exceeds maximum") as caught:
        save(model, tmp_path / "out.onnx")
    assert "initializers" in (caught.value.hint or "")
    assert not (tmp_path / "out.onnx").exists()


# Tensors of every type


DTYPES = {
    name: number for name, number in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")
}


def tensor_of(dtype: int, name: str, nbytes: int = 48) -> TensorProto:
    bits = ir.DataType(dtype).bitwidth
    raw = bytes(number % 251 if bits != 6 else 0 for number in range(nbytes))
    if dtype == TensorProto.BOOL:
        raw = bytes(number % 2 for number in range(nbytes))
    return TensorProto(name=name, data_type=dtype, dims=[nbytes * 8 // bits], raw_data=raw)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("outside", [False, True], ids=["inline", "external"])
def test_tensors_survive_byte_for_byte(name: str, outside: bool, tmp_path: Path) -> None:
    model = small_model()
    tensor = tensor_of(DTYPES[name], "t", 2400)
    model.graph.initializer.append(tensor)
    model.graph.node.append(helper.make_node("Constant", [], ["k"], value=tensor_of(DTYPES[name], "v")))
    expected = bytes(tensor.raw_data)
    if outside:
        put_outside(tmp_path, model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx")
    saved = onnx.load(tmp_path / "out.onnx")
    assert saved.graph.initializer[1].raw_data == expected
    assert saved.graph.initializer[1].dims == tensor.dims
    assert saved.graph.node[1].attribute[0].t == model.graph.node[1].attribute[0].t


def test_strings_survive_beside_external_data(tmp_path: Path) -> None:
    model = small_model()
    strings = helper.make_tensor("s", TensorProto.STRING, [300], [b"\xff\x00 not text"] * 300)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(600, dtype=np.float32), "big"))
    put_outside(tmp_path, model)
    model.graph.initializer.append(strings)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    saved = save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx")
    assert saved.data is not None
    assert onnx.load(saved.path, load_external_data=False).graph.initializer[2] == strings


# External data


def put_outside(folder: Path, model: Model, location: str = "weights.bin", gap: int = 5) -> None:
    """Move all initializers of the main graph to one file, at odd offsets."""
    with (folder / location).open("wb") as file:
        for tensor in model.graph.initializer:
            content = tensor.raw_data or numpy_helper.to_array(tensor).tobytes()
            file.write(b"\xee" * gap)
            make_external(tensor, location, file.tell())
            tensor.external_data.add(key="length", value=str(len(content)))
            file.write(content)
            for name in ("raw_data", "float_data", "int64_data"):
                tensor.ClearField(name)


def make_external(tensor: TensorProto, location: str, offset: int = 0) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="offset", value=str(offset))


def big_model() -> Model:
    """Two large initializers, a small one, and an empty one."""
    model = parse("""<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[a] y, float[b] z)
        { y = Sum(x, small, small) c = Concat<axis=0>(x, big, empty) z = Add(c, other) }""")
    arrays = {
        "big": np.arange(1000, dtype=np.float32),
        "small": np.array([1, 2], dtype=np.float32),
        "empty": np.zeros(0, dtype=np.float32),
        "other": np.arange(1002, dtype=np.float32)[::-1].copy(),
    }
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


def content_of(tensor: TensorProto, folder: Path) -> bytes:
    """The data of a tensor, wherever it is; onnx's own loader does not look into functions."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor.raw_data or numpy_helper.to_array(tensor).tobytes()
    place = {entry.key: entry.value for entry in tensor.external_data}
    with (folder / place["location"]).open("rb") as file:
        file.seek(int(place["offset"]))
        return file.read(int(place["length"]))


def arrays_of(path: Path) -> dict[str, bytes]:
    model = onnx.load(path, load_external_data=False)
    return {tensor.name: content_of(tensor, path.parent) for tensor in model.graph.initializer}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model with external data, with its plain twin ``plain.onnx`` beside it."""
    model = big_model()
    (tmp_path / "plain.onnx").write_bytes(model.SerializeToString())
    put_outside(tmp_path, model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "model.onnx"


def test_external_data_stays_external(outside: Path) -> None:
    model = load(outside)
    PASSES["sum_to_add"]()(model)
    saved = save(model, outside.with_name("out.onnx"))
    assert saved.data == outside.with_name("out.onnx_data")
    assert saved.data.stat().st_size == 4000 + 8 + 4008
    stored = onnx.load(saved.path, load_external_data=False)
    external_ones = [t.name for t in stored.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    assert external_ones == ["big", "small", "other"]
    assert arrays_of(saved.path) == arrays_of(outside.with_name("plain.onnx"))
    feeds = random_feeds(big_model())
    assert_runs_same(outside, saved.path, feeds)
    assert_runs_same(outside.with_name("plain.onnx"), saved.path, feeds)


def test_external_tensors_keep_documentation_and_metadata(tmp_path: Path) -> None:
    model = big_model()
    for tensor in model.graph.initializer:
        tensor.doc_string = f"about {tensor.name}"
        tensor.metadata_props.add(key="name", value=tensor.name)
    put_outside(tmp_path, model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    saved = save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx")
    stored = onnx.load(saved.path, load_external_data=False).graph.initializer
    for before, after in zip(model.graph.initializer, stored, strict=True):
        assert (after.name, after.doc_string) == (before.name, before.doc_string)
        assert after.metadata_props == before.metadata_props
        assert after.dims == before.dims


def test_data_that_tensors_share_is_written_once(tmp_path: Path) -> None:
    model = big_model()
    put_outside(tmp_path, model)
    twin = model.graph.initializer.add()
    twin.CopyFrom(model.graph.initializer[0])
    twin.name, twin.dims[:] = "twin", [500, 2]
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    saved = save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx")
    assert saved.data is not None
    assert saved.data.stat().st_size == 4000 + 8 + 4008
    assert arrays_of(saved.path)["twin"] == arrays_of(saved.path)["big"]
    stored = onnx.load(saved.path, load_external_data=False).graph.initializer
    assert list(stored[4].dims) == [500, 2]


def test_an_offset_or_a_length_may_be_left_out(tmp_path: Path) -> None:
    model = big_model()
    tensor = model.graph.initializer[0]
    (tmp_path / "one.bin").write_bytes(tensor.raw_data + b"more")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="one.bin")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    saved = save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx")
    assert arrays_of(saved.path)["big"] == np.arange(1000, dtype=np.float32).tobytes()


def test_saving_over_the_file_that_was_loaded(outside: Path) -> None:
    expected = arrays_of(outside.with_name("plain.onnx"))
    (outside.parent / "weights.bin").rename(outside.with_name("model.onnx_data"))
    proto = onnx.load(outside, load_external_data=False)
    for tensor in proto.graph.initializer:
        tensor.external_data[0].value = "model.onnx_data"
    outside.write_bytes(proto.SerializeToString())
    model = load(outside)
    first = save(model, outside)
    assert arrays_of(first.path) == expected
    # The offsets have changed under the loaded model; it must not read the new file at the old ones.
    for _ in range(2):
        assert arrays_of(save(model, outside).path) == expected
    assert arrays_of(save(model, outside.with_name("again.onnx")).path) == expected


def test_the_model_is_the_same_after_a_save(outside: Path) -> None:
    model = load(outside)
    first, second = (save(model, outside.with_name(name)) for name in ("a.onnx", "b.onnx"))
    assert first.data is not None
    assert second.data is not None
    assert first.data.read_bytes() == second.data.read_bytes()
    tensor = model.graph.initializers["big"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert os.fspath(tensor.path) == str(outside.with_name("weights.bin"))


@pytest.mark.parametrize("calls_before_failure", [0, 1], ids=["data", "model"])
def test_a_failing_save_leaves_the_old_pair_of_files(
    calls_before_failure: int, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = outside.with_name("out.onnx")
    model = load(outside)
    save(model, target)
    before = {path.name: path.read_bytes() for path in outside.parent.iterdir()}
    model.graph.name = "changed"
    model.graph.initializers["small"].const_value = ir.Tensor(
        np.array([9, 9], dtype=np.float32), name="small"
    )
    replace, calls = Path.replace, []

    def fails(self: Path, to: Path) -> Path:
        calls.append(to)
        if len(calls) == calls_before_failure + 1:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(UsageError):
        save(model, target)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in outside.parent.iterdir()} == before


def test_a_first_save_that_fails_leaves_no_data_behind(outside: Path) -> None:
    (outside.parent / "out.onnx").mkdir()
    before = sorted(path.name for path in outside.parent.iterdir())
    with pytest.raises(UsageError):
        save(load(outside), outside.parent / "out.onnx")
    assert sorted(path.name for path in outside.parent.iterdir()) == before


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symlink", "hard link"])
def test_data_behind_links_is_read(link: Callable[[Path, Path], None], outside: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "cache" / "blob"
    elsewhere.parent.mkdir()
    (tmp_path / "weights.bin").rename(elsewhere)
    link(elsewhere, tmp_path / "weights.bin")
    saved = save(load(outside), tmp_path / "out" / "out.onnx")
    assert arrays_of(saved.path) == arrays_of(outside.with_name("plain.onnx"))


def test_data_in_a_folder_below_is_read(tmp_path: Path) -> None:
    model = big_model()
    expected = {t.name: numpy_helper.to_array(t).tobytes() for t in model.graph.initializer}
    (tmp_path / "deep").mkdir()
    put_outside(tmp_path, model, "deep/weights.bin")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert arrays_of(save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx").path) == expected


@pytest.mark.parametrize(
    "location",
    [
        "",
        "/etc/passwd",
        "../weights.bin",
        "a/../../x",
        "..",
        "C:\\x",
        "C:x",
        "\\\\server\\x",
        "..\\x",
        "\\x",
        "a\\..\\x",
        "sub\\x",
        ".",
        "nul\0byte",
    ],
)
def test_a_location_outside_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    model = big_model()
    make_external(model.graph.initializer[0], location)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(SourceError) as caught:
        load(tmp_path / "model.onnx")
    assert caught.value.kind == "external_data_location"
    assert repr(location) in caught.value.what


def damaged(outside: Path, **values: str) -> Path:
    model = onnx.load(outside, load_external_data=False)
    entries = {entry.key: entry for entry in model.graph.initializer[0].external_data}
    for key, value in values.items():
        entries[key].value = value
    outside.write_bytes(model.SerializeToString())
    return outside


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"location": "none.bin"}, "external_data_missing"),
        ({"location": "n" * 5000}, "external_data_missing"),
        ({"offset": "999999"}, "external_data_truncated"),
        ({"length": "16"}, "external_data_invalid"),
        ({"length": "4004"}, "external_data_invalid"),
    ],
    ids=str,
)
def test_data_that_is_not_there_is_a_source_error(values: dict[str, str], kind: str, outside: Path) -> None:
    with pytest.raises(SourceError, match="'big'") as caught:
        load(damaged(outside, **values))
    assert caught.value.kind == kind


def test_truncated_data_is_a_source_error(outside: Path) -> None:
    os.truncate(outside.with_name("weights.bin"), 6000)
    with pytest.raises(SourceError, match="'other' ends too early"):
        load(outside)


@pytest.mark.parametrize("offset", ["many", "-4"])
def test_an_offset_that_cannot_be_is_refused(offset: str, outside: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"not valid: .*{offset}"):
        load(damaged(outside, offset=offset))


def test_external_strings_are_refused(outside: Path) -> None:
    model = onnx.load(outside, load_external_data=False)
    model.graph.initializer[0].data_type = TensorProto.STRING
    outside.write_bytes(model.SerializeToString())
    with pytest.raises(SourceError, match="strings"):
        load(outside)


IN_SCOPES = """<ir_version: 8, opset_import: ["": 13, "local": 1]>
    g (bool c, float[2] x) => (float[2] y, float[2] z) {
        y = If(c) <
            then_branch = t () => (float[2] a) <float[2] w = {0, 10}> { a = Add(x, w) },
            else_branch = u () => (float[2] b) { k = Constant<value = float[2] {1, 10}>() b = Add(x, k) }
        >
        z = local.F(c, x)
    }
    <domain: "local", opset_import: ["": 13]> F (c, x) => (y) {
        y = If(c) <
            then_branch = t () => (float[2] a) { k = Constant<value = float[2] {2, 10}>() a = Add(x, k) },
            else_branch = u () => (float[2] b) <float[2] w = {3, 10}> { b = Add(x, w) }
        >
    }"""


def tensors_in_scopes(model: Model) -> list[TensorProto]:
    in_main, in_function = model.graph.node[0].attribute, model.functions[0].node[0].attribute
    return [
        in_main[0].g.initializer[0],
        in_main[1].g.node[0].attribute[0].t,
        in_function[0].g.node[0].attribute[0].t,
        in_function[1].g.initializer[0],
    ]


def model_with_data_in_scopes(folder: Path) -> Path:
    model = parse(IN_SCOPES)
    (folder / "plain.onnx").write_bytes(model.SerializeToString())
    with (folder / "weights.bin").open("wb") as file:
        for tensor in tensors_in_scopes(model):
            content = numpy_helper.to_array(tensor).tobytes()
            make_external(tensor, "weights.bin", file.tell())
            tensor.ClearField("float_data")
            file.write(content)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def test_data_of_bodies_functions_and_constants_is_found(tmp_path: Path) -> None:
    saved = save(load(model_with_data_in_scopes(tmp_path)), tmp_path / "out.onnx")
    plain = tensors_in_scopes(onnx.load(tmp_path / "plain.onnx"))
    stored = tensors_in_scopes(onnx.load(saved.path, load_external_data=False))
    assert [content_of(each, tmp_path) for each in stored] == [content_of(each, tmp_path) for each in plain]
    assert [each.data_location for each in stored] == [1, 0, 0, 1]
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.array([1, 2], dtype=np.float32)}
        assert_runs_same(tmp_path / "plain.onnx", saved.path, feeds)


@pytest.mark.parametrize("number", range(4))
def test_locations_are_checked_in_every_scope(number: int, tmp_path: Path) -> None:
    path = model_with_data_in_scopes(tmp_path)
    model = onnx.load(path, load_external_data=False)
    make_external(tensors_in_scopes(model)[number], "../secret")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(SourceError) as caught:
        load(path)
    assert caught.value.kind == "external_data_location"


def test_lists_of_tensors_are_found(tmp_path: Path) -> None:
    model = parse(
        '<ir_version: 8, opset_import: ["": 13, "c": 1]> g (float[2] x) => (float[2] y) { y = c.Op(x) }'
    )
    tensors = [tensor_of(TensorProto.FLOAT, "a"), tensor_of(TensorProto.INT4, "b")]
    (tmp_path / "w.bin").write_bytes(tensors[0].raw_data)
    outside = TensorProto.FromString(tensors[0].SerializeToString())
    outside.ClearField("raw_data")
    make_external(outside, "w.bin")
    model.graph.node[0].attribute.append(helper.make_attribute("ts", [outside, tensors[1]], "about ts"))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    saved = onnx.load(save(load(tmp_path / "model.onnx"), tmp_path / "out.onnx").path)
    assert list(saved.graph.node[0].attribute[0].tensors) == tensors
    assert saved.graph.node[0].attribute[0].doc_string == "about ts"


# Files that would be too large


def test_a_file_that_would_be_too_large_gets_external_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.onnx").write_bytes(big_model().SerializeToString())
    monkeypatch.setattr(external, "INLINE_LIMIT", 8016)
    assert save(load(tmp_path / "plain.onnx"), tmp_path / "fits.onnx").data is None
    monkeypatch.setattr(external, "INLINE_LIMIT", 8015)
    saved = save(load(tmp_path / "plain.onnx"), tmp_path / "out.onnx")
    assert saved.data is not None
    stored = onnx.load(saved.path, load_external_data=False).graph.initializer
    assert [t.name for t in stored if t.data_location == TensorProto.EXTERNAL] == ["big", "other"]
    assert arrays_of(saved.path) == arrays_of(tmp_path / "plain.onnx")
    assert_runs_same(tmp_path / "plain.onnx", saved.path, random_feeds(big_model()))


def test_strings_stay_inside_however_large_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = big_model()
    strings = helper.make_tensor("s", TensorProto.STRING, [300], [b"some text"] * 300)
    model.graph.initializer.append(strings)
    (tmp_path / "plain.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(external, "INLINE_LIMIT", 1)
    saved = save(load(tmp_path / "plain.onnx"), tmp_path / "out.onnx")
    assert saved.data is not None
    assert onnx.load(saved.path, load_external_data=False).graph.initializer[4] == strings


def test_constants_count_towards_what_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = big_model()
    model.graph.node.append(helper.make_node("Constant", [], ["k"], value=tensor_of(TensorProto.FLOAT, "v")))
    (tmp_path / "plain.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(external, "INLINE_LIMIT", 8016)
    assert save(load(tmp_path / "plain.onnx"), tmp_path / "out.onnx").data is not None


def test_the_limit_leaves_room_for_the_graph() -> None:
    assert external.INLINE_LIMIT < external.PROTOBUF_LIMIT == 2**31 - 1
