"""Running commands as a shell does, and as a program does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hubpublish.cli.main import run

COMMAND = [sys.executable, "-m", "hubpublish"]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What is on stdout, which must be one JSON document and nothing else."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        found = self.json["error"]
        assert found["exit_code"] == self.code
        assert isinstance(found, dict)
        return found


class Shell:
    """Commands in this process, with what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Done:
        self._capsys.readouterr()
        code = run([str(each) for each in arguments])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        assert arguments[:1] == ("hub",) or "hf_alice" not in out + err  # whose help names its tokens
        return Done(code, out, err)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A clean environment for a process of its own."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HF_HOME")}
    return {**kept, "HOME": str(folder), "HUBPUBLISH_CACHE": str(folder / "cache"), **more}


def in_a_process(*arguments: str | Path, folder: Path, **more: str) -> Done:
    """A command in a process of its own, its output in a pipe."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
