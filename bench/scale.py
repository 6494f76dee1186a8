"""How the time of a rewrite grows with the number of nodes: load, every pass alone and in a row, save.

    python bench/scale.py [SHAPE ...] [--dtype fp32] [--nodes 2000] [--rounds 2] [--check]

Each shape of graph (see `shapes.py`) is made with about so many nodes, and with ten times as many. Every
measurement is a process of its own; small and large graphs take turns, and the least of each counts. Printed
are both times, and their ratio for exactly ten times as many nodes, so that 10 is linear. Each pass is
measured on the model as it is loaded; ``rewrite`` is load, all passes in a row, and save. What takes less
than 0.1 s on the large graph is left out. With --check the exit code is 1 if anything takes more than 12
times as long.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx
from shapes import SHAPES

TIMES = 10
LIMIT = 12.0
LEAST_SECONDS = 0.1

Seconds = dict[str, float]
T = TypeVar("T")


def child(source: Path, target: Path) -> None:
    """Measure one file and print the seconds of each part."""
    from hubpublish.model import graph_statistics, load, save
    from hubpublish.passes import PASSES

    seconds: Seconds = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        gc.collect()
        gc.disable()  # as `hubpublish rewrite` does while it applies passes
        started = time.perf_counter()
        result = work()
        seconds[name] = min(seconds.get(name, math.inf), time.perf_counter() - started)
        gc.enable()
        return result

    def rewrite() -> None:
        model = load(source)
        for each in PASSES.values():
            each()(model)
        save(model, target)

    for name, each in PASSES.items():
        model = timed("load", lambda: load(source))
        apply = each()
        timed(name, lambda apply=apply, model=model: apply(model))  # type: ignore[misc]
    model = load(source)
    timed("save", lambda: save(model, target))
    timed("rewrite", rewrite)
    print(json.dumps({"nodes": graph_statistics(model).nodes, "seconds": seconds}))


def measure(source: Path, target: Path) -> tuple[int, Seconds]:
    """One measurement in a new process."""
    command = [sys.executable, __file__, "--child", str(source), "--out", str(target)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured = json.loads(done.stdout)
    return measured["nodes"], measured["seconds"]


def growth(name: str, folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """By how much the time of each part grows for ten times as many nodes; prints both times."""
    least: list[Seconds] = [{}, {}]
    counts = [0, 0]
    sources = [folder / "few.onnx", folder / "many.onnx"]
    for source, nodes in zip(sources, (arguments.nodes, TIMES * arguments.nodes), strict=True):
        onnx.save(SHAPES[name](nodes, arguments.dtype), source)
    for _ in range(arguments.rounds):
        for which, source in enumerate(sources):
            counts[which], found = measure(source, folder / "out.onnx")
            least[which] = {part: min(found[part], least[which].get(part, math.inf)) for part in found}
    few, many = least
    more = counts[1] / counts[0] / TIMES
    print(f"{name}: {counts[0]:,} and {counts[1]:,} nodes, least of {arguments.rounds} rounds", flush=True)
    grown: dict[str, float] = {}
    for part in sorted(many, key=lambda part: -many[part]):
        if many[part] >= LEAST_SECONDS:
            grown[part] = many[part] / few[part] / more
            mark = "  <--" if grown[part] > LIMIT else ""
            print(f"  {part:22} {few[part]:8.3f} {many[part]:8.3f} s  {grown[part]:6.1f}{mark}", flush=True)
    return grown


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--dtype", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--check", action="store_true", help=f"exit code 1 above {LIMIT:.0f}")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.shapes if name not in SHAPES]:
        parser.error(f"no such shape: {', '.join(unknown)}")
    if arguments.child:
        child(arguments.child, arguments.out)
        return
    worst: dict[str, float] = {}
    for name in arguments.shapes or SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            grown = growth(name, Path(folder), arguments)
        worst[name] = max(grown.values(), default=0.0)
    print("most that ten times as many nodes take:")
    for name, factor in worst.items():
        print(f"  {name:16} {factor:6.1f} times")
    if arguments.check and max(worst.values()) > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
