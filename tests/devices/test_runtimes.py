from __future__ import annotations

import json
from importlib.metadata import version

import onnx
import pytest

from hubpublish.devices.refresh import read_plugin, written
from hubpublish.devices.runtimes import TABLES, Kernel, all_runtimes, read_runtime, runtime_names
from hubpublish.errors import UsageError


def test_every_release_is_there_oldest_first() -> None:
    assert runtime_names() == ("web-1.22", "web-1.23", "web-1.24", "web-1.26", "web-1.30", "native-0.4.0")
    with pytest.raises(KeyError):
        read_runtime("web-1.31")


@pytest.mark.parametrize("name", runtime_names())
def test_tables_name_operators_that_exist_with_one_line_each(name: str) -> None:
    runtime = read_runtime(name)
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    plain = {op for op in runtime.kernels if "::" not in op}
    assert plain - known <= {"SimplifiedLayerNormalization"}
    named = {each.op for each in runtime.failures} | runtime.splits_itself | runtime.limits.keys()
    assert named | runtime.changes_layout | runtime.cpu_kernels.keys() <= known | runtime.kernels.keys()
    assert runtime.first_opset == 7
    text = (TABLES / f"{name}.json").read_text("utf-8")
    assert text == written(json.loads(text))


@pytest.mark.parametrize("name", runtime_names())
def test_what_is_not_read_from_a_runtime_says_where_it_comes_from(name: str) -> None:
    data = json.loads((TABLES / f"{name}.json").read_text("utf-8"))
    assert data["source"]
    if "based_on" in data:
        assert all(entry["source"] for entry in data["kernels"].values())
        assert read_runtime(name).believed("Relu")
        assert not read_runtime(name).believed("Split")
    assert all(failure["source"] for failure in data["failures"])


def test_a_kernel_without_an_end_fits_the_version_it_begins_with() -> None:
    (kernel,) = read_runtime("native-0.4.0").kernels["Not"]
    assert (kernel.first, kernel.last) == (1, 1)


def test_changes_stand_for_what_they_are_based_on() -> None:
    native, web = read_runtime("native-0.4.0"), read_runtime("web-1.23")
    assert "GridSample" in native.kernels
    assert "GridSample" not in web.kernels
    assert web.kernels["Relu"] == native.kernels["Relu"]
    assert web.signatures == native.signatures
    assert (web.cpu_kernels, web.changes_layout) == (native.cpu_kernels, native.changes_layout)


def test_entries_of_a_table() -> None:
    kernel = Kernel.parse(["11-13", {"T": "float int32"}])
    assert (kernel.first, kernel.last, kernel.types) == (11, 13, {"T": frozenset({"float", "int32"})})
    assert Kernel.parse(["7", {}]).last == 7


def test_no_runtime_has_a_kernel_for_int64_arithmetic() -> None:
    for runtime in all_runtimes():
        for op in ("Add", "Clip", "Slice", "Concat", "Where"):
            assert all("int64" not in each.types["T"] for each in runtime.kernels[op])


def test_the_native_table_is_the_plugins() -> None:
    pytest.importorskip("onnxruntime_ep_webgpu")
    if version("onnxruntime-ep-webgpu") != "0.4.0":
        pytest.skip("another version of the plugin")
    stored = json.loads((TABLES / "native-0.4.0.json").read_text("utf-8"))
    try:
        read = read_plugin()
    except UsageError as error:
        pytest.skip(str(error))
    for key in ("kernels", "signatures", "cpu_kernels", "changes_layout"):
        assert stored[key] == read[key]
