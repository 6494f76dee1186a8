"""One run of ONNX Runtime in a process of its own: reads a request, writes outputs and a result.

It is started as a script, with the path of a JSON request, and imports nothing of the package: a
run costs little more than the import of the runtime. A crash leaves no result, which is a result.

Request: ``model``, ``external_folder`` (where external data lies, if not beside the model), ``level``,
``threads``, ``feeds`` ([{name, dtype, onnx, storage, shape, file}]), ``folder`` (for the outputs), ``parent``
(process id), ``webgpu`` (None: the CPU; else ``script``, which opens the session, and what that takes),
``load_only``. Result, ``folder/result.json``: ``status`` (ok, does_not_load, fails,
out_of_memory, broken), ``error``, ``runtime``, ``peak_bytes``, ``outputs`` ([{name, dtype, shape, file,
sha256}]). Exit code 74: they could not be written. Tensors are raw bytes in C order, strings a JSON list.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

# Types that numpy has no name for: only an OrtValue carries them, and only its bytes tell them.
RAW_TYPES = (
    "bfloat16",
    "float8e4m3fn",
    "float8e4m3fnuz",
    "float8e5m2",
    "float8e5m2fnuz",
    "float8e8m0",
    "float4e2m1",
    "int4",
    "uint4",
    "int2",
    "uint2",
)
CANNOT_WRITE = 74  # exit code, EX_IOERR: a full disk is no crash of the runtime
OUT_OF_MEMORY = ("bad_alloc", "Failed to allocate memory", "BFCArena")


def main(request_path: str) -> None:
    """Do the request; whatever happens, say so in the result, unless the process dies of it."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    die_with_parent(request["parent"])
    folder = Path(request["folder"])
    result: dict[str, Any] = {"runtime": ort.__version__, "outputs": [], "error": None}
    try:
        try:
            result["status"] = run(request, folder, result)
        except OSError:
            raise  # only writing raises it here, and a full disk would not take a result either
        except BaseException:
            result.update(status="broken", error=traceback.format_exc())
        result["peak_bytes"] = peak_bytes()
        unfinished = folder / "result.json.part"
        unfinished.write_text(json.dumps(result), encoding="utf-8")
        unfinished.replace(folder / "result.json")
    except OSError:
        os._exit(CANNOT_WRITE)
    # The runtime's teardown has nothing to add, and may crash.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def die_with_parent(parent: int) -> None:
    """End this process when its parent does, and offer it first when memory is short (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:
        os._exit(1)


def run(request: dict[str, Any], folder: Path, result: dict[str, Any]) -> str:
    """Load, run once, write the outputs; returns the status."""
    note_phase(folder, "loading")
    try:
        session = load(request, result)
    except Exception as error:
        return failed(result, error, "does_not_load")
    if request["load_only"]:
        return "ok"
    note_phase(folder, "running")
    raw = [feed["name"] for feed in request["feeds"] if feed["dtype"] in RAW_TYPES]
    raw += [output.name for output in session.get_outputs() if tensor_type(output.type) in RAW_TYPES]
    try:
        outputs = (run_raw if raw else run_plain)(session, request["feeds"])
    except Exception as error:
        return failed(result, error, "fails")
    note_phase(folder, "writing")
    for output, value in zip(session.get_outputs(), outputs, strict=True):
        write(output.name, output.type, value, folder, result["outputs"])
    return "ok"


def note_phase(folder: Path, phase: str) -> None:
    """Leave word of how far it came, for the case of a crash."""
    (folder / "phase").write_text(phase, encoding="ascii")


def load(request: dict[str, Any], result: dict[str, Any]) -> Any:
    """The session: sequential, deterministic, with a fixed number of threads."""
    options = ort.SessionOptions()
    options.graph_optimization_level = {
        "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "default": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    }[request["level"]]
    options.intra_op_num_threads = request["threads"]
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    # Threads that spin while they wait slow a busy machine down, and idle ones only a little.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    model: Any = request["model"]
    if request["external_folder"]:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", request["external_folder"]
        )
        model = Path(model).read_bytes()
    if request["webgpu"]:
        opener = module_at(request["webgpu"]["script"])
        return opener.open_session(model, options, request["webgpu"], Path(request["folder"]), result)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def module_at(path: str) -> Any:
    """A module by its file: this process does not import the package."""
    spec = importlib.util.spec_from_file_location("opener", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def failed(result: dict[str, Any], error: Exception, status: str) -> str:
    """Note the runtime's own words; want of memory is a status of its own."""
    result["error"] = " ".join(str(error).split()) or type(error).__name__
    short = isinstance(error, MemoryError) or any(word in result["error"] for word in OUT_OF_MEMORY)
    return "out_of_memory" if short else status


def run_plain(session: Any, feeds: list[dict[str, Any]]) -> list[Any]:
    """Run with numpy arrays; sequences come back as lists, maps as dicts."""
    return list(session.run(None, {feed["name"]: read(feed) for feed in feeds}))


def run_raw(session: Any, feeds: list[dict[str, Any]]) -> list[Any]:
    """Run with OrtValues, for the types that numpy does not know."""
    values = {}
    for feed in feeds:
        array = read(feed)
        values[feed["name"]] = (
            ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, feed["onnx"])
            if feed["dtype"] in RAW_TYPES
            else ort.OrtValue.ortvalue_from_numpy(array)
        )
    outputs = session.run_with_ort_values(None, values)
    return [value if tensor_type(value.data_type()) in RAW_TYPES else value.numpy() for value in outputs]


def read(feed: dict[str, Any]) -> Any:
    """The array of a feed."""
    if feed["dtype"] == "string":
        strings = json.loads(Path(feed["file"]).read_text(encoding="utf-8"))
        return np.array(strings, dtype=object).reshape(feed["shape"])
    return np.fromfile(feed["file"], dtype=feed["storage"]).reshape(feed["shape"])


def tensor_type(type_name: str) -> str | None:
    """``tensor(float)`` as ``float32``; None when it is not a tensor."""
    if not type_name.startswith("tensor("):
        return None
    name = type_name.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(name, name)


def write(name: str, type_name: str, value: Any, folder: Path, outputs: list[dict[str, Any]]) -> None:
    """Write a value; of a sequence or map every element, under its own name.

    What is no tensor is described by its type as a whole, since it may have no elements that show it.
    """
    if isinstance(value, list):
        describe(name, type_name, [len(value)], outputs)
        inside = type_name.removeprefix("seq(").removesuffix(")")
        for index, element in enumerate(value):
            if isinstance(element, dict):
                write(f"{name}[{index}]", inside, element, folder, outputs)
            else:
                write_tensor(f"{name}[{index}]", None, element, folder, outputs)
    elif isinstance(value, dict):
        describe(name, type_name, [len(value)], outputs)
        for key in sorted(value):
            write_tensor(f"{name}[{key!r}]", None, np.asarray(value[key]), folder, outputs)
    elif value is None:
        describe(name, type_name, [], outputs)
    else:
        write_tensor(name, tensor_type(type_name), value, folder, outputs)


def describe(name: str, type_name: str, shape: list[int], outputs: list[dict[str, Any]]) -> None:
    """Enter a value that has no bytes of its own."""
    outputs.append({"name": name, "dtype": type_name, "shape": shape, "file": None, "sha256": ""})


def write_tensor(
    name: str, dtype: str | None, value: Any, folder: Path, outputs: list[dict[str, Any]]
) -> None:
    """Write one tensor's bytes and describe it."""
    file = folder / f"{len(outputs)}.bin"
    if dtype in RAW_TYPES:
        shape, size = list(value.shape()), value.tensor_size_in_bytes()
        data: Any = memoryview(ctypes.string_at(value.data_ptr(), size) if size else b"")
    else:
        array = np.asarray(value)
        shape, dtype = list(array.shape), array.dtype.name
        if array.dtype.kind in "OUS":
            dtype = "string"
            data = memoryview(json.dumps([str(item) for item in array.ravel()]).encode())
        else:
            data = (
                np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
            )
    with file.open("wb") as stream:
        stream.write(data)
    digest = hashlib.sha256(data).hexdigest()
    outputs.append({"name": name, "dtype": dtype, "shape": shape, "file": file.name, "sha256": digest})


def peak_bytes() -> int | None:
    """The process's largest resident memory so far."""
    # Not ru_maxrss on Linux: it outlives exec, so a child would report its parent's size.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main(sys.argv[1])
