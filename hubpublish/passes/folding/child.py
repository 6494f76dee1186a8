"""Runs models without inputs, one after another, in a process of its own.

It is started as a script, with the paths of two files, and imports nothing of the package. The first
holds for each model its length in 8 bytes, little-endian, and its bytes. Into the second go an empty
array once the runtime is loaded, and for each model an array of bytes, which is empty or the error's
text, and its outputs: all of them in numpy's format. What is missing at its end tells a crash.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnxruntime as ort


def main(request: str, response: str) -> None:
    """Run every model."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    with open(request, "rb") as source, open(response, "wb") as target:
        write(target, np.zeros(0, np.uint8))
        while length := source.read(8):
            model = source.read(int.from_bytes(length, "little"))
            outputs, error = [], ""
            try:
                session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                outputs = session.run(None, {})
            except Exception as failure:  # the runtime has no common class of its own
                error = " ".join(str(failure).split()) or type(failure).__name__
            write(target, np.frombuffer(error.encode(), np.uint8))
            for output in outputs:
                write(target, np.asarray(output))


def write(target: BinaryIO, array: npt.NDArray[Any]) -> None:
    """Write one array so that it is there even if the next model ends the process."""
    np.lib.format.write_array(target, array, allow_pickle=False)
    target.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
