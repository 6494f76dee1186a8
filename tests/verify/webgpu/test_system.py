from __future__ import annotations

from pathlib import Path

import pytest

from hubpublish.errors import UsageError
from hubpublish.verify.webgpu import system
from tests.errors import error_of


def test_a_missing_plugin_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(system, "import_module", missing)
    error = error_of(UsageError, system.library)
    assert (error.kind, error.exit_code) == ("no_webgpu_device", 2)
    assert error.what.endswith("the plugin onnxruntime-ep-webgpu is not installed")
    assert error.hint == "pip install 'hubpublish[webgpu]'"


@pytest.mark.parametrize(
    ("name", "release", "hint"),
    [
        (
            "linux",
            {"ID": "debian", "VERSION_CODENAME": "bookworm"},
            "-t bookworm-backports mesa-vulkan-drivers",
        ),
        ("linux", {"ID": "ubuntu"}, "apt-get install --no-install-recommends mesa-vulkan-drivers libvulkan1"),
        ("linux", {"ID": "mint", "ID_LIKE": "ubuntu debian"}, "mesa-vulkan-drivers"),
        ("linux", {"ID": "arch"}, "lavapipe"),
        ("darwin", {}, "Metal"),
        ("win32", {}, "Direct3D 12"),
    ],
)
def test_what_to_install_is_the_systems_own(
    monkeypatch: pytest.MonkeyPatch, name: str, release: dict[str, str], hint: str
) -> None:
    monkeypatch.setattr(system, "_release", lambda: release)
    assert hint in system.how_to_install(name)


class TestEnvironment:
    def test_a_software_adapter_is_allowed(self) -> None:
        assert system.environment({})["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"] == "1"

    def test_a_folder_of_the_session_stays(self) -> None:
        assert "XDG_RUNTIME_DIR" not in system.environment({"XDG_RUNTIME_DIR": "/run/user/1"})
        assert "XDG_RUNTIME_DIR" in system.environment({})

    @pytest.mark.parametrize("variable", system.CHOSEN)
    def test_a_chosen_driver_stays(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
    ) -> None:
        monkeypatch.setattr(system, "DRIVERS", ())
        monkeypatch.setattr(system, "SWIFTSHADER", (tmp_path / "shader.json",))
        (tmp_path / "shader.json").touch()
        assert "VK_ICD_FILENAMES" not in system.environment({variable: "/mine.json"})

    def test_chromiums_driver_serves_where_there_is_no_other(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(system.sys, "platform", "linux")
        monkeypatch.setattr(system, "DRIVERS", (tmp_path / "drivers",))
        monkeypatch.setattr(system, "SWIFTSHADER", (tmp_path / "none.json", tmp_path / "shader.json"))
        assert "VK_ICD_FILENAMES" not in system.environment({})
        (tmp_path / "shader.json").touch()
        assert system.environment({})["VK_ICD_FILENAMES"] == str(tmp_path / "shader.json")
        (tmp_path / "drivers").mkdir()
        (tmp_path / "drivers" / "mesa.json").touch()
        assert "VK_ICD_FILENAMES" not in system.environment({})
