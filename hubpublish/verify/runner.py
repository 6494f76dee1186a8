"""Runs a model in a child process, one run a process, within limits of time and memory.

A bad model can take the runtime down, and a runtime keeps memory: neither may reach this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hubpublish.errors import UsageError, VerificationError
from hubpublish.verify.result import Level

CHILD = Path(__file__).with_name("child.py")
WEBGPU_SCRIPT = Path(__file__).with_name("webgpu") / "session.py"
CANNOT_WRITE = 74  # the child's exit code
PROVIDER = "CPUExecutionProvider"
POLL_SECONDS = (0.005, 0.05)  # first and longest pause between two looks at the child
STDERR_TAIL = 2000  # characters of the child's last words that an error repeats

Status = Literal["ok", "does_not_load", "fails", "crashed", "timeout", "out_of_memory"]


@dataclass(frozen=True)
class RunLimits:
    """What one run may take.

    Attributes:
        seconds: Wall time.
        memory: Bytes of resident memory; None: 95 % of what this machine, or its container, has.
        threads: Of one operator. Fixed rather than all cores, as the bits of a result can depend on it.
    """

    seconds: float = 1800.0
    memory: int | None = None
    threads: int = 2


@dataclass(frozen=True)
class Feed:
    """A tensor on disk to feed: raw bytes in C order of numpy type ``storage``, or a JSON list of strings."""

    name: str
    dtype: str
    onnx: int
    storage: str
    shape: tuple[int, ...]
    file: Path


@dataclass(frozen=True)
class Output:
    """A tensor on disk that came out; sequences and maps have an entry of their own without a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path | None
    sha256: str


@dataclass(frozen=True)
class WebGpu:
    """What a run on WebGPU takes.

    Attributes:
        library: The plugin.
        environment: Variables of the child process beyond those of this one.
    """

    library: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """How a run ended. ``error`` is the runtime's text, or how the process died, in which ``phase``.

    ``webgpu`` is what the session there told: ``adapters``, and ``nodes`` by provider and op type.
    """

    status: Status
    error: str | None
    phase: str
    outputs: tuple[Output, ...]
    seconds: float
    peak_bytes: int | None
    webgpu: Mapping[str, Any] | None = None


def run(
    model: Path,
    level: Level,
    feeds: Sequence[Feed],
    folder: Path,
    limits: RunLimits,
    *,
    external_folder: Path | None = None,
    webgpu: WebGpu | None = None,
    load_only: bool = False,
) -> Run:
    """Run ``model`` once; outputs go to ``folder``, which must exist and be empty.

    Args:
        model: The ONNX file.
        level: The optimization level.
        feeds: Every input that is fed.
        folder: Where the outputs and the child's own files go.
        limits: What the run may take.
        external_folder: Where the model's external data lies, if not beside it.
        webgpu: Run it there; None: on the CPU.
        load_only: Only open the session.

    Raises:
        VerificationError: The child process itself does not work (kind ``runner``).
        UsageError: The disk is full.
    """
    request = {
        # Not resolved: in the Hub's cache the model is a link, and its external data lies beside the link.
        "model": str(model.absolute()),
        "external_folder": str(external_folder.absolute()) if external_folder else None,
        "level": level,
        "threads": limits.threads,
        "feeds": [{**vars(feed), "file": str(feed.file.resolve())} for feed in feeds],
        "folder": str(folder.resolve()),
        "parent": os.getpid(),
        "webgpu": {"script": str(WEBGPU_SCRIPT), "library": webgpu.library} if webgpu else None,
        "load_only": load_only,
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    start = time.monotonic()
    with _child(folder, webgpu.environment if webgpu else {}) as process:
        peak, killed = _watch(process, limits, start)
    return _read(folder, process.returncode, killed, peak, time.monotonic() - start)


@contextlib.contextmanager
def _child(folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The started child, in a process group of its own; on leaving it is gone, whatever happened."""
    # -P: this folder must not become sys.path[0], where bisect.py would hide the standard library's.
    command = [sys.executable, "-P", str(CHILD), str(folder / "request.json")]
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
                **environment,
            },  # numpy's threads would only cost start-up
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            _kill(process)
        process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _watch(
    process: subprocess.Popen[bytes], limits: RunLimits, start: float
) -> tuple[int | None, Status | None]:
    """Wait for the child's end or its limits; returns its peak memory as last seen, and why it was killed."""
    memory = limits.memory or machine_memory() * 95 // 100
    peak: int | None = None
    pause = POLL_SECONDS[0]
    while process.poll() is None:
        resident, high = _memory(process.pid)
        peak = high or peak
        if resident is not None and resident > memory:
            _kill(process)
            return peak, "out_of_memory"
        if time.monotonic() - start > limits.seconds:
            _kill(process)
            return peak, "timeout"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(pause)
        pause = min(pause * 1.5, POLL_SECONDS[1])
    return peak, None


def _memory(pid: int) -> tuple[int | None, int | None]:
    """Resident bytes of a process, now and at most so far."""
    values: dict[str, int] = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(("VmRSS:", "VmHWM:")):
                key, number, _unit = line.split()
                values[key] = int(number) * 1024
    except OSError:
        return _memory_by_ps(pid)
    return values.get("VmRSS:"), values.get("VmHWM:")


def _memory_by_ps(pid: int) -> tuple[int | None, int | None]:
    """The same for a system without /proc, such as macOS; the most so far is not known there."""
    try:
        text = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
        return int(text) * 1024, None
    except (OSError, ValueError):
        return None, None


def machine_memory() -> int:
    """Bytes of memory of this machine, or of its container if that has less."""
    total = 2**63
    with contextlib.suppress(AttributeError, ValueError, OSError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text(encoding="ascii")))
    return total


def _read(folder: Path, code: int, killed: Status | None, peak: int | None, seconds: float) -> Run:
    """What the child left behind."""
    phase_file, result_file = folder / "phase", folder / "result.json"
    phase = phase_file.read_text(encoding="ascii") if phase_file.exists() else "starting"
    if not result_file.exists():
        return _died(folder, code, killed, phase, peak, seconds)
    result = json.loads(result_file.read_text(encoding="utf-8"))
    if result["status"] == "broken":
        raise _broken(result["error"])
    outputs = tuple(
        Output(
            name=output["name"],
            dtype=output["dtype"],
            shape=tuple(output["shape"]),
            file=folder / output["file"] if output["file"] else None,
            sha256=output["sha256"],
        )
        for output in result["outputs"]
    )
    return Run(
        status=result["status"],
        error=result["error"],
        phase=phase,
        outputs=outputs,
        seconds=seconds,
        peak_bytes=result["peak_bytes"] or peak,
        webgpu=result.get("webgpu"),
    )


def _died(
    folder: Path, code: int, killed: Status | None, phase: str, peak: int | None, seconds: float
) -> Run:
    if killed:
        return Run(killed, None, phase, (), seconds, peak)
    if code == CANNOT_WRITE:
        raise UsageError(
            "there is no room for the outputs of a run",
            where=str(folder),
            hint="free some space; HUBPUBLISH_CACHE and TMPDIR name other folders",
            kind="disk_full",
        )
    last_words = (folder / "stderr").read_text(encoding="utf-8", errors="replace")[-STDERR_TAIL:].strip()
    if phase == "starting":
        raise _broken(last_words or f"exit code {code}")
    death = f"exit code {code}"
    if code < 0:
        with contextlib.suppress(ValueError):
            death = signal.Signals(-code).name
    # Nobody but the kernel, short of memory, sends SIGKILL to a process of ours.
    status: Status = "out_of_memory" if death == "SIGKILL" else "crashed"
    error = death + (f": {' '.join(last_words.split())}" if last_words else "")
    return Run(status, error, phase, (), seconds, peak)


def _broken(error: str) -> VerificationError:
    return VerificationError(
        f"the process that runs the model does not work: {error.splitlines()[-1] if error else 'no message'}",
        hint="check that numpy and onnxruntime import in this Python, and that the disk is not full",
        kind="runner",
        details={"log": error},
    )
