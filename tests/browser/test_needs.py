from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.browser import needs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Packages as they are after `npm ci`."""
    shutil.copy(needs.FOLDER / needs.LOCK, tmp_path)
    (tmp_path / needs.INSTALLED).parent.mkdir()
    shutil.copy(needs.FOLDER / needs.LOCK, tmp_path / needs.INSTALLED)
    return tmp_path


def test_packages_are_those_of_the_lock(folder: Path) -> None:
    assert needs.packages(folder) == folder / "node_modules"


def test_packages_of_an_older_lock_are_not_taken(folder: Path) -> None:
    installed = folder / needs.INSTALLED
    lock = json.loads(installed.read_text("utf-8"))
    lock["packages"]["node_modules/onnxruntime-web"]["integrity"] = "sha512-of another version"
    installed.write_text(json.dumps(lock), "utf-8")
    with pytest.raises(needs.MissingError, match=r"not those of package-lock\.json; run "):
        needs.packages(folder)


def test_without_packages_it_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(needs.MissingError, match=r"not installed; run tests/browser/install\.sh"):
        needs.packages(tmp_path)


def test_without_a_browser_or_node_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(needs, "find_spec", lambda name: name)
    with pytest.raises(needs.MissingError, match="apt-get install chromium"):
        needs.chromium()
    with pytest.raises(needs.MissingError, match="apt-get install node"):
        needs.node()


def test_the_lock_pins_what_is_installed_and_no_address() -> None:
    lock = json.loads((needs.FOLDER / needs.LOCK).read_text("utf-8"))
    packages = {path: package for path, package in lock["packages"].items() if path}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
    wanted = json.loads((needs.FOLDER / "package.json").read_text("utf-8"))["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+(-dev\.[\w-]+)?", version) for version in wanted.values())
    # One runtime: Transformers.js would bring one of its own where it asks for another version.
    assert sum(path.endswith("/onnxruntime-web") for path in packages) == 1
