"""Where ONNX Runtime may fuse other nodes if a value loses a use, or a node goes.

By default the runtime computes several nodes as one, such as a MatMul and the Add behind it, and rounds
otherwise then. It does so where nothing else takes what is between them, and for some only with a constant;
it moves a Transpose past what follows, and then adds up in another order. So also a node of which nobody
sees what it computes, or which changes nothing, decides about bits: with it two others are not neighbours,
or not alone. What is asked here is whether that is certainly not so; the runtime fuses less than is assumed.
Source: the optimizers of onnxruntime 1.32 for the CPU; bits that were seen to differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import onnx_ir as ir

from hubpublish.model import scopes
from hubpublish.model.constants import is_onnx
from hubpublish.passes.folding.operators import COMPUTED, ON_HALVES
from hubpublish.passes.half.precision import HALF
from hubpublish.passes.proofs.facts import Proofs
from hubpublish.passes.proofs.types import Types
from hubpublish.passes.reaches import Answers, reaches
from hubpublish.passes.transposes import Transposed
from hubpublish.passes.validity import why_not_onnx

#: Operators whose result the runtime may compute together with what follows, if it is of floats.
FUSED: Final = frozenset(
    """
    Add Attention AveragePool BatchNormalization Cast Clip Conv ConvTranspose DepthToSpace DequantizeLinear
    Div Dropout Einsum Erf Exp Gelu Gemm GlobalAveragePool GlobalMaxPool GroupNormalization HardSigmoid
    HardSwish InstanceNormalization LayerNormalization LeakyRelu MatMul Max MaxPool Min Mul Pad Pow PRelu
    RMSNormalization Reciprocal ReduceMean ReduceSum Relu Resize Sigmoid Softmax Softplus Sqrt Sub Sum Tanh
    Upsample Where
    """.split()  # noqa: SIM905
)

#: Those whose result need not be of floats for that.
_OF_ANY_TYPE: Final = frozenset(
    """
    ConvInteger Dropout DynamicQuantizeLinear If MatMulInteger QLinearConv QLinearMatMul QuantizeLinear
    """.split()  # noqa: SIM905
)

#: Operators that give elements of an input on as they are, which the runtime may leave out or fuse with
#: others; and the numbers of such inputs. Concat has more. A Gather stays, and nothing is fused across it.
_MOVERS: Final = {
    **dict.fromkeys(("Expand", "Flatten", "Identity", "Reshape", "Slice", "Split"), (0,)),
    **dict.fromkeys(("Squeeze", "Tile", "Transpose", "Unsqueeze"), (0,)),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), (0, 2)),
}

#: Operators that are fused with nothing before them.
_ENDS: Final = frozenset(
    """
    ArgMax ArgMin Equal Gather GatherElements GatherND Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual
    NonZero Shape Size
    """.split()  # noqa: SIM905
)

FLOATS: Final = frozenset(f"tensor({name})" for name in ("float16", "bfloat16", "float", "double"))


class Fusing:
    """Answers for one model, while its nodes are sorted and what is asked about stays as it is.

    Args:
        model: The model.
        proofs: Of it.
        types: Of it.
    """

    def __init__(self, model: ir.Model, proofs: Proofs, types: Types) -> None:
        self._model = model
        self._proofs = proofs
        self._types = types
        self._functions = {function.graph: key for key, function in model.functions.items()}
        self._calls: dict[ir.OperatorIdentifier, list[ir.Node]] = {}
        self._transposed = Transposed(scope.graph for scope in scopes(model))
        self._ahead: Answers = {}
        self._behind: Answers = {}
        self._variable: Answers = {}

    def needed_among(self, unused: Iterable[ir.Node]) -> set[ir.Node]:
        """Nodes without which others may be fused, and what is computed from them, of those that may go.

        Args:
            unused: Nodes that may go as soon as nothing uses them.
        """
        going = _going(unused)
        stays: Answers = {}
        needed: set[ir.Node] = set()
        for node in reversed(going):  # those that give to others first: the runtime may leave out the first
            for value in node.inputs:
                if value is not None and (value.producer() in needed or self.is_shared(value, going, stays)):
                    needed.add(node)
        return needed

    def allows_none(self, mover: ir.Node) -> bool:
        """Whether an Identity, which the runtime leaves out, certainly changes nothing around it.

        Args:
            mover: Gives its first input on as it is, and so may keep what is before from what is behind it.
        """
        data, output = mover.inputs[0], mover.outputs[0]
        if data is None or not self._goes_to_arithmetic(output):
            return True
        if self._is_constant(data):  # what is behind it is then given a constant, if it is none yet
            return all(value is None or self._is_constant(value) for value in mover.inputs)
        return not self._is_fusable(data)

    def is_shared(self, value: ir.Value, going: Mapping[ir.Node, None], stays: Answers) -> bool:
        """Whether a value is fusable, and still there without the nodes that are going."""
        producer = value.producer()
        if producer in going:
            return False
        if value not in stays:
            is_used = value.is_graph_output() or any(user not in going for user in value.consumers())
            several = producer is not None and len(producer.outputs) > 1
            stays[value] = (is_used or several) and self._is_fusable(value)
        return stays[value]

    def _is_fusable(self, value: ir.Value) -> bool:
        """Whether the runtime may fuse the node that computes it, moved at most, with what follows."""
        return reaches(value, self._ahead, self._is_fused, self._moved_from)

    def _is_fused(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is None:
            return False
        if why_not_onnx(node, self._model) or node.op_type in _OF_ANY_TYPE:
            return True
        return (node.op_type in FUSED or value in self._transposed) and not self._types.never(value, FLOATS)

    def _moved_from(self, value: ir.Value) -> Iterable[ir.Value]:
        node = value.producer()
        if node is None:
            return self._given_by_callers(value)
        given = node.inputs if is_onnx(node, "Concat") else _inputs(node, _MOVERS.get(node.op_type, ()))
        return [each for each in given if each is not None]

    def _given_by_callers(self, value: ir.Value) -> Iterable[ir.Value]:
        """What an input of a function is, where it is called."""
        if not value.is_graph_input() or value.graph not in self._functions:
            return ()
        assert value.graph is not None
        position = value.graph.inputs.index(value)
        if not self._calls:
            for scope in scopes(self._model):
                for node in scope.graph:
                    if node.op_identifier() in self._model.functions:
                        self._calls.setdefault(node.op_identifier(), []).append(node)
        calls = self._calls.get(self._functions[value.graph], [])
        given = [call.inputs[position] for call in calls if position < len(call.inputs)]
        return [each for each in given if each is not None]

    def _goes_to_arithmetic(self, value: ir.Value) -> bool:
        """Whether more is done with a value, moved at most, than to give it, compare or measure it."""
        return reaches(value, self._behind, self._is_computed_with, _moved_to)

    def _is_computed_with(self, value: ir.Value) -> bool:
        if value.is_graph_output() and value.graph is not self._model.graph:
            return True
        return any(
            why_not_onnx(user, self._model) is not None
            or not (user.op_type in _ENDS or user.op_type == "Concat" or user.op_type in _MOVERS)
            for user in value.consumers()
        )

    def _is_constant(self, value: ir.Value) -> bool:
        """Whether the runtime certainly makes a constant of a value."""
        return not reaches(value, self._variable, self._varies, self._computed_from)

    def _varies(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is None:
            return not value.is_initializer() or value.is_graph_input()
        if why_not_onnx(node, self._model) or any(each.is_ref() for each in node.attributes.values()):
            return True
        if is_onnx(node, "Shape"):
            return self._proofs.of(value).values is None
        if node.op_type not in ON_HALVES and not self._types.never(value, HALF):
            return True  # the runtime does not fold it
        return node.op_type not in COMPUTED and node.op_type != "Constant"

    def _computed_from(self, value: ir.Value) -> Iterable[ir.Value]:
        node = value.producer()
        return (
            [each for each in node.inputs if each is not None] if node and not is_onnx(node, "Shape") else []
        )


def _inputs(node: ir.Node, numbers: Iterable[int]) -> list[ir.Value | None]:
    return [node.inputs[number] for number in numbers if number < len(node.inputs)]


def _moved_to(value: ir.Value) -> Iterable[ir.Value]:
    for user, number in value.uses():
        if is_onnx(user, "Concat") or (not user.domain and number in _MOVERS.get(user.op_type, ())):
            yield from user.outputs


def _going(nodes: Iterable[ir.Node]) -> dict[ir.Node, None]:
    """Those of the nodes that nothing uses, or only others of these."""
    given = dict.fromkeys(nodes)
    uses = {node: sum(len(value.uses()) for value in node.outputs) for node in given}
    going: dict[ir.Node, None] = {}
    pending = [node for node, count in uses.items() if not count]
    while pending:
        node = pending.pop()
        if any(value.is_graph_output() for value in node.outputs):
            continue
        going[node] = None
        for value in node.inputs:
            producer = value.producer() if value is not None else None
            if producer in uses:
                assert producer is not None
                uses[producer] -= 1
                if not uses[producer]:
                    pending.append(producer)
    return going
