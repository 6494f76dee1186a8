"""A model that sets every field that ONNX's format has, but for those that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, helper

#: Fields that no model here sets: they are refused, or tell of external data, which has its own tests.
NOT_SET = {
    "AttributeProto.sparse_tensor",
    "AttributeProto.sparse_tensors",
    "GraphProto.sparse_initializer",
    "ModelProto.training_info",
    "SparseTensorProto.*",
    "TensorProto.data_location",
    "TensorProto.external_data",
    "TrainingInfoProto.*",
    "TypeProto.map_type",
    "TypeProto.opaque_type",
    "Map.*",
    "Opaque.*",
}


def rich_model(ir_version: int = 13, opset: int = 21) -> onnx.ModelProto:
    """See the module; two nodes are ONNX's own, the others of a domain that nobody implements."""
    model = onnx.ModelProto(
        ir_version=ir_version,
        producer_name="producer",
        producer_version="1.2",
        domain="org.example",
        model_version=7,
        doc_string="a model",
        opset_import=[
            helper.make_opsetid("", opset),
            helper.make_opsetid("custom", 3),
            helper.make_opsetid("local", 1),
        ],
    )
    _describe(model.metadata_props)
    model.graph.CopyFrom(_graph())
    model.functions.append(_function(opset, with_value_info=ir_version >= 10))
    if ir_version >= 11:
        model.configuration.add(name="two", num_devices=2, device=["a", "b"])
        _spread(model.graph.node[0])
    return model


def fields_of(descriptor: Any, seen: set[str] | None = None) -> Iterator[str]:
    """``Message.field`` for all that a message can hold."""
    seen = set() if seen is None else seen
    if descriptor.name in seen:
        return
    seen.add(descriptor.name)
    for field in descriptor.fields:
        yield f"{descriptor.name}.{field.name}"
        if field.message_type:
            yield from fields_of(field.message_type, seen)


def fields_set(message: Any) -> Iterator[str]:
    """``Message.field`` for all that a message does hold."""
    for field, value in message.ListFields():
        yield f"{message.DESCRIPTOR.name}.{field.name}"
        if field.message_type:
            for each in value if field.is_repeated else [value]:
                yield from fields_set(each)


def normalized(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose lists without an order are sorted."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    _sort(copy)
    return copy


def _sort(message: Any) -> None:
    for field, value in message.ListFields():
        if not field.message_type:
            continue
        for each in value if field.is_repeated else [value]:
            _sort(each)
        if field.name in ("metadata_props", "quant_parameter_tensor_names"):
            value.sort(key=lambda entry: entry.key)
        elif field.name == "value_info":
            value.sort(key=lambda info: info.name)
        elif field.name == "quantization_annotation":
            value.sort(key=lambda annotation: annotation.tensor_name)


def _describe(props: Any, **more: str) -> None:
    for key, value in {"note": "kept", "a": "b", **more}.items():
        props.add(key=key, value=value)


def _info(name: str, type_: onnx.TypeProto | None = None, doc: str = "") -> onnx.ValueInfoProto:
    info = helper.make_value_info(name, type_ or _tensor_type(), doc or f"about {name}")
    _describe(info.metadata_props, name=name)
    return info


def _tensor_type() -> onnx.TypeProto:
    type_ = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 4, None])
    type_.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    type_.tensor_type.shape.dim[2].denotation = "DATA_CHANNEL"
    type_.denotation = "TENSOR"
    return type_


def _sequence_type() -> onnx.TypeProto:
    type_ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [1, "M"]))
    type_.denotation = "IMAGE"
    return type_


def _graph() -> onnx.GraphProto:
    graph = onnx.GraphProto(name="main graph", doc_string="a graph")
    _describe(graph.metadata_props)
    graph.input.extend(
        [
            _info("x"),
            _info("sequence", _sequence_type()),
            _info("optional", helper.make_optional_type_proto(_tensor_type())),
            _info("sparse", helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2, "K"])),
            _info("both", helper.make_tensor_type_proto(TensorProto.FLOAT, ["IN", 2])),
            _info("overridable", helper.make_tensor_type_proto(TensorProto.FLOAT, [2])),
        ]
    )
    graph.initializer.extend(_tensors())
    graph.node.extend(_nodes())
    graph.output.extend(
        [
            _info("y"),
            _info("y", helper.make_tensor_type_proto(TensorProto.FLOAT, ["again"]), "listed a second time"),
            _info("both", helper.make_tensor_type_proto(TensorProto.FLOAT, ["OUT", 2])),
            _info("declared", helper.make_tensor_type_proto(TensorProto.FLOAT, [2])),
        ]
    )
    graph.value_info.extend([_info("h"), _info("nobody"), _info("y"), _info("declared")])
    for name in ("x", "h", "y", "declared", "both", "overridable", "nobody"):
        annotation = graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="declared")
        annotation.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="int8")
    return graph


def _tensors() -> list[onnx.TensorProto]:
    raw = [
        helper.make_tensor(name.lower(), getattr(TensorProto, name), [3], bytes(range(size)), raw=True)
        for name, size in {
            "BFLOAT16": 6,
            "FLOAT8E4M3FN": 3,
            "FLOAT8E5M2": 3,
            "INT4": 2,
            "UINT4": 2,
            "FLOAT4E2M1": 2,
            "COMPLEX64": 24,
            "BOOL": 3,
        }.items()
    ]
    typed = [
        helper.make_tensor("overridable", TensorProto.FLOAT, [2], [1, 2]),
        helper.make_tensor("declared", TensorProto.FLOAT, [2], [1, float("nan")]),
        helper.make_tensor("int8", TensorProto.INT8, [1], [3]),
        helper.make_tensor("int64", TensorProto.INT64, [], [2**40]),
        helper.make_tensor("double", TensorProto.DOUBLE, [2], [0.1, -0.0]),
        helper.make_tensor("uint64", TensorProto.UINT64, [0], []),
        helper.make_tensor("uint32", TensorProto.UINT32, [1], [2**31]),
        helper.make_tensor("float16", TensorProto.FLOAT16, [2], [0.5, float("inf")]),
        helper.make_tensor("strings", TensorProto.STRING, [2], [b"\xff\x00", "grün".encode()]),
    ]
    for tensor in (*raw, *typed):
        tensor.doc_string = f"about {tensor.name}"
        _describe(tensor.metadata_props, name=tensor.name)
    raw[0].segment.begin, raw[0].segment.end = 0, 3
    return raw + typed


def _nodes() -> list[onnx.NodeProto]:
    made = [
        helper.make_node("Everything", ["x", "", "h"], ["z", "", "w", "", ""], name="all", domain="custom"),
        helper.make_node("Add", ["x", "declared"], ["h"], name="add", doc_string="adds"),
        helper.make_node("Block", ["h"], ["y"], domain="local", overload="two", alpha=2),
        helper.make_node("Relu", ["h"], ["unnamed"]),
    ]
    made[0].attribute.extend(_attributes())
    for node in made[:2]:
        _describe(node.metadata_props, op=node.op_type)
    return made


def _attributes() -> list[onnx.AttributeProto]:
    body = onnx.GraphProto(name="body", doc_string="a body")
    body.node.append(helper.make_node("Split", ["h"], ["s0", "s1", ""], name="in body", axis=0))
    body.output.extend([helper.make_tensor_value_info("s0", TensorProto.FLOAT, None), _info("h")])
    body.value_info.append(_info("s1"))
    body.initializer.append(helper.make_tensor("inner", TensorProto.FLOAT, [1], [1]))
    _describe(body.metadata_props)
    tensor = _tensors()[0]
    values: dict[str, tuple[Any, int]] = {
        "a_float": (0.1, AttributeProto.FLOAT),
        "an_int": (-(2**40), AttributeProto.INT),
        "a_string": (b"text", AttributeProto.STRING),
        "bytes": (b"\xff\xfe", AttributeProto.STRING),
        "a_tensor": (tensor, AttributeProto.TENSOR),
        "a_graph": (body, AttributeProto.GRAPH),
        "a_type": (_sequence_type(), AttributeProto.TYPE_PROTO),
        "floats": ([0.1, 2.0], AttributeProto.FLOATS),
        "ints": ([1, 2], AttributeProto.INTS),
        "no_ints": ([], AttributeProto.INTS),
        "strings": ([b"a", "ü".encode()], AttributeProto.STRINGS),
        "tensors": ([tensor, tensor], AttributeProto.TENSORS),
        "graphs": ([body, body], AttributeProto.GRAPHS),
        "types": ([_tensor_type()], AttributeProto.TYPE_PROTOS),
    }
    return [
        helper.make_attribute(name, value, f"about {name}", kind) for name, (value, kind) in values.items()
    ]


def _function(opset: int, *, with_value_info: bool) -> onnx.FunctionProto:
    function = helper.make_function(
        "local",
        "Block",
        ["a"],
        ["b"],
        [helper.make_node("Elu", ["a"], ["b"], name="elu"), helper.make_node("Relu", ["b"], ["unused"])],
        [helper.make_opsetid("", opset), helper.make_opsetid("custom", 3)],
        attributes=["alpha"],
        attribute_protos=[helper.make_attribute("beta", _tensors()[1], "a default")],
        doc_string="a function",
        overload="two",
    )
    function.node[0].attribute.add(
        name="alpha", ref_attr_name="alpha", type=AttributeProto.FLOAT, doc_string="ref"
    )
    if with_value_info:
        function.value_info.extend([_info("a"), _info("b"), _info("nobody")])
    _describe(function.metadata_props)
    return function


def _spread(node: onnx.NodeProto) -> None:
    configuration = node.device_configurations.add(configuration_id="two", pipeline_stage=1)
    spec = configuration.sharding_spec.add(tensor_name="x", device=[-1, 1])
    spec.index_to_device_group_map.add(key=-1, value=[0, 1])
    dim = spec.sharded_dim.add(axis=0)
    dim.simple_sharding.add(dim_value=4, num_shards=2)
    dim.simple_sharding.add(dim_param="N", num_shards=2)
