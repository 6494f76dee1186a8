from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hubpublish.errors import SourceError
from hubpublish.source import external_locations


def tensor(location: str | None, name: str = "w") -> onnx.TensorProto:
    made = numpy_helper.from_array(np.zeros(4, np.float32), name)
    made.ClearField("raw_data")
    made.data_location = TensorProto.EXTERNAL
    if location is not None:
        made.external_data.add(key="location", value=location)
    return made


def model(*initializers: onnx.TensorProto, nodes: tuple[onnx.NodeProto, ...] = ()) -> onnx.ModelProto:
    output = helper.make_tensor_value_info("y", 1, None)
    return helper.make_model(helper.make_graph(list(nodes), "g", [], [output], list(initializers)))


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def constant(location: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [location], value=tensor(location))


def body(location: str) -> onnx.GraphProto:
    return helper.make_graph(
        [constant(location)], "body", [], [helper.make_tensor_value_info(location, 1, None)]
    )


def test_initializers(tmp_path: Path) -> None:
    made = model(tensor("model.onnx_data"), tensor("./sub/more.bin", "v"), tensor("model.onnx_data", "u"))
    assert external_locations(saved(made, tmp_path), "m") == {"model.onnx_data", "sub/more.bin"}


def test_every_other_place_that_holds_a_tensor(tmp_path: Path) -> None:
    branch = helper.make_node("If", ["c"], ["y"], then_branch=body("then"), else_branch=body("else"))
    sparse = onnx.SparseTensorProto(values=tensor("values"), indices=tensor("indices"), dims=[4])
    node = helper.make_node("Constant", [], ["s"], sparse_value=sparse)
    made = model(nodes=(branch, node))
    made.graph.sparse_initializer.append(
        onnx.SparseTensorProto(values=tensor("sparse"), indices=tensor("rows"))
    )
    opset = [helper.make_opsetid("", 17)]
    made.functions.append(helper.make_function("d", "F", [], ["f"], [constant("function")], opset))
    made.training_info.append(onnx.TrainingInfoProto(algorithm=body("training")))
    places = {"then", "else", "values", "indices", "sparse", "rows", "function", "training"}
    assert external_locations(saved(made, tmp_path), "m") == places


def test_a_model_without_external_data_has_none(tmp_path: Path) -> None:
    made = model(numpy_helper.from_array(np.zeros(4, np.float32), "w"))
    assert external_locations(saved(made, tmp_path), "m") == frozenset()


def test_no_external_file_is_needed(tmp_path: Path) -> None:
    assert external_locations(saved(model(tensor("absent.bin")), tmp_path), "m") == {"absent.bin"}


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../secret",
        "a/../../secret",
        "a/..",
        "..",
        "..\\secret",
        "a\\..\\..\\secret",
        "sub\\data.bin",
        "\\\\server\\share",
        "C:\\data.bin",
        "C:data.bin",
        "c:/data.bin",
        "",
        ".",
        "a\0b",
        None,
    ],
)
def test_a_location_outside_of_the_folder_is_refused(tmp_path: Path, location: str | None) -> None:
    path = saved(model(tensor(location)), tmp_path)
    with pytest.raises(SourceError) as caught:
        external_locations(path, "alice/m/onnx/model.onnx")
    assert caught.value.kind == "external_data_location"
    assert caught.value.exit_code == 3
    assert caught.value.where == "alice/m/onnx/model.onnx"


def test_a_second_location_of_the_same_tensor_does_not_hide(tmp_path: Path) -> None:
    made = tensor("model.onnx_data")
    made.external_data.add(key="location", value="../secret")
    with pytest.raises(SourceError):
        external_locations(saved(model(made), tmp_path), "m")


def test_what_is_no_model_is_left_to_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert external_locations(path, "m") == frozenset()
