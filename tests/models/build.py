"""Building small models from ONNX text, rewriting them through files, running and comparing them."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from hubpublish.model import load, save
from hubpublish.passes import PassOutcome, RewritePass, Skipped

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
Level = Literal["disabled", "default"]

_LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "default": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


@dataclass(frozen=True)
class Failure:
    """The runtime refused the model or the run."""

    message: str


@dataclass(frozen=True)
class Rewrite:
    """A model after passes, read back from its file, and what each pass did."""

    model: onnx.ModelProto
    outcomes: list[PassOutcome]

    @property
    def skipped(self) -> list[Skipped]:
        return [each for outcome in self.outcomes for each in outcome.skipped]

    @property
    def rewritten(self) -> list[str]:
        return [each.node for outcome in self.outcomes for each in outcome.rewritten]


def parse(text: str) -> onnx.ModelProto:
    """A model from ONNX text; see https://onnx.ai/onnx/repo-docs/Syntax.html."""
    model = onnx.parser.parse_model(text)
    for node in nodes(model):
        if not node.domain:
            node.ClearField("domain")  # the parser sets it to nothing, which is the same but not equal
    return model


def split_text(
    outputs: int,
    *,
    opset: int,
    axis: str = "axis=0",
    sizes: str = "",
    shape: str = "N",
    dtype: str = "float",
    attributes: str = "",
    before: str = "",
    initializers: str = "",
) -> str:
    """Text of a model with one Split, named ``sp``; ``sizes`` names its second input, if any."""
    names = [f"y{number}" for number in range(outputs)]
    rank = shape.count(",") + 1
    dims = ",".join(f"d{axis}" for axis in range(rank))
    declared = ", ".join(
        f"{dtype}[{dims.replace('d', f'd{number}_')}] {name}" for number, name in enumerate(names)
    )
    inside = ", ".join(part for part in (axis, attributes) if part)
    inputs = f"x, {sizes}" if sizes else "x"
    return f"""<ir_version: 8, opset_import: ["": {opset}]>
    g ({dtype}[{shape}] x) => ({declared}) {f"<{initializers}>" if initializers else ""} {{
        {before}
        [sp] {", ".join(names)} = Split{f"<{inside}>" if inside else ""}({inputs})
    }}"""


def rewrite(model: onnx.ModelProto, *passes: RewritePass[Any]) -> Rewrite:
    """Save, load, apply the passes, save, read back: what the command line does with a file."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        source.write_bytes(model.SerializeToString())
        loaded = load(source)
        outcomes = [each(loaded) for each in passes]
        save(loaded, target)
        return Rewrite(onnx.load_model_from_string(target.read_bytes()), outcomes)


def run(model: onnx.ModelProto | Path, feeds: Feeds, level: Level = "disabled") -> list[Any] | Failure:
    """The outputs in order, or how it failed. A path is needed where there is external data."""
    options = ort.SessionOptions()
    options.graph_optimization_level = _LEVELS[level]
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    try:
        session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))
    except Exception as error:  # the runtime has no common class of its own
        return Failure(str(error))


def assert_same(
    original: onnx.ModelProto | Path,
    rewritten: onnx.ModelProto | Path,
    feeds: Feeds,
    level: Level = "disabled",
) -> None:
    """Same outputs, bit for bit, or failure of both."""
    before, after = run(original, feeds, level), run(rewritten, feeds, level)
    if isinstance(before, Failure):
        assert isinstance(after, Failure), f"the original fails, the rewritten does not: {before.message}"
        return
    assert not isinstance(after, Failure), after.message
    assert [bits(value) for value in after] == [bits(value) for value in before]


def assert_runs_same(
    original: onnx.ModelProto | Path,
    rewritten: onnx.ModelProto | Path,
    feeds: Feeds,
    level: Level = "disabled",
) -> None:
    """As `assert_same`, where the original must not fail."""
    assert not isinstance(run(original, feeds, level), Failure), run(original, feeds, level)
    assert_same(original, rewritten, feeds, level)


def bits(value: Any) -> tuple[Any, ...]:
    """Dtype, shape and exact contents of an output."""
    array = np.asarray(value)
    contents = array.tolist() if array.dtype == object else array.tobytes()
    return (str(array.dtype), array.shape, contents)


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """The main graph, every function, and every body in them."""
    yield from itertools.chain(_bodies(model.graph), *(_bodies(function) for function in model.functions))


def _bodies(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _bodies(body)


def nodes(model: onnx.ModelProto, *op_types: str) -> list[onnx.NodeProto]:
    """The nodes of these types in every scope; all nodes if none is named."""
    return [
        node for graph in graphs(model) for node in graph.node if not op_types or node.op_type in op_types
    ]


def op_counts(model: onnx.ModelProto) -> Counter[str]:
    """Op types of every scope."""
    return Counter(node.op_type for node in nodes(model))


def depth_of(graph: onnx.GraphProto | onnx.FunctionProto, op_type: str) -> int:
    """The largest number of nodes of the type on a path through a sorted graph."""
    depth: dict[str, int] = {}
    for node in graph.node:
        deepest = max((depth.get(name, 0) for name in node.input), default=0)
        depth.update(dict.fromkeys(node.output, deepest + (node.op_type == op_type)))
    return max(depth.values(), default=0)


def levels_needed(count: int, width: int) -> int:
    """ceil(log_width(count)), in integers."""
    levels, reach = 0, 1
    while reach < count:
        levels, reach = levels + 1, reach * width
    return levels


def random_values(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Array:
    """Values of any dtype that ONNX Runtime takes; floats of many magnitudes."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.asarray(rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape)).astype(dtype)
    if kind in "iu":
        return np.asarray(rng.integers(-100 if kind == "i" else 0, 100, shape)).astype(dtype)
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    numbers = np.asarray(rng.integers(0, 99, shape))
    return np.array([f"s{number}" for number in numbers.flat], dtype=object).reshape(shape)


def random_feeds(model: onnx.ModelProto, seed: int = 0, **dims: int) -> dict[str, Array]:
    """Values for the inputs that have no default; ``dims`` sets symbolic dimensions, the rest are 3."""
    rng = np.random.default_rng(seed)
    defaults = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in defaults:
            continue
        tensor = value.type.tensor_type
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param, 3)
            for dim in tensor.shape.dim
        )
        feeds[value.name] = random_values(rng, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape)
    return feeds
