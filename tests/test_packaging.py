"""How the project installs itself: `make install` builds it without isolation, from the locked packages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = """
import sys
sys.modules["editables"] = None  # as where only what constraints.txt names is installed
from hatchling.builders.wheel import WheelBuilder
print(next(WheelBuilder(sys.argv[1]).build(directory=sys.argv[2], versions=[sys.argv[3]])))
"""


def build(kind: str, folder: Path) -> zipfile.ZipFile:
    arguments = [sys.executable, "-c", BUILD, str(ROOT), str(folder), kind]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(done.stdout.splitlines()[-1])


def test_an_editable_install_needs_hatchling_alone(tmp_path: Path) -> None:
    locked = (ROOT / "constraints.txt").read_text("utf-8")
    assert "\nhatchling==" in locked
    with build("editable", tmp_path) as wheel:
        (path,) = (name for name in wheel.namelist() if name.endswith(".pth"))
        assert wheel.read(path).decode().strip() == str(ROOT)


def test_a_wheel_has_code_templates_and_tables(tmp_path: Path) -> None:
    with build("standard", tmp_path) as wheel:
        names = set(wheel.namelist())
    templates = {f"hubpublish/templates/{path.name}" for path in (ROOT / "templates").iterdir()}
    assert templates <= names
    assert {"hubpublish/cli/main.py", "hubpublish/devices/profiles.json"} <= names
    assert not any(name.startswith(("tests/", "configs/", "bench/")) for name in names)
