"""Which operators a runtime has WebGPU kernels for, by version; read from ``kernels/``.

A file there is a table read from a runtime (``native-0.4.0.json``, written by
``python -m hubpublish.devices.refresh``), or one that names the table it is based on and what differs,
each difference with its source. What such a file does not name was not measured: it is believed.
To add a runtime, add a file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, Self

import onnx
import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

TABLES: Final = files("hubpublish.devices") / "kernels"
INHERITED: Final = ("cpu_kernels", "first_opset", "changes_layout", "signatures", "splits_itself")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kernel(_Frozen):
    """A kernel: for an operator as it stands since these opsets, with these element types.

    Attributes:
        first, last: The operator's ``since_version`` lies between them. A kernel that is registered
            without an end fits the version that it begins with alone, so there is always a last one.
        types: Element types by the name of a type constraint, or of an input or output.
    """

    first: int
    last: int
    types: dict[str, frozenset[str]]

    @classmethod
    def parse(cls, entry: Sequence[Any]) -> Self:
        """From ``["13-18", {"T": "float float16"}]``, as it stands in a table."""
        versions, types = entry
        first, _, last = versions.partition("-")
        split = {name: frozenset(dtypes.split()) for name, dtypes in types.items()}
        return cls(first=int(first), last=int(last or first), types=split)


class Failure(_Frozen):
    """Nodes that a runtime takes and then does not run, or not rightly.

    Attributes:
        op: Operator.
        attributes: Integer attributes that the node must have; none: any node.
        output: The node has this output; None: any node.
        empty: This input certainly has no elements; None: any node.
        threes: Its weights certainly are such as a convolution reads in vectors of three: one group of input
            channels that are a multiple of 3, not of 4, and more than 3, a multiple of 4 output channels,
            and a kernel larger than one.
        happens: What the runtime does then.
        source: How that is known.
    """

    op: str
    attributes: dict[str, int] = {}
    output: int | None = None
    empty: int | None = None
    threes: bool = False
    happens: str
    source: str


class Limit(_Frozen):
    """Storage buffers that a runtime gives the shader of an operator, whatever the device grants."""

    storage_buffers: int
    source: str


class Signature(_Frozen):
    """Type parameters of an operator, ``name:T``; last ones repeat.

    ``of_others`` tells whether ONNX defines it by others. In a table are those that onnx does not know.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    of_others: bool = False


class Runtime(_Frozen):
    """A runtime of one version.

    Attributes:
        kernels: By operator; ``domain::Type`` outside ONNX's own domain.
        measured: Operators for which this runtime was tried; None if the table was read from it.
        cpu_kernels: What the CPU has for operators that ONNX defines by others: where neither side has a
            kernel for one, the runtime puts those others in its place.
        first_opset: In a model of an earlier opset nothing runs on the GPU.
        changes_layout: Operators that run with the channels last, between Transposes that the runtime adds.
        shape_arithmetic_on_cpu: Whether it leaves what is computed from shapes on the CPU, although
            there are kernels.
        splits_itself: Operators that it runs as several shaders if they are too wide for one.
        limits: Storage buffers by operator, where the runtime has a limit of its own.
        failures: What goes wrong although there is a kernel, or without one on the CPU either.
    """

    name: str
    summary: str
    source: str
    based_on: str | None = None
    kernels: dict[str, tuple[Kernel, ...]]
    measured: frozenset[str] | None = None
    cpu_kernels: dict[str, tuple[Kernel, ...]]
    first_opset: int
    changes_layout: frozenset[str]
    shape_arithmetic_on_cpu: bool
    splits_itself: frozenset[str] = frozenset()
    limits: dict[str, Limit] = {}
    failures: tuple[Failure, ...] = ()
    signatures: dict[str, Signature] = {}

    def believed(self, op: str) -> bool:
        """Whether what the table says of an operator was neither read from this runtime nor tried."""
        return self.measured is not None and op not in self.measured


@functools.cache
def runtime_names() -> tuple[str, ...]:
    """The listed runtimes, oldest web release first, the native ones last."""
    names = [entry.name.removesuffix(".json") for entry in TABLES.iterdir() if entry.name.endswith(".json")]
    return tuple(sorted(names, key=lambda name: (name.startswith("native"), name)))


@functools.cache
def read_runtime(name: str) -> Runtime:
    """The runtime of that name.

    Raises:
        KeyError: There is none.
    """
    if name not in runtime_names():
        raise KeyError(name)
    data: dict[str, Any] = json.loads((TABLES / f"{name}.json").read_text("utf-8"))
    kernels = _parsed(data.pop("kernels"))
    if base_name := data.get("based_on"):
        base = read_runtime(base_name)
        kernels = {**base.kernels, **kernels}
        data = {**{name: getattr(base, name) for name in INHERITED}, **data}
    else:
        data["cpu_kernels"] = _parsed(data["cpu_kernels"])
    return Runtime(name=name, kernels={op: each for op, each in kernels.items() if each}, **data)


def _parsed(entries: Mapping[str, Any]) -> dict[str, tuple[Kernel, ...]]:
    return {
        op: tuple(Kernel.parse(each) for each in (entry["kernels"] if isinstance(entry, Mapping) else entry))
        for op, entry in entries.items()
    }


def all_runtimes() -> tuple[Runtime, ...]:
    """Every listed runtime."""
    return tuple(read_runtime(name) for name in runtime_names())


@functools.cache
def parameters_of(op_type: str, domain: str, opset: int) -> tuple[int, Signature] | None:
    """``since_version`` and type parameters of an operator; None if the installed onnx does not know it."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    return schema.since_version, Signature(
        inputs=tuple(f"{each.name}:{each.type_str}" for each in schema.inputs),
        outputs=tuple(f"{each.name}:{each.type_str}" for each in schema.outputs),
        of_others=is_of_others(schema),
    )


def is_of_others(schema: Any) -> bool:
    """Whether ONNX defines an operator by others."""
    return bool(schema.has_function or schema.has_context_dependent_function)


@functools.cache
def signature_in_tables(op: str) -> Signature | None:
    """Type parameters of an operator that onnx does not know and a table does."""
    return next((each.signatures[op] for each in all_runtimes() if op in each.signatures), None)


def dtype_name(dtype: ir.DataType) -> str:
    """As in the tables: ``float``, ``float16``, ``int64``."""
    return dtype.name.lower()
