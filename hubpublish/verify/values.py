"""Values that a user gives for an input: from a recipe, from the command line, from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hubpublish.errors import UsageError
from hubpublish.verify.asking import to_set
from hubpublish.verify.signature import TensorInput


def as_input(tensor: TensorInput, value: object) -> np.ndarray[Any, Any]:
    """The value as an array of the input's type, its shape as given.

    Raises:
        UsageError: The type cannot hold it.
    """
    if tensor.kind == "string":
        return np.array(value, dtype=object)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise _unfit(tensor, "it is ragged: its lists have different lengths") from error
    if array.dtype.kind not in "biufcV":
        raise _unfit(tensor, "it is text")
    if tensor.packed:
        raise _unfit(tensor, "ONNX Runtime cannot be fed that type from Python")
    if tensor.kind in ("int", "bool"):
        _check_integral(tensor, array)
    if array.dtype.kind == "c" and tensor.kind != "complex":
        raise _unfit(tensor, "it is complex")
    return array.astype(tensor.numpy)


def _check_integral(tensor: TensorInput, array: np.ndarray[Any, Any]) -> None:
    if array.dtype.kind not in "biuf" or not np.all(array == np.floor(array)):
        raise _unfit(tensor, "it is not a whole number")
    low, high = tensor.limits
    if array.size and not (low <= array.min() and array.max() <= high):
        raise _unfit(tensor, f"it is outside [{low}, {high}]")


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``x=1,3,224,224`` as a name and a shape; ``x=`` is a scalar."""
    name, _, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        shape = (-1,)
    if not name or any(size < 0 for size in shape):
        raise UsageError(
            f"{text!r} is no shape of an input", where="--shape", hint="write it as NAME=1,3,224,224"
        )
    return name, shape


def parse_value(text: str) -> tuple[str, Any]:
    """``sr=16000``, ``state=[0.5, 1]``, ``flag=true`` or ``text=hello`` as a name and a value.

    What is no JSON is text.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(
            f"{text!r} is no value of an input",
            where="--value",
            hint="write it as NAME=16000 or NAME=[0.5, 1]",
        )
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        return name, value
    return name, value if parsed is None or isinstance(parsed, dict) else parsed


def parse_input(text: str) -> tuple[str, np.ndarray[Any, Any]]:
    """``x=path/to/x.npy`` as a name and the array in that file."""
    name, equals, file = text.partition("=")
    if not name or not equals or not file:
        raise UsageError(
            f"{text!r} is no input from a file", where="--input", hint="write it as NAME=file.npy"
        )
    try:
        array = np.load(Path(file), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "it is not an array as numpy.save writes it"
        raise UsageError(
            f"cannot read the value of input {name!r}: {reason}",
            where=file,
            hint="write the file with numpy.save, without objects",
        ) from error
    if not isinstance(array, np.ndarray):
        raise UsageError(
            f"the file for input {name!r} holds several arrays", where=file, hint="use a .npy file"
        )
    return name, array


def _unfit(tensor: TensorInput, why: str) -> UsageError:
    return UsageError(
        f"the value given for input {tensor.name!r} does not fit its type, {tensor.dtype}: {why}",
        where=f"input {tensor.name}",
        kind="value_mismatch",
        **to_set("correct", "values", tensor.name),
    )
