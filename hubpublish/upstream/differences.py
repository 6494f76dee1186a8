"""What differs between two ONNX models in the words of ONNX: operators, interface, weights."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from hubpublish.model import graph_statistics, load
from hubpublish.upstream.digests import Digests, Weight, model_digests

LARGE = 2**24  # bytes of weights; to look for what is unreachable takes a moment


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelFacts(_Frozen):
    """One model in figures.

    Attributes:
        nodes: Of all graphs in it.
        opsets: Imported version by domain; that of ONNX's own operators is under ``""``.
        ir_version: ONNX's IR version.
        inputs: Name to type and shape, as in ``float32 [1, 3, H, W]``, in order.
        outputs: Likewise.
        weights: How many tensors; whole numbers of up to 1 KiB count as part of the graph.
        weight_bytes: Their size in bytes.
    """

    nodes: int
    opsets: dict[str, int]
    ir_version: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    weights: int
    weight_bytes: int


@dataclass(frozen=True)
class ModelSummary:
    """What is compared of a model: nothing in it refers to the model itself, which may be large."""

    facts: ModelFacts
    ops: Counter[str]
    weights: Counter[Weight]
    digests: Digests


class WeightsDifference(_Frozen):
    """Weights by content: ``added`` are not in the old model, ``removed`` not in the new; sizes in bytes."""

    equal: bool
    added: int
    added_bytes: int
    removed: int
    removed_bytes: int


class ValueChange(_Frozen):
    """An input or output whose type or shape changed, or that is new or gone."""

    name: str
    kind: Literal["input", "output"]
    old: str | None
    new: str | None


class ModelDifference(_Frozen):
    """One model of a recipe, before and after.

    Attributes:
        path: Its path in the source repo.
        reason: Why there is no comparison, if there is none.
        old: The old model; None if it cannot be had or read.
        new: The new one; None if it cannot be read.
        equal: Whether both compute the same with the same weights, by their graphs.
        graph_equal: Whether the graphs are equal apart from the content of the weights.
        weights: How the weights differ.
        ops_added: Op types of which the new model has more, and how many more.
        ops_removed: Op types of which it has fewer, and how many fewer.
        interface: Inputs and outputs that changed.
    """

    path: str
    reason: str | None = None
    old: ModelFacts | None = None
    new: ModelFacts | None = None
    equal: bool | None = None
    graph_equal: bool | None = None
    weights: WeightsDifference | None = None
    ops_added: dict[str, int] = {}
    ops_removed: dict[str, int] = {}
    interface: tuple[ValueChange, ...] = ()


def summarize(path: Path) -> ModelSummary:
    """Read a model and forget it again; its external data is streamed.

    Raises:
        SourceError, UnsupportedModelError: It cannot be read.
    """
    found = _summary(load(path))
    if found.facts.weight_bytes > LARGE:
        # Its objects refer to each other, so it goes only now: another one as large may be read next.
        gc.collect()
    return found


def _summary(model: ir.Model) -> ModelSummary:
    statistics = graph_statistics(model)
    digests = model_digests(model)
    facts = ModelFacts(
        nodes=statistics.nodes,
        opsets=dict(sorted(model.graph.opset_imports.items())),
        ir_version=model.ir_version,
        inputs=_types(value for value in model.graph.inputs if not value.is_initializer()),
        outputs=_types(model.graph.outputs),
        weights=digests.weights.total(),
        weight_bytes=_bytes(digests.weights),
    )
    return ModelSummary(facts, Counter(statistics.ops), digests.weights, digests.model)


def compare(path: str, old: ModelSummary, new: ModelSummary) -> ModelDifference:
    """How a model changed; ``path`` is its path in the source repo."""
    added, removed = new.weights - old.weights, old.weights - new.weights
    return ModelDifference(
        path=path,
        old=old.facts,
        new=new.facts,
        equal=old.digests.whole == new.digests.whole,
        graph_equal=old.digests.structure == new.digests.structure,
        weights=WeightsDifference(
            equal=not added and not removed,
            added=added.total(),
            added_bytes=_bytes(added),
            removed=removed.total(),
            removed_bytes=_bytes(removed),
        ),
        ops_added=_by_count(new.ops - old.ops),
        ops_removed=_by_count(old.ops - new.ops),
        interface=(
            *_changes("input", old.facts.inputs, new.facts.inputs),
            *_changes("output", old.facts.outputs, new.facts.outputs),
        ),
    )


def _changes(
    kind: Literal["input", "output"], old: dict[str, str], new: dict[str, str]
) -> Iterable[ValueChange]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield ValueChange(name=name, kind=kind, old=old.get(name), new=new.get(name))


def _types(values: Iterable[ir.Value]) -> dict[str, str]:
    return {value.name or "": _type(value) for value in values}


def _type(value: ir.Value) -> str:
    if value.type is None:
        return "of no type"
    if not isinstance(value.type, ir.TensorType):
        return str(value.type)
    name = _dtype(value.type.dtype)
    if value.shape is None:
        return f"{name} of any shape"
    return f"{name} [{', '.join('?' if d is None or str(d) == 'None' else str(d) for d in value.shape)}]"


def _dtype(dtype: ir.DataType) -> str:
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(dtype.name, dtype.name.lower())


def _bytes(weights: Counter[Weight]) -> int:
    return sum(weight.nbytes * count for weight, count in weights.items())


def _by_count(ops: Counter[str]) -> dict[str, int]:
    return dict(sorted(ops.items(), key=lambda item: (-item[1], item[0])))
