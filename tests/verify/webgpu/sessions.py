"""Opens many models on the WebGPU execution provider, all in one process; started as a script.

A session costs milliseconds there, a process a second. Takes a pickled list of requests and appends an answer
for each to a file, so that a crash loses only the model that it is of. Imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

PROVIDER = "WebGpuExecutionProvider"


def main(requests: Path, answers: Path, first: int, library: str) -> None:
    ort.set_default_logger_severity(4)
    ort.register_execution_provider_library("hubpublish-tests", library)
    devices = [each for each in ort.get_ep_devices() if each.ep_name == PROVIDER]
    kept = _on(devices)  # the provider gives up its device with the last session, and finding one takes long
    assert kept.get_providers()[0] == PROVIDER
    with answers.open("ab", buffering=0) as file:
        for request in pickle.loads(requests.read_bytes())[first:]:
            file.write(pickle.dumps(answer(request, devices[:1], answers.with_suffix(".onnx"))))
    os._exit(0)  # the runtime's teardown has nothing to add


def answer(request: dict[str, Any], devices: list[Any], optimized: Path) -> dict[str, Any]:
    """What becomes of a model: its nodes by side, its copies, what goes wrong and what comes out."""
    options = _options()
    options.add_provider_for_devices(devices, {})
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if request["copies"]:
        options.optimized_model_filepath = str(optimized)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
    try:
        session = ort.InferenceSession(request["model"], options)
    except Exception as error:
        return {"error": str(error)}
    nodes = [
        (part.ep_name == PROVIDER, node.domain, node.op_type, node.name)
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    ]
    found: dict[str, Any] = {"error": None, "nodes": nodes}
    if request["copies"]:
        found["copies"] = copies(optimized)
    if request["feeds"] is not None and any(on_gpu for on_gpu, *_ in nodes):
        try:
            found["outputs"] = _run(session, request["feeds"])
        except Exception as error:
            found["fails"] = str(error)
        with contextlib.suppress(Exception):  # of what the CPU has no kernel for
            session = ort.InferenceSession(request["model"], _options(), providers=["CPUExecutionProvider"])
            found["on_the_cpu"] = _run(session, request["feeds"])
    return found


def _on(devices: list[Any]) -> Any:
    options = _options()
    options.add_provider_for_devices(devices[:1], {})
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[1] x) => (float[1] y) { y = Neg (x) }'
    return ort.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options)


def _options() -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return options


def _run(session: Any, feeds: list[Any]) -> Any:
    names = [each.name for each in session.get_inputs()]
    return session.run(None, dict(zip(names, feeds, strict=True)))


def copies(optimized: Path) -> Counter[str]:
    """The Memcpy nodes of all graphs of a model as it is run."""
    found: Counter[str] = Counter()
    graphs = [onnx.load(optimized, load_external_data=False).graph]
    optimized.unlink()
    while graphs:
        for node in graphs.pop().node:
            if node.op_type.startswith("Memcpy"):
                found[node.op_type] += 1
            for attribute in node.attribute:
                graphs += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
