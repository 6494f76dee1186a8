"""Random grids: any axes, sizes, nesting and order of the pieces, in any form, must come out the same."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from hubpublish.passes.grids.order import digits_of
from hubpublish.passes.patch_grid import PatchGrid, PatchGridOptions
from tests.models.build import assert_runs_same, bits, op_counts, random_values, rewrite

DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.UINT8: np.uint8,
    TensorProto.BOOL: np.bool_,
    TensorProto.STRING: object,
}
NOT_WORTH_IT = (
    "its pieces are put together as they were",
    "it is but a Transpose, which the runtime may fuse with other nodes",
    "it is but a Reshape, at which the runtime may not round what may be float16",
    "its pieces may be strings, of which Gather copies one a row in ONNX Runtime",
)


@dataclass
class Digit:
    """One cut: ``count`` parts along an axis of the source, joined again along one of the result."""

    axis: int
    count: int
    joined: int = 0


@dataclass
class Model:
    """A model under construction."""

    opset: int
    data: st.DataObject
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    made: int = 0

    def draw(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def fresh(self) -> str:
        return f"v{len(self.nodes)}"

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        made = [f"{self.fresh()}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, made, **attributes))
        return made

    def ints(self, *values: int) -> str:
        """A constant, as an initializer or a node, here and there behind an Identity."""
        self.made += 1
        tensor = helper.make_tensor(f"c{self.made}", TensorProto.INT64, [len(values)], values)
        form = self.draw("initializer", "initializer", "node", "identity")
        if form == "initializer":
            self.constants.append(tensor)
            return str(tensor.name)
        (name,) = self.op("Constant", value=tensor)
        return self.op("Identity", name)[0] if form == "identity" else name

    def split(self, value: str, axis: int, count: int, part: int, rank: int) -> list[str]:
        """Equal parts along an axis by one of the operators that give such."""
        shown = axis - rank if self.opset >= 11 and self.draw(False, True) else axis
        form = self.draw("equal", "equal", "sizes", "slices", "gathers")
        if form == "slices":
            return [self.slice(value, shown, number * part, (number + 1) * part) for number in range(count)]
        if form == "gathers":
            indices = [range(number * part, (number + 1) * part) for number in range(count)]
            return [self.op("Gather", value, self.ints(*each), axis=shown)[0] for each in indices]
        sizes = [part] * count
        if form == "sizes" and self.opset < 13:
            return self.op("Split", value, outputs=count, axis=shown, split=sizes)
        if form == "sizes":
            return self.op("Split", value, self.ints(*sizes), outputs=count, axis=shown)
        number = {"num_outputs": count} if self.opset >= 18 else {}
        return self.op("Split", value, outputs=count, axis=shown, **number)

    def slice(self, value: str, axis: int, start: int, end: int) -> str:
        if self.opset < 10:
            return self.op("Slice", value, starts=[start], ends=[end], axes=[axis])[0]
        return self.op("Slice", value, self.ints(start), self.ints(end), self.ints(axis))[0]

    def unsqueeze(self, value: str, axis: int) -> str:
        if self.opset < 13:
            return self.op("Unsqueeze", value, axes=[axis])[0]
        return self.op("Unsqueeze", value, self.ints(axis))[0]

    def squeeze(self, value: str, axis: int) -> str:
        if self.opset < 13:
            return self.op("Squeeze", value, axes=[axis])[0]
        return self.op("Squeeze", value, self.ints(axis))[0]


def cut(model: Model, value: str, shape: list[int], digits: list[Digit]) -> dict[tuple[int, ...], str]:
    """The pieces by the values of the digits."""
    pieces, lengths = {(): value}, list(shape)
    for digit in digits:
        part = lengths[digit.axis] // digit.count
        lengths[digit.axis] = part
        pieces = {
            (*key, number): piece
            for key, whole in pieces.items()
            for number, piece in enumerate(model.split(whole, digit.axis, digit.count, part, len(shape)))
        }
    return pieces


def dressed(
    model: Model, pieces: dict[tuple[int, ...], str], shape: list[int]
) -> tuple[dict[Any, str], list[int]]:
    """All pieces with other axes of length 1."""
    ones = [axis for axis, length in enumerate(shape) if length == 1]
    form = model.draw("as they are", "unsqueezed", "squeezed", "reshaped")
    if form == "unsqueezed":
        axis = model.data.draw(st.integers(0, len(shape)))
        changed = {key: model.unsqueeze(piece, axis) for key, piece in pieces.items()}
        return changed, [*shape[:axis], 1, *shape[axis:]]
    if form == "squeezed" and ones and len(shape) > 1:
        axis = model.draw(*ones)
        changed = {key: model.squeeze(piece, axis) for key, piece in pieces.items()}
        return changed, [length for number, length in enumerate(shape) if number != axis]
    if form == "reshaped":
        target = [1, *(length for length in shape if length != 1), 1]
        return {
            key: model.op("Reshape", piece, model.ints(*target))[0] for key, piece in pieces.items()
        }, target
    return pieces, shape


def joined(model: Model, pieces: dict[tuple[int, ...], str], digits: list[Digit], order: list[int]) -> str:
    """The pieces in Concats, the last digit of the order the innermost; some join several digits."""
    levels = [[number] for number in order]
    for level, after in zip(list(levels), levels[1:], strict=False):
        if digits[level[-1]].joined == digits[after[0]].joined and model.draw(False, True, True):
            after[:0] = level
            level.clear()
    levels = [level for level in levels if level]
    parts: dict[tuple[int, ...], str] = {}
    for level_number in reversed(range(len(levels))):
        outer = [digit for level in levels[:level_number] for digit in level]
        inner = [digit for level in levels[level_number:] for digit in level]
        made = {}
        for key in itertools.product(*(range(digits[digit].count) for digit in outer)):
            inputs = []
            for own in itertools.product(*(range(digits[digit].count) for digit in levels[level_number])):
                whole = dict(zip([*outer, *levels[level_number]], (*key, *own), strict=True))
                if level_number == len(levels) - 1:
                    inputs.append(pieces[tuple(whole[digit] for digit in range(len(digits)))])
                else:
                    inputs.append(parts[(*key, *own)])
            made[key] = model.op("Concat", *inputs, axis=digits[inner[0]].joined)[0]
        parts = made
    return parts[()]


@dataclass
class Case:
    model: onnx.ModelProto
    feeds: dict[str, Any]
    dtype: int


@st.composite
def cases(draw: Any, *, irregular: bool) -> Case:
    data = draw(st.data())
    opset = draw(st.integers(7, 25))
    model = Model(opset, data)
    rank = draw(st.integers(1, 4))
    shape = [draw(st.sampled_from([1, 2, 3, 5])) for _ in range(rank)]
    digits = [
        Digit(draw(st.integers(0, rank - 1)), draw(st.sampled_from([2, 2, 3, 4])))
        for _ in range(draw(st.integers(1, 3)))
    ]
    source = [
        length * math.prod(digit.count for digit in digits if digit.axis == axis)
        for axis, length in enumerate(shape)
    ]
    dtype = draw(st.sampled_from(list(DTYPES)))
    pieces, dims = dressed(model, cut(model, "x", source, digits), shape)
    for digit in digits:
        digit.joined = draw(st.integers(0, len(dims) - 1))
    if irregular:
        one, other = draw(st.permutations(list(pieces)))[:2]
        pieces[one], pieces[other] = pieces[other], pieces[one]
    result = joined(model, pieces, digits, draw(st.permutations(range(len(digits)))))
    model.nodes.append(helper.make_node("Identity", [result], ["y"]))
    symbolic = [axis for axis in range(rank) if all(digit.axis != axis for digit in digits)]
    declared: list[Any] = list(source)
    if symbolic and draw(st.booleans()):
        declared[draw(st.sampled_from(symbolic))] = "N"
    proto = helper.make_model(
        helper.make_graph(
            model.nodes,
            "g",
            [helper.make_tensor_value_info("x", dtype, declared)],
            [helper.make_tensor_value_info("y", dtype, None)],
            model.constants,
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=10,
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Case(proto, {"x": random_values(rng, DTYPES[dtype], tuple(source))}, dtype)


def check(case: Case) -> list[str]:
    """Same outputs, twice the same file; returns the reasons for which Concats were left alone."""
    result = rewrite(case.model, PatchGrid(PatchGridOptions(min_pieces=2)))
    for level in ("disabled", "default"):
        assert_runs_same(case.model, result.model, case.feeds, level)
    again = rewrite(result.model, PatchGrid(PatchGridOptions(min_pieces=2)))
    assert again.model == result.model
    twin = rewrite(case.model, PatchGrid(PatchGridOptions(min_pieces=2)))
    assert twin.model.SerializeToString() == result.model.SerializeToString()
    if result.rewritten and case.dtype != TensorProto.STRING:
        both = [
            onnx.reference.ReferenceEvaluator(each).run(None, case.feeds)[0]
            for each in (case.model, result.model)
        ]
        assert bits(both[1]) == bits(both[0])
    return [skip.reason for skip in result.skipped]


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(cases(irregular=False))
def test_regular_grids_are_replaced(case: Case) -> None:
    reasons = check(case)
    left = rewrite(case.model, PatchGrid(PatchGridOptions(min_pieces=2)))
    if not reasons:
        joins_and_cuts = {"Split", "Slice", "Gather", "Concat", "Unsqueeze", "Squeeze"}
        assert left.rewritten
        assert not set(op_counts(left.model)) & joins_and_cuts
    elif "N" not in str(case.model.graph.input[0]):  # what a Reshape can leave open is tested one by one
        assert reasons[-1] in NOT_WORTH_IT


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(cases(irregular=True))
def test_irregular_ones_come_out_the_same(case: Case) -> None:
    check(case)


@given(
    st.lists(st.tuples(st.sampled_from([2, 3, 4, 5]), st.integers(0, 2), st.integers(0, 2)), max_size=4),
    st.data(),
)
def test_digits(drawn: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Every order that permutes digits is found; with two numbers exchanged only what still is one."""
    counts = [count for count, _, _ in drawn]
    if not counts:
        return
    before = sorted(range(len(drawn)), key=lambda digit: drawn[digit][1])
    after = sorted(data.draw(st.permutations(range(len(drawn)))), key=lambda digit: drawn[digit][2])
    numbers = np.arange(math.prod(counts)).reshape([counts[digit] for digit in before])
    moved = numbers.transpose([before.index(digit) for digit in after])
    axes = [
        math.prod(counts[digit] for digit in range(len(drawn)) if drawn[digit][2] == axis)
        for axis in range(3)
    ]
    grid = tuple(math.prod(count for count, axis, _ in drawn if axis == each) for each in range(3))
    cells = moved.reshape(axes)
    found = digits_of(cells, grid)
    assert found is not None
    assert math.prod(digit.count for digit in found) == cells.size
    if cells.size > 2:
        swapped = cells.copy().ravel()
        swapped[[0, -1]] = swapped[[-1, 0]]
        assert digits_of(swapped.reshape(axes), grid) is None
