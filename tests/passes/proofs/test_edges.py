from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hubpublish.passes.proofs.edges import has_padded_ends
from hubpublish.passes.proofs.facts import Proofs
from tests.models.build import parse


def padded(model: onnx.ModelProto, axis: int) -> bool:
    loaded = ir.from_proto(model)
    return has_padded_ends(loaded.graph.outputs[0], axis, Proofs(loaded))


def text(body: str, inputs: str = "float[2,3] x", constants: str = "", opset: int = 18) -> onnx.ModelProto:
    return parse(f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1]>
    g ({inputs}) => (float y) <int64[4] pads = {{1,2,1,3}}{constants}> {{ {body} }}""")


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("y = Pad(x, pads)", [0, 1]),
        ("y = Pad(x, first)", [0]),
        ("y = Pad(x, one_end)", [1]),
        ("y = Pad(x, two, , last)", [1]),
        ("y = Pad(x, two, value, last)", [1]),
        ('y = Pad<mode="edge">(x, pads)', []),
        ('y = Pad<mode="reflect">(x, pads)', []),
        ("y = other.Pad(x, pads)", []),
        ("y = Pad(x, given)", []),
        ("y = Pad(x, two, , given1)", []),
        ("p = Pad(x, first)  y = Transpose(p)", [1]),
        ("p = Pad(x, first)  q = Unsqueeze(p, zero)  y = Transpose<perm=[1,2,0]>(q)", [0]),
        ("p = Pad(x, pads)  y = Reshape(p, flat)", []),
        ("p = Pad(x, pads)  q = Identity(p)  y = Flatten<axis=0>(q)", []),
        ("p = Pad(x, pads)  q = Identity(p)  y = Flatten(q)", [0, 1]),
        ("p = Pad(x, pads)  y = Relu(p)", []),
        ("y = Identity(x)", []),
    ],
)
def test_ends(body: str, axes: list[int]) -> None:
    constants = """, int64[4] first = {1,0,1,0}, int64[4] one_end = {0,1,1,1}, int64[2] two = {1,1},
    int64[1] last = {-1}, float value = {7}, int64[1] zero = {0}, int64[1] flat = {-1}"""
    model = text(body, "float[2,3] x, int64[4] given, int64[1] given1", constants)
    assert [axis for axis in range(2) if padded(model, axis)] == axes


def test_before_opset_11_pads_are_no_input() -> None:
    assert not padded(text("y = Pad<pads=[1,1,1,1]>(x)", opset=10), 0)


def test_lengths_that_are_not_known() -> None:
    assert padded(text("y = Pad(x, pads)", "float[N,M] x"), 0)
    constants = ", int64[3] to = {1, -1, 8}"
    assert not padded(text("p = Pad(x, pads)  y = Reshape(p, to)", "float[N,3] x", constants), 1)


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """A Pad, and after it some nodes that move elements."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    pads = draw(st.lists(st.integers(0, 2), min_size=2 * len(shape), max_size=2 * len(shape)))
    tensors = [numpy_helper.from_array(np.array(pads, dtype=np.int64), "pads")]
    nodes, current = [helper.make_node("Pad", ["x", "pads", "seven"], ["v0"])], np.zeros(shape)
    tensors.append(numpy_helper.from_array(np.array(7, np.float32), "seven"))
    current = np.pad(current, [*zip(pads[: len(shape)], pads[len(shape) :], strict=True)])
    for number in range(draw(st.integers(0, 3))):
        before, after = f"v{number}", f"v{number + 1}"
        if draw(st.booleans()):
            perm = draw(st.permutations(range(current.ndim)))
            nodes.append(helper.make_node("Transpose", [before], [after], perm=perm))
            current = current.transpose(perm)
        else:
            divisors = [n for n in range(1, current.size + 1) if current.size % n == 0]
            sizes = [draw(st.sampled_from(divisors))]
            sizes.append(current.size // sizes[0])
            to = draw(st.sampled_from([sizes, [1, *current.shape], [*current.shape, 1]]))
            tensors.append(numpy_helper.from_array(np.array(to, dtype=np.int64), f"to{number}"))
            nodes.append(helper.make_node("Reshape", [before, f"to{number}"], [after]))
            current = current.reshape(to)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=200, deadline=None)
@given(chains())
def test_what_is_proved_holds(model: onnx.ModelProto) -> None:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x: Any = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + 10
    (y,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    for axis in range(y.ndim):
        if padded(model, axis):
            assert (np.take(y, [0, -1], axis) == 7).all()
