"""How the time of a rewrite grows with the number of nodes: load, every pass alone and in a row, save.

    python bench/scale.py [SHAPE ...] [--dtype fp32] [--nodes 2000] [--times 10] [--rounds 2] [--check]

Each shape of graph (see `shapes.py`) is made with so many nodes, and so many times more. Every measurement
is a process of its own; small and large ones take turns, and the least of each counts. Printed is by how much
the time grew, for as much more nodes as there are, so that 10.0 is linear. Passes are measured on the model as
it is loaded, ``rewrite`` is load, all of them in a row, and save. What takes less than 0.1 s on the large
model is not judged. With --check the exit code is 1 if anything grows more than 12 times.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 12.0
LEAST_SECONDS = 0.1

Seconds = dict[str, float]


def child(source: Path, target: Path) -> None:
    """Measure one file and print the seconds of each part."""
    from hubpublish.model import load, save
    from hubpublish.passes import PASSES

    # The package loads some modules and ONNX its schemas when they are first asked for.
    seconds: Seconds = {}

    def timed(name: str, work: object) -> object:
        gc.collect()
        gc.disable()  # as `hubpublish rewrite` does while it applies passes
        started = time.perf_counter()
        result = work()  # type: ignore[operator]
        seconds[name] = min(seconds.get(name, float("inf")), time.perf_counter() - started)
        gc.enable()
        return result

    for name, each in PASSES.items():
        model = timed("load", lambda: load(source))
        timed(name, lambda each=each, model=model: each()(model))
        del model

    def rewrite() -> None:
        model = load(source)
        for each in PASSES.values():
            each()(model)
        save(model, target)

    timed("rewrite", rewrite)
    model = load(source)
    timed("save", lambda: save(model, target))
    print(json.dumps({"nodes": len(model.graph), "seconds": seconds}))


def measure(source: Path, target: Path) -> tuple[int, Seconds]:
    """One measurement in a new process."""
    command = [sys.executable, __file__, "--child", str(source), "--out", str(target)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured = json.loads(done.stdout)
    return measured["nodes"], measured["seconds"]
