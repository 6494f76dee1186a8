"""What a rewritten model costs ONNX Runtime on the CPU, as ratios to its original.

    python bench/model.py [ORIGINAL.onnx REWRITTEN.onnx] [--dtype fp16] [--rounds 3] [--check]

Without models it builds one of BiRefNet-lite's structure and size and rewrites it with `passes: auto` for
webgpu-min. Every measurement is a process of its own, with one session and one run at the default level; the
two models take turns, and medians count. Seconds of session and run, processor seconds of the whole process,
and its peak resident set, in bytes. With --check the exit code is 1 if a ratio is over its limit.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMITS = {"session": 0.6, "run": 1.0, "peak_bytes": 0.65, "file_bytes": 0.9}


def run_once(model: Path) -> None:
    """One session and one run; prints what they took."""
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    started = time.perf_counter()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    (given,) = session.get_inputs()
    noise = np.random.default_rng(0).standard_normal(given.shape, np.float32)
    session.run(None, {given.name: noise})
    ended = time.perf_counter()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    measured = {
        "session": loaded - started,
        "run": ended - loaded,
        "processor": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }
    print(json.dumps(measured))


def measure(model: Path) -> dict[str, float]:
    """One measurement in a new process."""
    command = [sys.executable, __file__, "--child", str(model)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def compare(original: Path, rewritten: Path, rounds: int) -> dict[str, float]:
    """Measure both in turn; prints the medians, returns the ratios."""
    found: dict[Path, list[dict[str, float]]] = {original: [], rewritten: []}
    for _ in range(rounds):
        for model, measurements in found.items():
            measurements.append(measure(model))
    medians = {
        model: {name: statistics.median(each[name] for each in measurements) for name in measurements[0]}
        for model, measurements in found.items()
    }
    for model, each in medians.items():
        each["file_bytes"] = size_of(model)
        print(
            f"{model.name:24} session {each['session']:6.2f} s, run {each['run']:6.2f} s, processor "
            f"{each['processor']:6.2f} s, peak {each['peak_bytes'] / 2**30:5.2f} GiB, "
            f"file {each['file_bytes'] / 1e6:6.1f} MB"
        )
    return {name: medians[rewritten][name] / each for name, each in medians[original].items()}


def size_of(model: Path) -> int:
    """Bytes of the model and of the external data beside it."""
    data = model.with_name(f"{model.name}_data")
    return model.stat().st_size + (data.stat().st_size if data.exists() else 0)


def build(folder: Path, size: int, dtype: str) -> tuple[Path, Path]:
    """The demo model, and what `passes: auto` makes of it."""
    import onnx

    from hubpublish.demo.model import ModelConfig, build_model
    from hubpublish.devices import PROFILES, Device
    from hubpublish.inspection import Auto
    from hubpublish.rewrite import rewrite

    original, rewritten = folder / "original.onnx", folder / "rewritten.onnx"
    onnx.save(build_model(ModelConfig(size=size), dtype="fp16" if dtype == "fp16" else "fp32"), original)
    done = rewrite(original, rewritten, Auto(), Device(PROFILES["webgpu-min"]))
    assert done.inspection_before is not None
    assert done.inspection is not None
    for name, found in (("original", done.inspection_before), ("rewritten", done.inspection)):
        nodes, live = found.statistics.nodes, found.totals.nodes
        print(f"{name:24} {nodes:6,} nodes, {live:6,} once constants are folded")
    return original, rewritten


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL", help="original and rewritten")
    parser.add_argument("--size", type=int, default=1024, help="edge of the image of the built model")
    parser.add_argument("--dtype", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit with 1 over a limit")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_once(arguments.child)
        return 0
    if len(arguments.models) not in (0, 2):
        parser.error("name the original and the rewritten model, or none")
    with tempfile.TemporaryDirectory() as folder:
        models = arguments.models or build(Path(folder), arguments.size, arguments.dtype)
        ratios = compare(*models, arguments.rounds)
    for name, ratio in ratios.items():
        limit = f" (at most {LIMITS[name]})" if name in LIMITS else ""
        print(f"{name:12} {ratio:5.2f} times the original's{limit}")
    over = [name for name, limit in LIMITS.items() if ratios[name] > limit]
    return int(bool(over) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
