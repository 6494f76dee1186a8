from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Shell
from tests.publication import model_bytes


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("HUBPUBLISH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes())
    return path
