from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hubpublish.verify.scratch import scratch

DIES = """
import os, signal, sys
from pathlib import Path
from hubpublish.verify.scratch import scratch
with scratch("test-", Path(sys.argv[1])) as folder:
    (folder / "0.bin").write_bytes(b"1234")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_empty_and_gone_afterwards(tmp_path: Path) -> None:
    with scratch("test-", tmp_path) as folder:
        assert names(folder) == []
        (folder / "file").write_bytes(b"")
    assert names(tmp_path) == []


def test_a_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), scratch("test-", tmp_path):
        raise KeyError
    assert names(tmp_path) == []


def test_what_a_killed_process_left_goes_and_what_is_in_use_stays(tmp_path: Path) -> None:
    with scratch("test-", tmp_path) as used:
        done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], timeout=60, check=False)
        assert done.returncode == -9
        left = set(names(tmp_path)) - {used.name, f"{used.name}.lock"}
        assert len(left) == 2  # the folder and its lock
        (tmp_path / "other-dead").mkdir()
        with scratch("test-", tmp_path) as second:
            assert used.exists()
            assert not left & set(names(tmp_path))
            assert second.exists()
    assert names(tmp_path) == ["other-dead"]
