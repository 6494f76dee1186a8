"""How the cost of a rewrite grows: graphs with ten times the nodes, or nodes with ten times the inputs.

    python bench/scale.py [--kind sums] [--nodes 2000] [--rounds 2] [--check]

For each kind of graph: the seconds of a rewrite with every pass, from file to file, and of each pass, as a
ratio of the large graph to the small one. Linear growth is 10. Every measurement is a process of its own, in
turn, and the least counts. With --check the exit code is 1 if the large rewrite takes over 12 times as long.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

FACTOR, LIMIT = 10, 12
WORTH_A_LOOK = 1.0  # seconds; below, what does not grow with the graph counts too much

Build = Callable[[int], "onnx.ModelProto"]


def chain(nodes: int) -> onnx.ModelProto:
    """Nodes one after another."""
    lines = ["v0 = Neg (x)", *(f"v{n} = Relu (v{n - 1})" for n in range(1, nodes))]
    return model("float[8] x", f"v{nodes - 1}", lines)


def sums(nodes: int) -> onnx.ModelProto:
    """Sums of four, Splits into nine and Concats of nine."""
    lines, last = [], "x"
    for n in range(nodes // 3):
        parts = ", ".join(f"p{n}_{part}" for part in range(9))
        lines += [f"s{n} = Sum ({last}, x, x, x)", f"{parts} = Split <axis = 0> (s{n})"]
        lines += [f"c{n} = Concat <axis = 0> ({parts})"]
        last = f"c{n}"
    return model("float[9] x", last, lines)


def grids(nodes: int) -> onnx.ModelProto:
    """Patch grids of 4 x 4 pieces."""
    lines, last = [], "x"
    for n in range(nodes // 22):
        columns = [f"g{n}_{column}" for column in range(4)]
        pieces = [[f"{column}_{row}" for row in range(4)] for column in columns]
        lines.append(f"{', '.join(columns)} = Split <axis = 2> ({last})")
        lines += [
            f"{', '.join(own)} = Split <axis = 1> ({c})" for c, own in zip(columns, pieces, strict=True)
        ]
        flat = ", ".join(piece for own in pieces for piece in own)
        lines += [f"g{n} = Concat <axis = 0> ({flat})", f"b{n} = Reshape (g{n}, shape)"]
        last = f"b{n}"
    return model("float[1,8,8] x", last, lines, "int64[3] shape = {1, 8, 8}")


def constants(nodes: int) -> onnx.ModelProto:
    """Shape arithmetic that folds, as exporters write it."""
    lines, last = [], "x"
    for n in range(nodes // 6):
        lines += [f"s{n} = Shape ({last})", f"g{n} = Gather (s{n}, zero)", f"u{n} = Unsqueeze (g{n}, zeros)"]
        lines += [f"m{n} = Mul (u{n}, one)", f"c{n} = Concat <axis = 0> (m{n})"]
        lines += [f"r{n} = Reshape ({last}, c{n})"]
        last = f"r{n}"
    return model("float[8] x", last, lines, "int64 zero = {0}, int64[1] zeros = {0}, int64[1] one = {1}")


def wide(nodes: int) -> onnx.ModelProto:
    """One Split, one Concat and one Sum of as many pieces."""
    pieces = [f"p{n}" for n in range(nodes)]
    lines = [f"{', '.join(pieces)} = Split <axis = 0> (x)", *(f"n{p} = Neg ({p})" for p in pieces)]
    negated = ", ".join(f"n{piece}" for piece in pieces)
    lines += [f"c = Concat <axis = 0> ({negated})", f"s = Sum ({negated})", "y = Add (c, s)"]
    return model(f"float[{nodes}] x", "y", lines)


def deep(nodes: int) -> onnx.ModelProto:
    """BiRefNet's blocks, in as many layers as it takes."""
    import onnx

    from hubpublish.demo.config import SMALL
    from hubpublish.demo.model import build_model

    single = build_model(SMALL)
    copies, merged = max(1, nodes // 2000), onnx.ModelProto()
    merged.CopyFrom(single)
    for copy in range(1, copies):
        more = onnx.compose.add_prefix(single, f"copy{copy}_")
        merged.graph.node.extend(more.graph.node)
        merged.graph.initializer.extend(more.graph.initializer)
        merged.graph.input.extend(more.graph.input)
        merged.graph.output.extend(more.graph.output)
    return merged


def model(given: str, output: str, lines: list[str], constants: str = "") -> onnx.ModelProto:
    """A model of lines of ONNX text."""
    import onnx

    declared = f"<{constants}>" if constants else ""
    body = "\n".join(lines)
    text = f'<ir_version: 8, opset_import: ["": 13]> g ({given}) => ({given.split("[")[0]}[N] {output})'
    parsed: onnx.ModelProto = onnx.parser.parse_model(f"{text} {declared} {{ {body} }}")
    parsed.graph.output[0].type.tensor_type.ClearField("shape")
    for tensor in parsed.graph.initializer:  # the parser gives each integer a byte
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    return parsed


KINDS: dict[str, Build] = {each.__name__: each for each in (chain, sums, grids, constants, wide, deep)}


def steps(source: Path, target: Path) -> Iterator[tuple[str, float]]:
    """A whole rewrite with its seconds, then inspection and passes on their own."""
    from hubpublish.devices import PROFILES, Device
    from hubpublish.inspection import inspect
    from hubpublish.model import load
    from hubpublish.passes import PASSES
    from hubpublish.rewrite import rewrite

    desktop = PROFILES["webgpu-desktop"]
    started = time.perf_counter()
    rewrite(source, target, [each() for each in PASSES.values()], Device(desktop))
    yield "all", time.perf_counter() - started
    loaded = load(source)
    started = time.perf_counter()
    inspect(loaded, desktop)
    yield "inspect", time.perf_counter() - started
    for name, each in PASSES.items():
        started = time.perf_counter()
        each()(loaded)
        yield name, time.perf_counter() - started


def measure(source: Path, target: Path) -> dict[str, float]:
    """One measurement in a new process."""
    command = [sys.executable, __file__, "--child", str(source), "--out", str(target)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def compare(kind: str, nodes: int, folder: Path, rounds: int) -> float:
    """Measure both sizes in turn; prints the ratios, returns that of the whole rewrite."""
    import onnx

    sources = [folder / f"{kind}-{size}.onnx" for size in (nodes, nodes * FACTOR)]
    for source, size in zip(sources, (nodes, nodes * FACTOR), strict=True):
        onnx.save(KINDS[kind](size), source)
    least: list[dict[str, float]] = [{}, {}]
    for _ in range(rounds):
        for known, source in zip(least, sources, strict=True):
            for step, seconds in measure(source, folder / "out.onnx").items():
                known[step] = min(seconds, known.get(step, np.inf))
    small, large = least
    for step, seconds in large.items():
        if step == "all" or seconds >= WORTH_A_LOOK:
            ratio = seconds / small[step]
            print(f"{kind:10} {step:20} {small[step]:7.2f} s {seconds:7.2f} s {ratio:6.1f} times")
    return large["all"] / small["all"]


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=2000, help="of the small graph")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--check", action="store_true", help="exit with 1 over the limit")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(dict(steps(arguments.child, arguments.out))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ratios = [
            compare(kind, arguments.nodes, Path(folder), arguments.rounds) for kind in arguments.kind or KINDS
        ]
    print(f"at most {max(ratios):.1f} times (limit {LIMIT})")
    return int(max(ratios) > LIMIT and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
