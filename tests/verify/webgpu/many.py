"""Many small models on the device that the tests found, and what the tables say of them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from hubpublish.devices.loaded import load_like_a_runtime
from hubpublish.devices.placement import Placement, Side, place
from hubpublish.devices.runtimes import Runtime
from hubpublish.verify.webgpu.bench import Device

SCRIPT = Path(__file__).with_name("sessions.py")
SECONDS = 300
NO_KERNEL = ("Could not find an implementation", "Failed to find kernel", "Provider type for")  # on no side


@dataclass(frozen=True)
class Model:
    """A model to open.

    Attributes:
        name: What the tests call it.
        proto: The model.
        feeds: Its inputs, in order; None: it is opened and not run.
        copies: Whether its copies are counted.
    """

    name: str
    proto: onnx.ModelProto
    feeds: Sequence[Any] | None = None
    copies: bool = False


@dataclass(frozen=True)
class Real:
    """What became of it.

    Attributes:
        error: Why it could not be opened.
        fails: Why it could not be run.
        nodes: Each with whether it is on the GPU, its domain, op type and name.
        copies: Memcpy nodes by op type.
        outputs: What came out.
        on_the_cpu: The same of the CPU execution provider; None: it cannot run the model.
    """

    error: str | None = None
    fails: str | None = None
    nodes: Sequence[tuple[bool, str, str, str]] = ()
    copies: Counter[str] = field(default_factory=Counter)
    outputs: Sequence[Any] | None = None
    on_the_cpu: Sequence[Any] | None = None

    @property
    def sides(self) -> dict[str, Side]:
        """By the name of a node."""
        return {name: Side.GPU if on_gpu else Side.CPU for on_gpu, _, _, name in self.nodes}

    @property
    def on_cpu(self) -> list[str]:
        """Operators on the CPU."""
        return sorted(
            f"{domain}::{op}" if domain else op for on_gpu, domain, op, _ in self.nodes if not on_gpu
        )

    @property
    def has_no_kernel(self) -> bool:
        """Whether it could not be opened because no side has a kernel."""
        return self.error is not None and any(text in self.error for text in NO_KERNEL)


def open_all(models: Sequence[Model], device: Device) -> list[Real]:
    """Open the models, and run those with inputs; one that crashes the process is an error of its own."""
    with tempfile.TemporaryDirectory() as folder:
        requests, answers = Path(folder, "requests"), Path(folder, "answers")
        requests.write_bytes(
            pickle.dumps(
                [
                    {"model": each.proto.SerializeToString(), "feeds": each.feeds, "copies": each.copies}
                    for each in models
                ]
            )
        )
        found: list[Real] = []
        while len(found) < len(models):
            answers.unlink(missing_ok=True)
            last_words = _run([str(requests), str(answers), str(len(found)), device.webgpu.library], device)
            new = _read(answers)
            found += new
            if len(found) < len(models):
                assert new or not found, last_words  # a process that never begins
                found.append(Real(error=f"crashed: {last_words}"))
        return found


def _run(arguments: list[str], device: Device) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, **device.webgpu.environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.stderr[-1000:]


def _read(answers: Path) -> list[Real]:
    found = []
    if answers.exists():
        with answers.open("rb") as file:
            while True:
                try:
                    found.append(Real(**pickle.load(file)))
                except EOFError:
                    break
    return found


def named(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every node has a name of its own, bodies too."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    graphs, number = [copy.graph], 0
    while graphs:
        for node in graphs.pop().node:
            node.name, number = f"n{number}", number + 1
            for attribute in node.attribute:
                graphs += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
    return copy


def predicted(proto: onnx.ModelProto, runtime: Runtime) -> Placement:
    """Where its nodes run by the table."""
    return place(load_like_a_runtime(ir.from_proto(proto)), [runtime])
