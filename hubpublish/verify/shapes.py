"""Settling the shape of every input: declared sizes, given shapes, symbols that inputs share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hubpublish.errors import UsageError
from hubpublish.verify.asking import to_set
from hubpublish.verify.signature import TensorInput


class Shapes:
    """The shapes of all inputs together: a symbol has one size wherever it stands.

    A symbolic first dimension is the batch and 1 unless something says otherwise.

    Args:
        inputs: The inputs that are fed.
        given: Whole shapes by input name.
        arrays: Values by input name; one that is not a scalar settles its input's shape.

    Raises:
        UsageError: Two of these contradict each other.
    """

    def __init__(
        self,
        inputs: Sequence[TensorInput],
        given: Mapping[str, Sequence[int]],
        arrays: Mapping[str, np.ndarray[Any, Any]],
    ) -> None:
        self._known: dict[str, tuple[int, ...]] = {}
        self._symbols: dict[str, tuple[int, str]] = {}
        for tensor in inputs:
            array = arrays.get(tensor.name)
            if tensor.name in given:
                self._settle(tensor, tuple(given[tensor.name]), "shape")
            if array is not None and (array.ndim or tensor.shape in ((), None)):
                self._settle(tensor, array.shape, "value")
        for tensor in inputs:
            if tensor.name not in self._known and tensor.shape and isinstance(tensor.shape[0], str):
                self._symbols.setdefault(tensor.shape[0], (1, tensor.name))

    def _settle(self, tensor: TensorInput, shape: tuple[int, ...], what: str) -> None:
        already = self._known.get(tensor.name)
        if already is not None:
            if shape not in ((), already):  # a scalar fills the shape
                raise _contradiction(tensor, what, shape, f"its shape is given as {_text(already)}")
            return
        declared = tensor.shape
        if declared is not None and len(declared) != len(shape):
            raise _contradiction(tensor, what, shape, f"the model declares {_text(declared)}")
        for size, dimension in zip(shape, declared or (), strict=False):
            if isinstance(dimension, int) and dimension != size:
                raise _contradiction(tensor, what, shape, f"the model declares {_text(declared or ())}")
            if isinstance(dimension, str):
                known, by = self._symbols.setdefault(dimension, (size, tensor.name))
                if known != size:
                    raise _contradiction(
                        tensor, what, shape, f"{_named(dimension)} is {known} in input {by!r}"
                    )
        self._known[tensor.name] = shape

    def of(self, tensor: TensorInput) -> tuple[int, ...]:
        """The input's shape.

        Raises:
            UsageError: A dimension, or even the rank, is not settled.
        """
        if tensor.name in self._known:
            return self._known[tensor.name]
        if tensor.shape is None:
            raise _unsettled(tensor, "the model declares no shape for it", "1, 3, ...")
        sizes: list[int] = []
        for axis, dimension in enumerate(tensor.shape):
            if isinstance(dimension, int):
                sizes.append(dimension)
            elif isinstance(dimension, str) and dimension in self._symbols:
                sizes.append(self._symbols[dimension][0])
            elif axis == 0:
                sizes.append(1)
            else:
                example = ", ".join(
                    str(size) if isinstance(size, int) else "N" for size in (*sizes, *tensor.shape[axis:])
                )
                symbol = f" ({_named(dimension)})" if dimension else ""
                raise _unsettled(tensor, f"dimension {axis}{symbol} is symbolic", example)
        return tuple(sizes)


def check_names(mapping: Iterable[str], inputs: Sequence[TensorInput], option: str) -> None:
    """Raise UsageError when ``mapping`` names an input that the model does not have."""
    names = [tensor.name for tensor in inputs]
    for name in mapping:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"its inputs: {', '.join(names) or 'none'}"
            raise UsageError(f"the model has no input {name!r}", where=f"verify.inputs.{option}", hint=hint)


def _unsettled(tensor: TensorInput, why: str, example: str) -> UsageError:
    return UsageError(
        f"the shape of input {tensor.name!r} is not known: {why}",
        where=f"input {tensor.name}",
        kind="unknown_shape",
        **to_set("set", "shapes", tensor.name, f"[{example}]"),
    )


def _contradiction(tensor: TensorInput, what: str, shape: Sequence[int], but: str) -> UsageError:
    return UsageError(
        f"the {what} given for input {tensor.name!r} is {_text(shape)}, but {but}",
        where=f"input {tensor.name}",
        kind="shape_mismatch",
        **to_set("correct", f"{what}s", tensor.name),
    )


def _text(shape: Sequence[object]) -> str:
    return f"[{', '.join('?' if size is None else _named(size) for size in shape)}]"


def _named(size: object) -> str:
    """A size, or the name of one: in quotes if it could be taken for a number."""
    return repr(size) if isinstance(size, str) and not size.isidentifier() else str(size)
