"""Nodes that would become the same if a value were stored, where that changes what is rounded to float16.

Of two constants with the same few elements ONNX Runtime makes one when it loads a model, and then of two
nodes with the same inputs, too. It does so before it folds, so that what it folds itself is not looked at.
In float32 that changes nothing. But what is rounded to float16 depends on what a node's result is given to,
which is then what both were given to.
Source: onnxruntime's constant_sharing.cc and common_subexpression_elimination.cc; what version 1.32 does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import onnx_ir as ir

from hubpublish.model.constants import behind_identities, constant_tensor_of, is_onnx
from hubpublish.passes.half.search import may_have_halves
from hubpublish.passes.proofs.certain import Array

MOST_SHARED: Final = 8  # elements of constants of which the runtime makes one
MOST_BYTES: Final = 8192  # of a constant that is compared with others

_Key: TypeAlias = tuple[object, ...]
_Inputs: TypeAlias = tuple[ir.Value | None, ...]


class Twins:
    """Answers for one model.

    Args:
        model: The model.
        arrays: What may be stored.
    """

    def __init__(self, model: ir.Model, arrays: Mapping[ir.Value, Array]) -> None:
        self._rounds = may_have_halves(model)
        self._arrays = arrays
        self._alike: dict[ir.Value, dict[_Key, set[_Inputs]]] = {}

    def makes(self, value: ir.Value) -> bool:
        """Whether a node that is given ``value`` may be taken for another if ``value`` is stored."""
        return self._rounds and any(self._has_twin(user) for user in _users(value))

    def _has_twin(self, node: ir.Node) -> bool:
        """Whether another node does the same to the same inputs, if constants count by what they hold."""
        live = [value for value in _inputs(node) if value is not None and self._contents(value) is None]
        if not live:
            return False
        if live[0] not in self._alike:
            alike = self._alike[live[0]] = defaultdict(set)
            for user in _users(live[0]):
                alike[self._key(user)].add(_inputs(user))
        return len(self._alike[live[0]][self._key(node)]) > 1

    def _key(self, node: ir.Node) -> _Key:
        given = [None if value is None else self._contents(value) or value for value in _inputs(node)]
        attributes = sorted((each.name, _comparable(each.value)) for each in node.attributes.values())
        return (node.domain, node.op_type, *attributes, *given)

    def _contents(self, value: ir.Value) -> _Key | None:
        """What a constant holds, or will hold; None for other values."""
        array, tensor = self._arrays.get(value), constant_tensor_of(value)
        if array is not None:
            known = array.tobytes() if array.nbytes <= MOST_BYTES else id(array)
            return (ir.DataType.from_numpy(array.dtype), array.shape, known)
        if tensor is not None and tensor.dtype != ir.DataType.STRING:
            known = tensor.tobytes() if tensor.nbytes <= MOST_BYTES else id(tensor)
            return (tensor.dtype, tuple(tensor.shape.numpy()), known)
        return None


def _inputs(node: ir.Node) -> _Inputs:
    return tuple(behind_identities(value) for value in node.inputs)


def _comparable(value: object) -> str:
    """Equal for equal attributes; a graph is equal to nothing else."""
    return repr(value) if isinstance(value, (int, float, str, Sequence)) else str(id(value))


def _users(value: ir.Value) -> Iterator[ir.Node]:
    """The nodes that are given a value, Identities left out."""
    pending, seen = [value], {value}
    while pending:
        for user in pending.pop().consumers():
            if is_onnx(user, "Identity"):
                pending += [output for output in user.outputs if output not in seen]
                seen.update(user.outputs)
            else:
                yield user
