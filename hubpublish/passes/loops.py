"""Whether a Loop may depend on how much ONNX Runtime infers about shapes.

A Loop that does not run even once makes outputs of the shape that the runtime infers for what its body gives,
with 0 for each length that it does not. So with such a Loop in a model, or in what is computed for it, a
rewrite from which more can be inferred, or less, changes what the model gives. Nothing is inferred where the
model declares all lengths.
Source: what onnxruntime 1.32 does, with optimizations off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.constants import constant_tensor_of, is_onnx
from hubpublish.passes.proofs.certain import Dims
from hubpublish.passes.reaches import Answers, reaches

REASON: Final = "the runtime may infer more of its shape than before, on which a Loop may depend"

_WITHOUT_DATA: Final = frozenset({"ConstantOfShape", "EyeLike", "Range"})
_SHAPED: Final = frozenset(
    """
    AffineGrid CenterCropPad Col2Im Compress Expand MaxUnpool NonMaxSuppression NonZero OneHot Pad
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Reshape Resize Slice Split SplitToSequence Squeeze Tile TopK Unique Unsqueeze Upsample
    """.split()  # noqa: SIM905
)


class Loops:
    """Answers for one model."""

    def __init__(self, model: ir.Model) -> None:
        found = {
            node.op_type for scope in scopes(model) for node in scope.graph if is_onnx(node, "Loop", "Scan")
        }
        self._main = model.graph
        self._uncertain: Answers = {}
        self._shaping: Answers = {}
        self._any = "Loop" in found
        self.need_inferred = bool(found)
        """Whether the model has a Loop, or a Scan, which fails without the shapes of its body's outputs."""

    def may_see(self, value: ir.Value, shape: Dims | None) -> bool:
        """Whether a Loop may give something else if the runtime infers another shape for ``value``.

        Args:
            value: What a rewrite is about.
            shape: All that can be inferred of it; None if that is not known.
        """
        return self._any and (shape is None or not _declares(value, shape))

    def may_see_more(self, value: ir.Value, shape: Dims | None) -> bool:
        """As `may_see`, where nothing is inferred otherwise but what depends on computed shapes."""
        return self.may_see(value, shape) and self._is_uncertain(value)

    def may_see_constant(self, value: ir.Value, shape_of: Callable[[ir.Value], Dims | None]) -> bool:
        """Whether a Loop may give something else if ``value`` is stored as a constant."""
        if self.may_see_more(value, shape_of(value)):
            return True

        def shapes_others(given: ir.Value) -> bool:
            shaped = (output for user in given.consumers() if is_shaped(user) for output in user.outputs)
            return any(self.may_see(output, shape_of(output)) for output in shaped)

        def goes_on(given: ir.Value) -> Iterator[ir.Value]:
            for user in given.consumers():
                if not is_shaped(user):
                    yield from user.outputs

        return self._any and reaches(value, self._shaping, shapes_others, goes_on)

    def _is_uncertain(self, value: ir.Value) -> bool:
        """Whether the runtime may infer less of the shape of a value than is certain."""
        return reaches(value, self._uncertain, self._is_shaped_by_computed, _inputs)

    def _is_shaped_by_computed(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is None:
            return value.is_graph_input() and value.graph is not self._main
        shaping = node.inputs if node.op_type in _WITHOUT_DATA else node.inputs[1:]
        return is_shaped(node) and any(
            each is not None and constant_tensor_of(each) is None for each in shaping
        )


def is_shaped(node: ir.Node) -> bool:
    """Whether the shape of what a node gives depends on what an input holds; or may, in other domains."""
    return node.domain != "" or node.op_type in _WITHOUT_DATA or node.op_type in _SHAPED


def _inputs(value: ir.Value) -> list[ir.Value]:
    node = value.producer()
    return [] if node is None else [each for each in node.inputs if each is not None]


def _declares(value: ir.Value, shape: Dims) -> bool:
    """Whether the model says which of its lengths ``value`` has, so that the runtime need not infer them."""
    declared = None if value.shape is None else tuple(value.shape)
    if declared is None or len(declared) != len(shape):
        return False
    return all(length in (None, said) for said, length in zip(declared, shape, strict=True))
