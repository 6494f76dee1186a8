"""Inputs of one shape each, and what follows as constants. Exact.

Removes: the shape arithmetic of a model whose dimensions have names, which a runtime does again in each run,
on the CPU, and which keeps it from planning memory and this program from knowing how large tensors are.

    pixels [batch, 3, height, width]    ->    pixels [1, 3, 512, 512]

A dimension's name stands for one size in the whole model, so other inputs, outputs and declarations that
have it get the same number; a size that the model declares already must be the same. A first dimension for
which nothing is given is the batch, and becomes 1. The file then takes inputs of these shapes only: those are
what a run verifies it on, and the card says so. What became certain is computed by `fold_constants`,
whose option ``max_bytes`` this pass has as well, and whose nodes are named among those that it replaced.
Functions and operators of other domains stay as they are.
Source: the definition of a graph's inputs; https://onnx.ai/onnx/repo-docs/IR.html, "static tensor shapes".
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import onnx_ir as ir
from pydantic import Field

from hubpublish.errors import UsageError
from hubpublish.model import scopes
from hubpublish.passes.base import PassOutcome, Rewritten
from hubpublish.passes.fold_constants import FoldConstants, FoldConstantsOptions
from hubpublish.passes.tidy import TidyPass

INPUT = "input"  # stands where a report has the op type of a node

_Size = Annotated[int, Field(strict=True, ge=1, lt=2**31)]


class StaticShapeOptions(FoldConstantsOptions):
    """The shapes that inputs get."""

    shapes: dict[str, tuple[_Size, ...]] = Field(
        default_factory=dict,
        description="Shapes of inputs with symbolic dimensions, by the input's name. Without one, a symbolic "
        "first dimension becomes 1 and others stay as they are.",
    )


class StaticShape(TidyPass[StaticShapeOptions]):
    """Fixes the symbolic dimensions of inputs, and folds what is certain then."""

    name = "static_shape"
    exact = True
    fixes_shapes = True
    summary = "Inputs take one shape only, and what follows from it is stored as constants"
    Options = StaticShapeOptions

    def tidy(self, model: ir.Model, outcome: PassOutcome) -> None:
        sizes = _sizes(model, self.options.shapes)
        for value in model.graph.inputs:
            if value.shape is None and value.name in self.options.shapes:
                value.shape = ir.Shape([None] * len(self.options.shapes[value.name]))
            given = self.options.shapes.get(value.name or "")
            if _settle(value, sizes, given if given is not None else (1,)):
                outcome.rewritten.append(Rewritten(node=value.name or "", op=INPUT, scope="main", into={}))
                outcome.modified = True
        for value in _declared(model):
            _settle(value, sizes)
        left = None if self.limit is None else max(self.limit - len(outcome.rewritten), 0)
        folded = FoldConstants(FoldConstantsOptions(max_bytes=self.options.max_bytes), limit=left)(model)
        outcome.rewritten += folded.rewritten
        outcome.skipped += folded.skipped
        outcome.modified |= folded.modified


def _sizes(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size that each name of a dimension stands for.

    Raises:
        UsageError: The model has no such input, or the shape is not one that it can have.
    """
    inputs = {value.name or "": value for value in model.graph.inputs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            close = difflib.get_close_matches(name, inputs, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"its inputs: {', '.join(inputs) or 'none'}"
            raise _wrong(f"the model has no input {name!r}", hint)
        declared = inputs[name].shape
        if declared is not None and not _can_be(declared, shape):
            text = f"input {name!r} cannot have the shape {list(shape)}: the model declares {declared}"
            raise _wrong(text, "give the sizes that the model declares where it declares numbers")
        for size, dim in zip(shape, declared or (), strict=False):
            symbol = dim.value if isinstance(dim, ir.SymbolicDim) else None
            if symbol and sizes.setdefault(symbol, size) != size:
                text = f"dimension {symbol} cannot be {sizes[symbol]} and {size}"
                raise _wrong(text, f"it has one size in all inputs; correct the shape of {name!r}")
    for value in model.graph.inputs:
        first = value.shape[0] if value.shape else None
        if isinstance(first, ir.SymbolicDim) and first.value and value.name not in shapes:
            sizes.setdefault(first.value, 1)
    return sizes


def _can_be(declared: ir.Shape, shape: Sequence[int]) -> bool:
    # The runtime takes a negative length for one that is not declared.
    return len(declared) == len(shape) and all(
        not isinstance(dim, int) or dim < 0 or dim == size for dim, size in zip(declared, shape, strict=True)
    )


def _wrong(what: str, hint: str) -> UsageError:
    return UsageError(f"static_shape: {what}", hint=hint)


def _declared(model: ir.Model) -> Iterator[ir.Value]:
    """What is declared of values of the main graph and its bodies; functions have dimensions of their own."""
    for scope in scopes(model):
        if scope.function is None:
            yield from scope.graph.inputs
            for node in scope.graph:
                yield from node.outputs


def _settle(value: ir.Value, sizes: Mapping[str, int], given: Sequence[int] = ()) -> bool:
    """Put numbers for the names and for the lengths that are given; whether anything was left to settle."""
    if value.shape is None:
        return False
    dims: list[int | ir.SymbolicDim | None] = []
    for dim, length in itertools.zip_longest(value.shape, given[: len(value.shape)]):
        name = dim.value if isinstance(dim, ir.SymbolicDim) else None
        is_open = not isinstance(dim, int) or dim < 0
        dims.append(sizes.get(name or "", length if length is not None else dim) if is_open else dim)
    if dims == list(value.shape):
        return False
    value.shape = ir.Shape(dims)
    return True
