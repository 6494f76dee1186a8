"""Random graphs through fold_constants: the same bits, and never a larger file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hubpublish.passes.fold_constants import FoldConstants, FoldConstantsOptions
from hubpublish.passes.folding import child, evaluation
from tests.models.build import assert_same, random_feeds, rewrite

N = 4  # side of every tensor of floats, so that all go together
ARITHMETIC = ("Abs", "Neg", "Relu", "Sigmoid", "Floor", "Exp")
PAIRS = ("Mul", "Add", "Sub", "Max", "Min", "MatMul")


class Graph:
    """A model under construction: live floats, constant floats, and integers that depend on no input."""

    def __init__(self, draw: st.DrawFn, dtype: Any) -> None:
        self._draw = draw
        self._dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.live = ["x", "z", self.op("Mul", "x", "z")]
        self.floats = [self.constant(draw_array(draw).astype(dtype)) for _ in range(2)]
        self.lists = [self.constant(np.array([N, N], np.int64))]  # [N, N], as shapes are
        self.rows = [self.constant(np.array(draw(st.permutations(range(N))), np.int64))]
        self.masks = [self.constant(draw_array(draw) > 0)]

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        if self._draw(st.booleans()):
            self.constants.append(numpy_helper.from_array(array, name))
            return name
        self.constants.append(numpy_helper.from_array(array, f"unused_{name}"))
        return self.op("Constant", value=numpy_helper.from_array(array))

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], f"node_{name}", **attributes))
        return name

    def pick(self, names: list[str]) -> str:
        return self._draw(st.sampled_from(names))

    def any_float(self) -> str:
        return self.pick(self.live * 3 + self.floats)

    def step(self) -> None:
        """Add a node or a few."""
        kind = self._draw(
            st.sampled_from((*("floating",) * 6, *("measure",) * 2, "integers", "shift", "cover"))
        )
        getattr(self, kind)()

    def add_float(self, name: str, *given: str) -> None:
        (self.floats if all(each in self.floats for each in given) else self.live).append(name)

    def measure(self) -> None:
        shape = self.op("Shape", self.any_float())
        end = self.constant(np.array([self._draw(st.integers(0, 1))], np.int64))
        length = self.op("Gather", shape, end, axis=0)
        self.lists.append(self.op("Concat", length, length, axis=0))

    def integers(self) -> None:
        first, second = self.pick(self.lists), self.pick(self.lists)
        doubled = self.op("Add", first, second)
        two = self.constant(np.array([2], np.int64))
        back = self._draw(st.sampled_from(("Div", "Sub")))
        self.lists.append(self.op(back, doubled, two if back == "Div" else second))

    def shift(self) -> None:
        start = self.constant(np.array(self._draw(st.integers(0, 7)), np.int64))
        length = self.constant(np.array(N, np.int64))
        self.rows.append(self.op("Mod", self.op("Add", self.pick(self.rows), start), length))

    def cover(self) -> None:
        op = self._draw(st.sampled_from(("Not", "Less", "Cast")))
        if op == "Not":
            self.masks.append(self.op("Not", self.pick(self.masks)))
        elif op == "Less":
            self.masks.append(self.op("Less", self.pick(self.floats), self.pick(self.floats)))
        else:
            integers = self.op("Cast", self.pick(self.masks), to=TensorProto.INT64)
            made = self.op("Cast", integers, to=helper.np_dtype_to_tensor_dtype(np.dtype(self._dtype)))
            self.floats.append(made)

    def floating(self) -> None:
        one, other = self.any_float(), self.any_float()
        kinds = ("two", "move", "join", "gather", "scatter")  # what matters to rounding to float16
        if self._dtype != np.float16:
            kinds += ("one", "where", "cast")
        kind = self._draw(st.sampled_from(kinds))
        if kind == "one":
            name, given = self.op(self._draw(st.sampled_from(ARITHMETIC)), one), (one,)
        elif kind == "two":
            ops = PAIRS[:3] if self._dtype == np.float16 else PAIRS
            name, given = self.op(self._draw(st.sampled_from(ops)), one, other), (one, other)
        elif kind == "move":
            op = self._draw(st.sampled_from(("Transpose", "Reshape", "Expand", "Identity")))
            name = self.op(op, one, *([self.pick(self.lists)] if op in ("Reshape", "Expand") else []))
            given = (one,)
        elif kind == "join":
            axis = self._draw(st.integers(0, 1))
            both = self.op("Concat", one, other, axis=axis)
            start = self._draw(st.integers(0, N))
            limits = [self.constant(np.array([each], np.int64)) for each in (start, start + N, axis)]
            name, given = self.op("Slice", both, *limits), (one, other)
        elif kind == "where":
            name, given = self.op("Where", self.pick(self.masks), one, other), (one, other)
        elif kind == "gather":
            name, given = (
                self.op("Gather", one, self.pick(self.rows), axis=self._draw(st.integers(0, 1))),
                (one,),
            )
        elif kind == "cast":
            there = self.op("Cast", one, to=TensorProto.DOUBLE)
            name = self.op("Cast", there, to=helper.np_dtype_to_tensor_dtype(np.dtype(self._dtype)))
            given = (one,)
        else:
            column = self.op("Unsqueeze", self.pick(self.rows), self.constant(np.array([1], np.int64)))
            name, given = self.op("ScatterND", one, column, other), (one, other)
        self.add_float(name, *given)


def draw_array(draw: st.DrawFn) -> Any:
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = generator.standard_normal((N, N))
    return np.round(values * 8) / 8 if draw(st.booleans()) else values


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    dtype = draw(st.sampled_from((np.float32, np.float16)))
    made = Graph(draw, dtype)
    for _ in range(draw(st.integers(3, 30))):
        made.step()
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    used = {name for node in made.nodes for name in node.input}
    outputs = [name for name in made.live if name not in used] or ["x"]
    graph = helper.make_graph(
        [*made.nodes, *(helper.make_node("Neg", [name], [f"out_{name}"]) for name in outputs)],
        "g",
        [helper.make_tensor_value_info(name, element, [N, N]) for name in ("x", "z")],
        [helper.make_tensor_value_info(f"out_{name}", element, [N, N]) for name in outputs],
        [tensor for tensor in made.constants if tensor.name in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_start", lambda given, response, log: child.main(given, response))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(models(), st.integers(0, 6), st.sampled_from([16, 100, 65_536]))
def test_the_same_bits(model: onnx.ModelProto, limit: int, max_bytes: int) -> None:
    options = FoldConstantsOptions(max_bytes=max_bytes)
    whole = rewrite(model, FoldConstants(options))
    part = rewrite(model, FoldConstants(options, limit=limit))
    assert part.rewritten == whole.rewritten[:limit]
    assert whole.model.ByteSize() <= rewrite(model).model.ByteSize()
    again = rewrite(whole.model, FoldConstants(options))
    assert not again.rewritten
    assert again.model.SerializeToString() == whole.model.SerializeToString()
    for seed in (0, 1):
        feeds = random_feeds(model, seed)
        for level in ("disabled", "default"):
            assert_same(model, whole.model, feeds, level)  # type: ignore[arg-type]
            assert_same(model, part.model, feeds, level)  # type: ignore[arg-type]
