"""run.json: durations, memory, date and machine of a run. It is for whoever ran it, and never published."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hubpublish.verify import RunMeasurement


@dataclass
class RunLog:
    """Collects what does not repeat. Times are in seconds, memory in bytes."""

    started: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls) -> RunLog:
        """A log that begins now."""
        return cls(datetime.now(UTC).isoformat(timespec="seconds"))

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Record how long the block took, also when it fails."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.steps.append({"step": step, "seconds": round(time.perf_counter() - begin, 3)})

    def add_runs(self, variant: str, runs: Iterable[RunMeasurement]) -> None:
        """Record the runs of the runtime for one variant."""
        self.runs += [{"variant": variant, **run.model_dump(mode="json")} for run in runs]

    def write(self, path: Path) -> None:
        """Write the log as JSON."""
        machine = {"system": platform.platform(), "python": platform.python_version()}
        text = json.dumps(
            {"started": self.started, "machine": machine, "steps": self.steps, "runs": self.runs}, indent=2
        )
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
