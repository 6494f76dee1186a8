"""How the time of a rewrite grows with the number of nodes: load, every pass in a row, save; and `inspect`.

    python bench/scale.py [SHAPE ...] [--dtype fp32] [--nodes 2000] [--rounds 2] [--check]

Each shape of graph (see `shapes.py`) is made with about so many nodes, and with ten times as many. Every
measurement is a process of its own; small and large graphs take turns, and the least of each counts. Printed
are processor seconds of both, and their ratio for exactly ten times as many nodes, so that 10 is linear; a
mere walk over the nodes takes 11 to 13 times as long, as the processor's caches do not hold the large graph.
``rewrite`` is load, all passes in a row, and save; each of them is also shown for itself, where it takes half
a second or more on the large graph. With --check the exit code is 1 if the rewrite or ``inspect`` of any
shape takes more than 12 times as long.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx
from shapes import SHAPES

TIMES = 10
LIMIT = 12.0
LEAST_SECONDS = 0.5
CHECKED = ("rewrite", "inspect")

Seconds = dict[str, float]
T = TypeVar("T")


def processor_seconds() -> float:
    """What this process and those that it started have taken: a busy machine changes it less than time."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def child(source: Path, target: Path) -> None:
    """Measure one file and print the seconds of each part."""
    from hubpublish.devices import PROFILES
    from hubpublish.inspection import inspect
    from hubpublish.model import graph_statistics, load, save
    from hubpublish.passes import PASSES

    seconds: Seconds = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        gc.collect()
        gc.disable()  # as `hubpublish rewrite` does while it applies passes
        started = processor_seconds()
        result = work()
        seconds[name] = processor_seconds() - started
        gc.enable()
        return result

    model = timed("load", lambda: load(source))
    nodes = graph_statistics(model).nodes
    for name, each in PASSES.items():
        timed(name, functools.partial(each(), model))
    timed("save", lambda: save(model, target))
    seconds["rewrite"] = sum(seconds.values())
    original = load(source)
    timed("inspect", lambda: inspect(original, PROFILES["webgpu-min"]))
    print(json.dumps({"nodes": nodes, "seconds": seconds}))


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
            mark = "  <--" if part in CHECKED and grown[part] > LIMIT else ""
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
        worst[name] = max((grown[part] for part in CHECKED if part in grown), default=0.0)
    print("most that ten times as many nodes take:")
    for name, factor in worst.items():
        print(f"  {name:16} {factor:6.1f} times")
    if arguments.check and max(worst.values()) > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
