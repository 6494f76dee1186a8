"""The memory that a rewrite of a large model takes: three gigabytes of external data.

    python bench/large.py [--gigabytes 3] [--check]

Builds a model of many layers with random weights in a file beside it, and rewrites it as the command line
does with `--pass auto`. Prints the peak resident set of that process, in which pages of files that are mapped
count; with --check the exit code is 1 if it is 1 GB or more. Takes twice the model's size on the disk.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LIMIT = 10**9
LAYER_BYTES = 64 * 2**20
EDGE = 4096


def build(path: Path, gigabytes: float) -> None:
    """Layers of a MatMul or a Gather, a Sum, a Split and a Concat, each with weights in the data file."""
    from onnx import TensorProto, helper

    data = path.with_name(f"{path.name}_data")
    weights, nodes, last, generator = [], [], "x", np.random.default_rng(0)
    with data.open("wb") as file:
        for layer in range(int(gigabytes * 1e9 / LAYER_BYTES)):
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[EDGE, EDGE])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", data.name), ("offset", file.tell()), ("length", LAYER_BYTES)):
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            file.write(generator.standard_normal(LAYER_BYTES // 4, np.float32).tobytes())
            parts = [f"p{layer}_{part}" for part in range(8)]
            if layer % 2:
                nodes.append(helper.make_node("MatMul", [last, tensor.name], [f"m{layer}"]))
            else:  # whose table no kernel packs, so that passes look into it
                nodes.append(helper.make_node("Gather", [tensor.name, "row"], [f"m{layer}"]))
            nodes.append(helper.make_node("Sum", [f"m{layer}", last, last], [f"s{layer}"]))
            nodes.append(helper.make_node("Split", [f"s{layer}"], parts, axis=1))
            nodes.append(helper.make_node("Concat", parts, [f"c{layer}"], axis=1))
            last = f"c{layer}"
    weights.append(helper.make_tensor("row", TensorProto.INT64, [1], [7]))
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, EDGE])
    result = helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, EDGE])
    graph = helper.make_graph(nodes, "g", [shape], [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--check", action="store_true", help="exit with 1 at 1 GB or more")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "large.onnx", Path(folder) / "out.onnx"
        build(source, arguments.gigabytes)
        command = [sys.executable, "-m", "hubpublish", "rewrite", str(source), str(target)]
        started = time.perf_counter()
        subprocess.run([*command, "--pass", "auto", "--device", "webgpu-min"], check=True)
        seconds = time.perf_counter() - started
        # This process has only built a file of the data, layer by layer: the largest child is the rewrite.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024
        print(
            f"{arguments.gigabytes} GB rewritten in {seconds:.1f} s, peak {peak / 1e6:.0f} MB (limit 1,000)"
        )
    return int(peak >= LIMIT and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
