"""What a rewrite costs, as ratios: load + passes + save against onnx.load + onnx.save of the same file.

The passes are those that ``auto`` applies to the model for a device, which it inspects before and after.

    python bench/rewrite.py [MODEL.onnx] [--rounds 3]

Without a model it builds one of BiRefNet-lite's structure and size. Every measurement is a process of
its own; both kinds take turns, and the least of each counts, so that a busy machine disturbs both.
Times are in seconds and without imports, memory is the peak resident set of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEVICE = "webgpu-min"


def copy_with_onnx(source: Path, target: Path) -> None:
    """The least that any script does."""
    import onnx

    started = time.perf_counter()
    onnx.save(onnx.load(source), target)
    report(started)


def rewrite_with_hubpublish(source: Path, target: Path) -> None:
    """Load, inspect, what ``auto`` chooses, inspect, save."""
    from hubpublish.devices import PROFILES, Device
    from hubpublish.inspection import Auto
    from hubpublish.rewrite import rewrite

    started = time.perf_counter()
    rewrite(source, target, Auto(), Device(PROFILES[DEVICE]))
    report(started)


def report(started: float) -> None:
    """Print what this process took."""
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


KINDS = {"onnx": copy_with_onnx, "hubpublish": rewrite_with_hubpublish}


def measure(kind: str, source: Path, target: Path) -> dict[str, float]:
    """One measurement in a new process."""
    command = [sys.executable, __file__, "--child", kind, str(source), "--out", str(target)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def compare(source: Path, folder: Path, rounds: int) -> None:
    """Measure both kinds in turn and print the ratios."""
    least: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for kind in KINDS:
            found = measure(kind, source, folder / f"{kind}.onnx")
            known = least.setdefault(kind, found)
            least[kind] = {name: min(value, known[name]) for name, value in found.items()}
    ours, theirs = least["hubpublish"], least["onnx"]
    print(f"{source.name}, {source.stat().st_size / 1e6:.1f} MB, least of {rounds} rounds")
    for kind, each in least.items():
        print(f"  {kind:10} {each['seconds']:6.2f} s  {each['peak_bytes'] / 1e6:7.0f} MB")
    print(f"time    {ours['seconds'] / theirs['seconds']:.2f} times onnx.load + onnx.save")
    print(f"memory  {ours['peak_bytes'] / theirs['peak_bytes']:.2f} times")


def build(path: Path) -> None:
    """The full-size demo model, fp32."""
    import onnx

    from hubpublish.demo.model import build_model

    onnx.save(build_model(), path)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        KINDS[arguments.child](arguments.model, arguments.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        source = arguments.model or Path(folder) / "model.onnx"
        if not arguments.model:
            build(source)
        compare(source, Path(folder), arguments.rounds)


if __name__ == "__main__":
    main()
