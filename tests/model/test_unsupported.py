from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import AttributeProto, StringStringEntryProto, TensorProto, helper

from hubpublish.errors import UnsupportedModelError
from hubpublish.model import load
from tests.models.build import parse, rewrite
from tests.models.rich import rich_model

Model = onnx.ModelProto


def model_with_scopes() -> Model:
    """A main graph, a body in it, a function, and a body in that."""
    return parse("""<ir_version: 8, opset_import: ["": 13, "l": 1]>
        g (bool c, float[2] x) => (float[2] y) {
            [branch] h = If(c) <then_branch = t () => (float[2] a) { [n1] a = Relu(x) },
                                else_branch = e () => (float[2] b) { b = Neg(x) }>
            y = l.F(c, h)
        }
        <domain: "l", opset_import: ["": 13]> F (c, x) => (y) {
            [n2] z = Relu(x)
            [inner] y = If(c) <then_branch = t () => (float[2] a) { [n3] a = Relu(z) },
                               else_branch = e () => (float[2] b) { b = Neg(z) }>
        }""")


def graphs_with_labels(model: Model) -> dict[str, onnx.GraphProto]:
    return {
        "main": model.graph,
        "main/branch.then_branch": model.graph.node[0].attribute[0].g,
        "l::F/inner.then_branch": model.functions[0].node[1].attribute[0].g,
    }


def nodes_with_labels(model: Model) -> dict[str, onnx.NodeProto]:
    return {
        "main/branch": model.graph.node[0],
        "main/branch.then_branch/n1": graphs_with_labels(model)["main/branch.then_branch"].node[0],
        "l::F/n2": model.functions[0].node[0],
        "l::F/inner.then_branch/n3": graphs_with_labels(model)["l::F/inner.then_branch"].node[0],
    }


def sparse() -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        helper.make_tensor("sparse_weight", TensorProto.FLOAT, [1], [1]),
        helper.make_tensor("indices", TensorProto.INT64, [1], [0]),
        [2],
    )


def refused(model: Model) -> UnsupportedModelError:
    with pytest.raises(UnsupportedModelError) as caught:
        rewrite(model)
    assert caught.value.hint
    return caught.value


def test_the_model_itself_is_fine() -> None:
    rewrite(model_with_scopes())


@pytest.mark.parametrize("scope", list(graphs_with_labels(model_with_scopes())))
def test_sparse_initializers_are_refused_in_every_scope(scope: str) -> None:
    model = model_with_scopes()
    graphs_with_labels(model)[scope].sparse_initializer.append(sparse())
    error = refused(model)
    assert error.details["found"] == [f"sparse initializer 'sparse_weight' in {scope}"]
    assert "make sparse tensors dense" in str(error.hint)


@pytest.mark.parametrize("node", list(nodes_with_labels(model_with_scopes())))
@pytest.mark.parametrize("values", [sparse(), [sparse()]], ids=["one", "list"])
def test_sparse_attributes_are_refused_in_every_scope(node: str, values: object) -> None:
    model = model_with_scopes()
    nodes_with_labels(model)[node].attribute.append(helper.make_attribute("s", values))
    assert refused(model).details["found"] == [f"sparse tensor {node}.s"]


def test_sparse_defaults_of_functions_are_refused() -> None:
    model = model_with_scopes()
    model.functions[0].attribute_proto.append(helper.make_attribute("s", sparse()))
    assert refused(model).details["found"] == ["sparse tensor l::F.s"]


def test_training_information_is_refused() -> None:
    model = model_with_scopes()
    model.training_info.add().algorithm.name = "sgd"
    error = refused(model)
    assert error.details["found"] == ["training_info (1)"]
    assert error.hint == "export the model for inference"


def test_everything_that_is_found_is_named() -> None:
    model = model_with_scopes()
    model.training_info.add()
    for graph in graphs_with_labels(model).values():
        graph.sparse_initializer.append(sparse())
    error = refused(model)
    found = error.details["found"]
    assert isinstance(found, list)
    assert len(found) == 4
    assert all(name in str(error) for name in found)
    assert "; " in str(error.hint)


def test_a_long_list_is_cut_in_the_message_only() -> None:
    model = model_with_scopes()
    model.graph.sparse_initializer.extend([sparse()] * 100)
    error = refused(model)
    assert str(error).endswith(" and 90 more")
    assert len(error.details["found"]) == 100  # type: ignore[arg-type]


def change(function: Callable[[Model], object]) -> Callable[[Model], object]:
    return function


def _map_type() -> onnx.TypeProto:
    type_ = onnx.TypeProto()
    type_.map_type.key_type = TensorProto.INT64
    type_.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    return type_


def _opaque_type() -> onnx.TypeProto:
    type_ = onnx.TypeProto()
    type_.opaque_type.name = "thing"
    return type_


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda m: m.graph.initializer.add(data_type=1), "initializer 0 in main, which has no name"),
        (lambda m: m.graph.initializer.add(name="w"), "element type 0"),
        (lambda m: m.graph.initializer.add(name="w", data_type=99), "element type 99"),
        (lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2, -3]), "of the shape [2, -3]"),
        *(
            (
                lambda m, tensor=tensor: m.graph.initializer.append(tensor),
                f"initializer 'w' in main whose data does not fit its type and shape {list(tensor.dims)}",
            )
            for tensor in (
                TensorProto(name="w", data_type=7, dims=[2], raw_data=bytes(15)),
                TensorProto(name="w", data_type=7, dims=[2], raw_data=bytes(24)),
                TensorProto(name="w", data_type=7, dims=[2], int64_data=[1]),
                TensorProto(name="w", data_type=7, dims=[2], float_data=[1, 2]),
                TensorProto(name="w", data_type=7),
                TensorProto(name="w", data_type=1, dims=[2**62, 2**62]),
                TensorProto(name="w", data_type=8, dims=[2], string_data=[b"a"]),
                TensorProto(name="w", data_type=14, dims=[2], float_data=[1, 2]),
                TensorProto(name="w", data_type=22, dims=[3], raw_data=bytes(3)),
            )
        ),
        (
            lambda m: m.graph.initializer.add(
                name="w", data_type=1, external_data=[StringStringEntryProto(key="location", value="x")] * 2
            ),
            "initializer 'w' in main with its place given twice",
        ),
        (
            lambda m: m.graph.node[0].attribute.append(
                helper.make_attribute("t", TensorProto(name="t", data_type=77))
            ),
            "tensor main/branch.t of element type 77",
        ),
        (
            lambda m: m.graph.node[0].attribute.add(name="old", i=3),
            "attribute main/branch.old without a type",
        ),
        (
            lambda m: (
                m.functions[0].node[0].attribute.extend([AttributeProto(name="twice", i=3, type=2)] * 2)
            ),
            "a second attribute l::F/n2.twice",
        ),
        (lambda m: m.functions.append(m.functions[0]), "2 functions named l::F"),
        (
            lambda m: m.functions[0].attribute_proto.append(
                helper.make_attribute("g", onnx.GraphProto(name="b"))
            ),
            "default graph of attribute 'g' of l::F",
        ),
        (lambda m: m.graph.output[0].type.CopyFrom(_map_type()), "value 'y' in main of map type"),
        (lambda m: m.graph.output[0].type.CopyFrom(_opaque_type()), "value 'y' in main of opaque type"),
        (
            lambda m: m.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(_map_type())),
            "value 'y' in main of map type",
        ),
        (
            lambda m: m.graph.node[0].attribute.append(helper.make_attribute("t", _opaque_type())),
            "type main/branch.t of opaque type",
        ),
        (lambda m: m.configuration.add(name="two", num_devices=2), "device configurations in IR version 8"),
        (
            lambda m: m.functions[0].node[0].device_configurations.add(configuration_id="two"),
            "device configurations in IR version 8",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_be_lost_is_refused(spoil: Callable[[Model], object], found: str) -> None:
    model = model_with_scopes()
    spoil(model)
    assert found in str(refused(model))


UNKNOWN = bytes([0xA2, 0x06, 0x01, 0x78])  # field 100, a string


@pytest.mark.parametrize("place", ["model", "graph", "node", "bare node", "attribute", "function", "value"])
def test_fields_of_a_newer_format_are_refused(place: str) -> None:
    model = model_with_scopes()
    message = {
        "model": model,
        "graph": model.graph,
        "node": model.graph.node[0],
        "bare node": model.functions[0].node[0],
        "attribute": model.graph.node[0].attribute[0],
        "function": model.functions[0],
        "value": model.graph.output[0],
    }[place]
    message.MergeFromString(UNKNOWN)
    error = refused(model)
    assert "[100]" in str(error)
    assert "newer" in str(error.hint)


def test_nothing_of_a_valid_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(rich_model().SerializeToString())
    load(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="w", data_type=7, dims=[2], int64_data=[1, 2]),
        TensorProto(name="w", data_type=7, raw_data=bytes(8)),
        TensorProto(name="w", data_type=7, dims=[0, 5]),
        TensorProto(name="w", data_type=8, dims=[2], string_data=[b"a", b""]),
        TensorProto(name="w", data_type=9, dims=[2], int32_data=[0, 1]),
        TensorProto(name="w", data_type=10, dims=[2], int32_data=[0, 1]),
        TensorProto(name="w", data_type=14, dims=[2], float_data=[1, 2, 3, 4]),
        TensorProto(name="w", data_type=22, dims=[3], raw_data=bytes(2)),
        TensorProto(name="w", data_type=22, dims=[3], int32_data=[1, 2]),
    ],
    ids=lambda tensor: f"{tensor.data_type} {list(tensor.dims)}",
)
def test_every_form_of_data_is_taken(tensor: TensorProto) -> None:
    model = model_with_scopes()
    model.graph.initializer.append(tensor)
    rewrite(model)
