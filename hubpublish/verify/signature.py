"""What a model takes and gives, read from its file without loading weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import google.protobuf.message
import numpy as np
import onnx

from hubpublish.errors import SourceError, UnsupportedModelError, UsageError
from hubpublish.model.external import checked_location, locations

Dimension = int | str | None  # a size, a symbol, or neither


@dataclass(frozen=True)
class TensorInput:
    """A graph input: ``shape`` is None when even its rank is not declared.

    Attributes:
        dtype: As ONNX names it, with the bits spelled out: ``float32``, ``bfloat16``, ``int4``.
        onnx: ONNX's number of the type.
        optional: An initializer has the same name, so it need not be fed.
    """

    name: str
    dtype: str
    onnx: int
    shape: tuple[Dimension, ...] | None
    optional: bool

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The type in numpy, one element a value; ml_dtypes' where numpy has none."""
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(self.onnx))

    @property
    def kind(self) -> str:
        """``float``, ``int``, ``bool``, ``complex`` or ``string``."""
        if self.dtype.startswith(("float", "bfloat")):
            return "float"
        if self.dtype.startswith(("int", "uint")):
            return "int"
        return "complex" if self.dtype.startswith("complex") else self.dtype

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest value of an integer or truth value."""
        if self.kind == "bool":
            return 0, 1
        info = np.iinfo(self.numpy.name)
        return int(info.min), int(info.max)

    @property
    def packed(self) -> bool:
        """Whether several elements share a byte."""
        return self.dtype in ("int4", "uint4", "int2", "uint2", "float4e2m1", "float6e2m3", "float6e3m2")


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a model, and its external data files."""

    path: Path
    inputs: tuple[TensorInput, ...]
    outputs: tuple[str, ...]
    external: tuple[str, ...]

    @property
    def required(self) -> tuple[TensorInput, ...]:
        """The inputs that no initializer stands in for."""
        return tuple(tensor for tensor in self.inputs if not tensor.optional)


class UnreadableModel(Exception):  # noqa: N818  a result, not an error
    """The file is no ONNX model: no runtime will load it."""


def read(path: Path) -> Signature:
    """The signature of the model at ``path``.

    Raises:
        UsageError: There is no such file.
        SourceError: A file of its external data is missing, or lies outside of its folder.
        UnreadableModel: It cannot be parsed, or holds no graph.
        UnsupportedModelError: An input or output is of a kind that cannot be fed or compared.
    """
    if not path.is_file():
        raise UsageError(
            "there is no such model", where=str(path), hint="check the path", kind="file_not_found"
        )
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except google.protobuf.message.DecodeError as error:
        raise UnreadableModel("the file cannot be parsed as an ONNX model") from error
    if not model.HasField("graph"):
        raise UnreadableModel("the file holds no graph")
    graph = model.graph
    defaults = {tensor.name for tensor in graph.initializer}
    defaults |= {sparse.values.name for sparse in graph.sparse_initializer}
    inputs = tuple(_input(value, value.name in defaults, path) for value in graph.input)
    for value in graph.output:
        _check_output(value, path)
    external = sorted({checked_location(location, str(path)) for location in locations(model)})
    for location in external:
        _check_data(path.parent / location)
    return Signature(path, inputs, tuple(value.name for value in graph.output), tuple(external))


def dtype_name(elem_type: int) -> str:
    """ONNX's number of a type as a name with the bits spelled out."""
    name = str(onnx.TensorProto.DataType.Name(elem_type)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def onnx_type(dtype: str) -> int:
    """The number of the type that ``dtype_name`` names so."""
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype).upper()
    return int(onnx.TensorProto.DataType.Value(name))


def _input(value: onnx.ValueInfoProto, optional: bool, path: Path) -> TensorInput:
    if not value.type.HasField("tensor_type"):
        kind = (value.type.WhichOneof("value") or "untyped").removesuffix("_type")
        raise UnsupportedModelError(
            f"input {value.name!r} is not a tensor but a {kind}, which cannot be made up or given",
            where=str(path),
            hint="verify this model with a script of its own",
        )
    tensor = value.type.tensor_type
    shape: tuple[Dimension, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(_dimension(dim) for dim in tensor.shape.dim)
    return TensorInput(value.name, dtype_name(tensor.elem_type), tensor.elem_type, shape, optional)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None  # the runtime takes it for free
    return dim.dim_param or None


def _check_output(value: onnx.ValueInfoProto, path: Path) -> None:
    kind = value.type.WhichOneof("value")
    if kind == "sparse_tensor_type":
        raise UnsupportedModelError(
            f"output {value.name!r} is a sparse tensor, which cannot be compared",
            where=str(path),
            hint="make it dense at the end of the model",
        )


def _check_data(path: Path) -> None:
    if not os.path.isfile(path):  # Path.is_file raises for a name that is too long
        raise SourceError(
            "the model's external data is missing",
            where=str(path),
            hint="put the file beside the model",
            kind="external_data_missing",
        )


def external_location(tensor: onnx.TensorProto) -> str | None:
    """Where the tensor's data lies, relative to the model's folder; None when it is in the file."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return None
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def mismatch(
    original: Signature, rewritten: Signature, shapes: Mapping[str, Sequence[int]] | None = None
) -> str | None:
    """How the two signatures differ, as a sentence; None when they do not.

    Args:
        original: The signature as it was.
        rewritten: The signature as it is now.
        shapes: Of inputs by name; in these the rewritten model need not take any other shape.
    """
    before = [(tensor.name, tensor.dtype) for tensor in original.required]
    after = [(tensor.name, tensor.dtype) for tensor in rewritten.required]
    if before != after:
        return f"the rewritten model takes other inputs: {_listed(after)} instead of {_listed(before)}"
    taken = {tensor.name: tensor for tensor in rewritten.inputs}
    for tensor in original.inputs:
        if tensor.name not in taken:
            return f"the rewritten model no longer takes the optional input {tensor.name!r}"
        now = taken[tensor.name]
        if now.dtype != tensor.dtype:
            return f"the rewritten model takes input {tensor.name!r} as {now.dtype}, not as {tensor.dtype}"
        if not _takes_every_shape(now, tensor) and (shapes or {}).get(tensor.name) != now.shape:
            only = f"{_shown(now.shape)}, where the original takes {_shown(tensor.shape)}"
            return f"the rewritten model takes input {tensor.name!r} only in the shape {only}"
    if original.outputs != rewritten.outputs:
        return (
            f"the rewritten model gives other outputs: {', '.join(rewritten.outputs)} "
            f"instead of {', '.join(original.outputs)}"
        )
    return None


def narrowed(original: Signature, rewritten: Signature) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs that the rewritten model takes in no other, where the original takes more."""
    before = {tensor.name: tensor for tensor in original.inputs}
    return {
        now.name: sizes
        for now in rewritten.inputs
        if now.name in before and not _takes_every_shape(now, before[now.name])
        if now.shape is not None
        if len(sizes := tuple(size for size in now.shape if isinstance(size, int))) == len(now.shape)
    }


def _takes_every_shape(now: TensorInput, before: TensorInput) -> bool:
    """Whether an input takes what another takes, by the sizes that they declare."""
    if now.shape is None:
        return True
    if before.shape is None or len(before.shape) != len(now.shape):
        return False
    pairs = zip(now.shape, before.shape, strict=True)
    return all(mine == its for mine, its in pairs if isinstance(mine, int))


def _shown(shape: tuple[Dimension, ...] | None) -> str:
    return "any" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _listed(tensors: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in tensors) or "none"
