"""Random models: arithmetic, and nodes that only move elements, wide ones among them, in any nesting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
Pick = Callable[[Sequence[Any]], Any]  # one of several, drawn at random

DTYPES: Final = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
    TensorProto.STRING: object,
}
FLOATS: Final = (TensorProto.FLOAT, TensorProto.FLOAT16)
FORMS: Final = ("main", "if", "loop", "function")
SHAPE: Final = (4, 6)  # of the input
LARGEST: Final = 300  # elements
INDICES: Final = ("rows", "columns")


@dataclass
class RandomGraph:
    """A graph under construction; ``pool`` has the values there are, the last ones first chosen."""

    pick: Pick
    dtype: int
    opset: int
    sums: bool = True
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    pool: list[tuple[str, Shape]] = field(default_factory=lambda: [("x", SHAPE)])
    made: int = 0

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.array(values, dtype), name)
        return name

    def add(
        self, op: str, inputs: Sequence[str], *shapes: Shape, **attributes: Any
    ) -> list[tuple[str, Shape]]:
        outputs = [f"v{self.made + number}" for number in range(len(shapes))]
        self.made += len(shapes)
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        new = list(zip(outputs, shapes, strict=True))
        self.pool += new
        return new

    def unseen(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node whose output only the one that is made for it uses."""
        self.made += 1
        self.nodes.append(helper.make_node(op, inputs, [f"u{self.made}"], **attributes))
        return f"u{self.made}"

    def by_axes(self, op: str, value: str, axes: list[int], shape: Shape) -> list[tuple[str, Shape]]:
        if self.opset < 13:
            return self.add(op, [value], shape, axes=axes)
        return self.add(op, [value, self.constant(axes)], shape)

    def value(self, like: Shape | None = None) -> tuple[str, Shape]:
        found = [each for each in self.pool if like in (None, each[1])]
        value: tuple[str, Shape] = self.pick(found[-6:])
        return value

    def compute(self, source: tuple[str, Shape] | None = None) -> tuple[str, Shape]:
        value, shape = source or self.value()
        if self.dtype == TensorProto.STRING:
            return self.add("Identity", [value], shape)[0]
        if self.dtype == TensorProto.BOOL:
            return self.add("Not", [value], shape)[0]
        op = self.pick(("Mul", "Sub", "Add") + (("Relu", "Sigmoid", "Neg") if self.dtype in FLOATS else ()))
        if op == "Add":
            constant = self.constant(0.3331 if self.dtype in FLOATS else 3, DTYPES[self.dtype])
            if self.pick((False, False, True)):  # so that there is something to fold
                constant = self.unseen("Mul", constant, constant)
            return self.add("Add", [value, constant], shape)[0]
        if op in ("Mul", "Sub"):
            return self.add(op, [value, self.value(shape)[0]], shape)[0]
        return self.add(op, [value], shape)[0]

    def step(self) -> list[tuple[str, Shape]]:
        """One more node, or a few; nothing if what was drawn does not go here."""
        value, shape = self.value()
        axis = self.pick(range(len(shape)))
        makers = [
            *(self.concat, self.concat, self.split, self.split, self.axes, self.slice, self.grid),
            *(self.gather, self.gather_nd, self.scatter, self.sum, self.cast),
        ]
        return self.pick(makers)(value, shape, axis)  # type: ignore[no-any-return]

    def concat(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        count = self.pick((1, 2, 3, 4, 5, 7))
        if math.prod(shape) * count > LARGEST:
            return []
        values = [value, *(self.value(shape)[0] for _ in range(count - 1))]
        whole = (*shape[:axis], shape[axis] * count, *shape[axis + 1 :])
        return self.add(
            "Concat", values, whole, axis=self.pick((axis, axis - len(shape))) if self.opset >= 11 else axis
        )

    def split(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        count = self.pick((1, 2, 3, 4, 6))
        cuts = sorted(self.pick(range(shape[axis] + 1)) for _ in range(count - 1))
        sizes = [end - start for start, end in zip([0, *cuts], [*cuts, shape[axis]], strict=True)]
        if shape[axis] % count == 0 and self.pick((True, True, False)):
            sizes = [shape[axis] // count] * count
        parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
        if self.opset < 13:
            return self.add("Split", [value], *parts, axis=axis, split=sizes)
        return self.add("Split", [value, self.constant(sizes)], *parts, axis=axis)

    def axes(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        order = list(range(len(shape)))
        op = self.pick(("Transpose", "Transpose", "Reshape", "Unsqueeze", "Squeeze", "Identity"))
        if op == "Transpose":
            perm = self.pick((order[::-1], order[1:] + order[:1], order))
            return self.add("Transpose", [value], tuple(shape[each] for each in perm), perm=perm)
        if op == "Reshape" and 0 not in shape and self.pick((True, True, False)):
            target = self.pick((shape, (math.prod(shape),), (1, *shape)))
            return self.add("Reshape", [value, self.constant(target)], target)
        if op == "Reshape":
            return self.add("Reshape", [value, self.unseen("Shape", value)], shape)
        if op == "Unsqueeze" and len(shape) < 4:
            return self.by_axes(op, value, [axis], (*shape[:axis], 1, *shape[axis:]))
        if op == "Squeeze" and shape[axis] == 1 and len(shape) > 1:
            return self.by_axes(op, value, [axis], (*shape[:axis], *shape[axis + 1 :]))
        return self.add("Identity", [value], shape)

    def slice(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        start, end = self.pick(((0, 2**63 - 1), (1, 2**31), (0, -1)))
        length = len(range(shape[axis])[start : min(end, 2**31)])
        part = (*shape[:axis], length, *shape[axis + 1 :])
        if self.opset < 10:
            return self.add("Slice", [value], part, starts=[start], ends=[end], axes=[axis])
        return self.add("Slice", [value, *(self.constant([each]) for each in (start, end, axis))], part)

    def grid(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        """All pieces of a tensor, joined in another order."""
        other = (axis + 1) % len(shape)
        if other == axis or 0 in shape or shape[axis] < 2 or shape[other] < 2:
            return []
        pieces, made = [], []
        unit = (*shape[:axis], 1, *shape[axis + 1 :])
        sizes = [self.constant([1] * shape[each]) for each in (axis, other)] if self.opset >= 13 else ["", ""]
        given = [{"split": [1] * shape[each]} if self.opset < 13 else {} for each in (axis, other)]
        columns = self.add(
            "Split",
            [each for each in (value, sizes[0]) if each],
            *[unit] * shape[axis],
            axis=axis,
            **given[0],
        )
        for name, part in columns:
            piece = (*part[:other], 1, *part[other + 1 :])
            made = self.add(
                "Split",
                [each for each in (name, sizes[1]) if each],
                *[piece] * shape[other],
                axis=other,
                **given[1],
            )
            pieces += [each for each, _ in made]
        whole = (*made[0][1][:axis], len(pieces), *made[0][1][axis + 1 :])
        return self.add("Concat", pieces, whole, axis=axis)

    def gather(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        if 0 in shape or self.dtype == TensorProto.STRING:
            return []
        indices = self.constant(list(range(shape[axis]))[::-1])
        return self.add("Gather", [value, indices], shape, axis=axis)

    def gather_nd(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        """Elements picked by pairs of indices that are clamped."""
        if self.opset < 12 or len(shape) != 2 or 0 in shape:
            return []
        data = self.add("Reshape", [value, self.constant((1, 1, *shape, 1))], (1, 1, *shape, 1))[0][0]
        clamped = [
            self.unseen("Clip", name, self.constant(0), self.constant(length - 1))
            for name, length in zip(INDICES, shape, strict=True)
        ]
        pairs = self.unseen("Concat", *clamped, axis=3)
        return self.add("GatherND", [data, pairs], (1, 1, 5, 1), batch_dims=2)

    def scatter(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        if self.opset < 11 or 0 in shape or self.dtype == TensorProto.STRING:
            return []
        count = self.pick((0, 1))
        updates = self.constant(np.ones((count, *shape[1:])), DTYPES[self.dtype])
        return self.add("ScatterND", [value, self.constant(np.zeros((count, 1))), updates], shape)

    def sum(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        if self.dtype not in FLOATS or not self.sums:
            return []
        return self.add(
            "Sum", [value, *(self.value(shape)[0] for _ in range(self.pick((0, 1, 2, 3))))], shape
        )

    def cast(self, value: str, shape: Shape, axis: int) -> list[tuple[str, Shape]]:
        if self.dtype not in FLOATS:
            return []
        return self.add("Cast", [self.unseen("Cast", value, to=TensorProto.FLOAT)], shape, to=self.dtype)

    def outputs(self) -> list[tuple[str, Shape]]:
        """Whatever nothing uses, mostly computed with once more, and a few others."""
        used = {name for node in self.nodes for name in node.input}
        found = []
        for value, shape in self.pool[1:]:
            if value in used and self.pick((False,) * 12 + (True,)):
                found.append((value, shape))
            elif value not in used and self.pick((True, True, True, False)):
                found.append(self.compute((value, shape)))
        return found or [self.compute()]


def random_graph(pick: Pick, dtype: int, opset: int, *, sums: bool = True) -> RandomGraph:
    graph = RandomGraph(pick, dtype, opset, sums)
    for _ in range(pick(range(2, 9))):
        if pick((False, False, True)):
            graph.compute()
            continue
        new = graph.step()
        after = pick((None, graph.compute)) if len(new) > 1 else None
        for each in new if after is not None else ():
            after(each)
    return graph


def model_of(
    graph: RandomGraph, form: str, outputs: list[tuple[str, Shape]] | None = None
) -> onnx.ModelProto:
    """The graph as a model's main graph, or as the body of an If, a Loop or a function in it."""
    outputs = outputs or graph.outputs()
    inputs = [helper.make_tensor_value_info("x", graph.dtype, SHAPE)]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, (1, 1, 5, 1)) for name in INDICES]
    nodes, constants, functions = graph.nodes, list(graph.constants.values()), []
    imports = [helper.make_opsetid("", graph.opset)]
    if form != "main":
        outside = [f"out_{name}" for name, _ in outputs]
    if form == "if":
        bodies = [helper.make_graph(nodes, name, [], _infos(graph, outputs)) for name in ("then", "else")]
        inputs.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, ()))
        nodes = [helper.make_node("If", ["condition"], outside, then_branch=bodies[0], else_branch=bodies[1])]
    if form == "loop":
        given = [helper.make_tensor_value_info("i", TensorProto.INT64, ()),
                 helper.make_tensor_value_info("go", TensorProto.BOOL, ())]  # fmt: skip
        going = helper.make_node("Identity", ["go"], ["going"])
        infos = [helper.make_tensor_value_info("going", TensorProto.BOOL, ()), *_infos(graph, outputs)]
        body = helper.make_graph([going, *nodes], "body", given, infos)
        constants.append(numpy_helper.from_array(np.array(2), "times"))
        nodes = [helper.make_node("Loop", ["times", ""], outside, body=body)]
    if form == "function":
        inside = [helper.make_node("Constant", [], [each.name], value=each) for each in constants]
        names = ["x", *INDICES]
        functions = [
            helper.make_function(
                "local", "F", names, [name for name, _ in outputs], [*inside, *nodes], imports
            )
        ]
        nodes, constants = [helper.make_node("F", names, outside, domain="local")], []
        imports = [*imports, helper.make_opsetid("local", 1)]
    if form != "main":
        times = (2,) if form == "loop" else ()
        outputs = [(name, (*times, *shape)) for name, (_, shape) in zip(outside, outputs, strict=True)]
    main = helper.make_graph(nodes, "g", inputs, _infos(graph, outputs), constants)
    return helper.make_model(main, opset_imports=imports, ir_version=8, functions=functions)


def _infos(graph: RandomGraph, values: list[tuple[str, Shape]]) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, graph.dtype, shape) for name, shape in values]
