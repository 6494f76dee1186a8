"""Models of one node: ONNX's own node tests, also for older opsets and for other element types."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx.defs import OpSchema

from tests.verify.webgpu.many import named

OLDEST, NEWEST = 7, 27  # opsets: below it nothing is on the GPU, above it the runtime knows nothing
#: Element types: those of the tables, and some that no kernel has.
DTYPES: Final = (
    "float",
    "float16",
    "double",
    "bool",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "int8",
    "int4",
    "uint4",
)
FEWER: Final = ("float", "float16", "int32", "int64")
BODY: Final = "() => (T[4] p) { p = Identity (x) }"
#: Forms that ONNX's tests don't have, with the opsets at which they are right; T is each type in turn.
FORMS: Final = (
    *((f"Reduce{n}", 7, 17, f"(T[4] x) => (y) {{ [n0] y = Reduce{n} <axes = [0]> (x) }}")
      for n in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")),
    ("ReduceSum", 7, 12, "(T[4] x) => (y) { [n0] y = ReduceSum <axes = [0]> (x) }"),
    ("Clip", 7, 10, "(T[4] x) => (y) { [n0] y = Clip <min = 0.0, max = 1.0> (x) }"),
    ("Pad", 7, 10, "(T[4] x) => (y) { [n0] y = Pad <pads = [1, 1]> (x) }"),
    ("Resize", 10, 10, "(T[1,1,4,4] x, float[4] s) => (y) { [n0] y = Resize (x, s) }"),
    ("Resize", 11, 12, "(T[1,1,4,4] x, float[8] r, float[4] s) => (y) { [n0] y = Resize (x, r, s) }"),
    ("Slice", 7, 9, "(T[4] x) => (y) { [n0] y = Slice <starts = [0], ends = [2]> (x) }"),
    ("Squeeze", 7, 12, "(T[1,4] x) => (y) { [n0] y = Squeeze <axes = [0]> (x) }"),
    ("Unsqueeze", 7, 12, "(T[4] x) => (y) { [n0] y = Unsqueeze <axes = [0]> (x) }"),
    ("TopK", 7, 9, "(T[4] x) => (y, z) { [n0] y, z = TopK <k = 2> (x) }"),
    ("Split", 7, 12, "(T[4] x) => (y, z) { [n0] y, z = Split <axis = 0> (x) }"),
    ("Shape", 7, NEWEST, "(T[N] x) => (int64[1] y) { [n0] y = Shape (x) }"),
    ("Split", 18, NEWEST, "(T[4] x) => (y, z) { [n0] y, z = Split <axis = 0, num_outputs = 2> (x) }"),
    ("Cast", 7, NEWEST, "(T[4] x) => (int64[4] y) { [n0] y = Cast <to = 7> (x) }"),
    *(("Cast", 7, NEWEST, f"(float[4] x) => ({d}[4] y) {{ [n0] y = Cast <to = {n}> (x) }}")
      for d, n in (("bool", 9), ("float16", 10), ("int32", 6), ("uint32", 12), ("uint8", 2), ("double", 11))),
    *(("If", o, o, "(bool c, T[4] x) => (T[4] y) { [n0] y = If (c) "
      f"<then_branch = t {BODY}, else_branch = e {BODY}> }}")
      for o in (10, 12, 15, 18, 20, 22, NEWEST)),
    ("GRU", 7, NEWEST, "(T[3,1,2] x, T[1,6,2] w, T[1,6,2] r, int32[1] n) => (y) "
     "{ [n0] y = GRU <hidden_size = 2> (x, w, r, , n) }"),
    ("LSTM", 7, NEWEST, "(T[3,1,2] x, T[1,8,2] w, T[1,8,2] r, int32[1] n) => (y) "
     "{ [n0] y = LSTM <hidden_size = 2> (x, w, r, , n) }"),
    ("MaxPool", 8, NEWEST, "(T[1,1,4,4] x) => (y, z) { [n0] y, z = MaxPool <kernel_shape = [2, 2]> (x) }"),
    ("DFT", 17, 19, "(T[1,4,1] x, int64 n) => (y) { [n0] y = DFT <axis = 1> (x, n) }"),
    ("DFT", 17, 19, "(T[1,4,1] x, int32 n) => (y) { [n0] y = DFT <axis = 1> (x, n) }"),
    ("DFT", 20, NEWEST, "(T[1,4,1] x, int64 n) => (y) { [n0] y = DFT (x, n) }"),
    ("DFT", 20, NEWEST, "(T[1,4,1] x, int32 n) => (y) { [n0] y = DFT (x, n) }"),
)  # fmt: skip


@dataclass(frozen=True)
class OneNode:
    """A model of one node, called n0.

    Attributes:
        op, since: The operator and the opset in which it became as it is.
        types: The element type of each type parameter, as far as they are known.
    """

    op: str
    since: int
    types: dict[str, str]
    proto: onnx.ModelProto

    def __str__(self) -> str:
        return f"{self.op}-{self.since} {' '.join(f'{name}={dtype}' for name, dtype in self.types.items())}"


@functools.cache
def node_tests() -> dict[str, list[Any]]:
    """ONNX's own tests of a single node, with inputs and outputs, by operator."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        load_model_tests(kind="node")  # collects them
        from onnx.backend.test.case.node import collect_testcases

        found: dict[str, list[Any]] = defaultdict(list)
        for each in collect_testcases():
            if each.model is None or len(each.model.graph.node) != 1:
                continue
            if not each.model.graph.node[0].domain:
                found[each.model.graph.node[0].op_type].append(each)
        return found


@functools.cache
def histories() -> dict[str, list[OpSchema]]:
    """Every version of ONNX's operators, oldest first."""
    found: dict[str, list[OpSchema]] = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain and not schema.deprecated:
            found[schema.name].append(schema)
    return {op: sorted(each, key=lambda schema: schema.since_version) for op, each in found.items()}


def allowed_types(schema: OpSchema) -> dict[str, list[str]]:
    """Element types that ONNX allows for each type parameter."""
    return {
        each.type_param_str: [d for d in DTYPES if f"tensor({d})" in each.allowed_type_strs]
        for each in schema.type_constraints
    }


def one_node_models(in_table: Iterator[str] | frozenset[str]) -> list[OneNode]:
    """For each version of an operator and each element type one; fewer of those that no table names."""
    known = frozenset(in_table)
    found: dict[str, OneNode] = {}
    for op, tests in node_tests().items():
        for test in tests:
            for each in retargeted(op, test.model, DTYPES if op in known else FEWER):
                found.setdefault(str(each), each)
    for op, first, last, text in FORMS:
        for number, each in enumerate(_of_form(op, first, last, text)):
            found[f"{each} {text} {number}"] = each
    return [*found.values()]


def retargeted(op: str, proto: onnx.ModelProto, dtypes: Sequence[str]) -> Iterator[OneNode]:
    """A model of one node as of each opset, with its own element types and with each of others in turn."""
    (node,) = proto.graph.node
    schemas = histories()[op]
    for schema, newer in zip(schemas, [*schemas[1:], None], strict=True):
        opset = min(NEWEST, newer.since_version - 1) if newer else NEWEST
        if opset < OLDEST or schema.since_version > opset or not _may_be_of(node, schema):
            continue
        for types in _assignments(schema, node, proto, dtypes):
            copy = named(proto)
            copy.opset_import[0].version = opset
            del copy.graph.value_info[:]
            _set_types(copy, schema, types)
            yield OneNode(op, schema.since_version, types, copy)


def _may_be_of(node: onnx.NodeProto, schema: OpSchema) -> bool:
    given = {attribute.name for attribute in node.attribute}
    required = {name for name, attribute in schema.attributes.items() if attribute.required}
    return (
        schema.min_input <= len(node.input) <= schema.max_input
        and schema.min_output <= len(node.output) <= schema.max_output
        and required <= given <= set(schema.attributes)
    )


def _assignments(
    schema: OpSchema, node: onnx.NodeProto, proto: onnx.ModelProto, dtypes: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Element types for type parameters: as in the test, then each parameter with each type in turn."""
    allowed = allowed_types(schema)
    now: dict[str, str] = {}
    for _, parameter, value in _typed(schema, node, proto):
        if allowed.get(parameter):
            dtype = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
            now.setdefault(parameter, dtype if dtype in allowed[parameter] else allowed[parameter][0])
    yield now
    if node.op_type in ("Cast", "CastLike"):  # their tests have all pairs
        return
    inputs = {parameter for name, parameter, _ in _typed(schema, node, proto) if name in node.input}
    for parameter in sorted(inputs & now.keys()):
        for dtype in allowed[parameter]:
            if dtype in dtypes and dtype != now[parameter]:
                yield {**now, parameter: dtype}


def _typed(
    schema: OpSchema, node: onnx.NodeProto, proto: onnx.ModelProto
) -> Iterator[tuple[str, str, onnx.ValueInfoProto]]:
    """The tensors of a node that are inputs and outputs of its graph, with their type parameters."""
    values = {value.name: value for value in (*proto.graph.input, *proto.graph.output)}
    for parameters, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for index, name in enumerate(names):
            if name in values and values[name].type.HasField("tensor_type"):
                yield name, parameters[min(index, len(parameters) - 1)].type_str, values[name]


def _set_types(proto: onnx.ModelProto, schema: OpSchema, types: dict[str, str]) -> None:
    (node,) = proto.graph.node
    for _, parameter, value in _typed(schema, node, proto):
        if parameter in types:
            number = onnx.TensorProto.DataType.Value(types[parameter].upper())
            value.type.tensor_type.elem_type = number


def _of_form(op: str, first: int, last: int, text: str) -> Iterator[OneNode]:
    for schema, newer in zip(histories()[op], [*histories()[op][1:], None], strict=True):
        opset = min(last, newer.since_version - 1 if newer else last)
        if opset < max(first, schema.since_version):
            continue
        for dtype in DTYPES[:-2] if "T[" in text else [""]:
            written = text.replace("T[", f"{dtype}[")
            proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g {written}')
            (node,) = proto.graph.node
            types: dict[str, str] = {}
            for _, parameter, value in _typed(schema, node, proto):
                if value.type.tensor_type.elem_type:
                    number = value.type.tensor_type.elem_type
                    types.setdefault(parameter, onnx.TensorProto.DataType.Name(number).lower())
            yield OneNode(op, schema.since_version, types, proto)
