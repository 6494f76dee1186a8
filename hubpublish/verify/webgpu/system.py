"""The plugin, the driver, and what to install where one of them is missing."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final

from hubpublish.errors import UsageError

PLUGIN: Final = "onnxruntime-ep-webgpu"
CHOSEN: Final = (
    "VK_ICD_FILENAMES",
    "VK_DRIVER_FILES",
    "VK_ADD_DRIVER_FILES",
)  # a person's choice of a driver
DRIVERS: Final = (
    *(Path("/usr/share/vulkan/icd.d"), Path("/usr/local/share/vulkan/icd.d")),
    *(Path("/etc/vulkan/icd.d"), Path.home() / ".local/share/vulkan/icd.d"),
)
SWIFTSHADER: Final = (
    *(
        Path("/usr/lib/chromium/vk_swiftshader_icd.json"),
        Path("/usr/lib/chromium-browser/vk_swiftshader_icd.json"),
    ),
    Path("/opt/google/chrome/vk_swiftshader_icd.json"),
)


def library() -> str:
    """The path of the plugin.

    Raises:
        UsageError: ``no_webgpu_device``: it is not installed.
    """
    try:
        return str(import_module("onnxruntime_ep_webgpu").get_library_path())
    except ImportError:
        raise no_device(f"the plugin {PLUGIN} is not installed", "pip install 'hubpublish[webgpu]'") from None


def plugin_name() -> str:
    """The plugin and its version, such as ``onnxruntime-ep-webgpu 0.4.0``."""
    return f"{PLUGIN} {version(PLUGIN)}"


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a process that uses the device needs beyond the environment of this one.

    Software adapters are welcome. Where nobody chose a driver and there is none, Chromium's own will do.
    """
    found = {"ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1"}
    if "XDG_RUNTIME_DIR" not in environ:
        found["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    if sys.platform.startswith("linux") and not any(environ.get(name) for name in CHOSEN):
        installed = any(folder.is_dir() and any(folder.glob("*.json")) for folder in DRIVERS)
        chromiums = next((path for path in SWIFTSHADER if path.is_file()), None)
        if not installed and chromiums is not None:
            found["VK_ICD_FILENAMES"] = str(chromiums)
    return found


def no_device(what: str, hint: str | None = None) -> UsageError:
    """The error where nothing can run on WebGPU, with what to install on this system."""
    return UsageError(
        f"there is no WebGPU device to verify on: {what}",
        where="webgpu",
        hint=hint or how_to_install(),
        kind="no_webgpu_device",
    )


def how_to_install(system: str = sys.platform) -> str:
    """What gives this system a WebGPU device; a software one will do."""
    if system == "darwin":
        return "macOS has one in every Mac with Metal: run it where the GPU can be reached"
    if system == "win32":
        return "install a driver of the GPU's maker with Direct3D 12"
    release = _release()
    if release.get("ID") in ("debian", "ubuntu") or "debian" in release.get("ID_LIKE", ""):
        suite = " -t bookworm-backports" if release.get("VERSION_CODENAME") == "bookworm" else ""
        extra = " (its own is too old)" if suite else ""
        return f"apt-get install --no-install-recommends{suite} mesa-vulkan-drivers libvulkan1{extra}"
    return "install the Vulkan loader and a Vulkan driver: the GPU's, or Mesa's software driver lavapipe"


def _release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}
