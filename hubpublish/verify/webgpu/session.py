"""A session on the WebGPU execution provider, in the child process; loaded there by its path.

Imports nothing of the package, like ``child.py``, whose request it takes a part of: ``library`` (the plugin).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import Counter
from pathlib import Path
from typing import Any

import onnxruntime as ort

PROVIDER = "WebGpuExecutionProvider"
OPTIMIZED, WEIGHTS = "optimized.onnx", "optimized.weights"


class NoDevice(Exception):  # noqa: N818 - said in words that a user reads
    """The plugin is there, and no device that it can use."""


def open_session(
    model: Any, options: Any, request: dict[str, Any], folder: Path, result: dict[str, Any]
) -> Any:
    """A session on the first device of the provider; what it cannot run is on the CPU, and counted.

    The model as it is run goes to ``folder``, so that the copies in it can be counted.
    """
    result["webgpu"] = {"adapters": vulkan_devices()}
    ort.register_execution_provider_library("hubpublish", request["library"])
    device = next((each for each in ort.get_ep_devices() if each.ep_name == PROVIDER), None)
    if device is None:
        raise NoDevice("the WebGPU execution provider finds no device")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)
    options.optimized_model_filepath = str(folder / OPTIMIZED)
    options.add_provider_for_devices([device], {})
    session = ort.InferenceSession(model, options)
    if PROVIDER not in session.get_providers():
        raise NoDevice("the session has no WebGPU execution provider")
    nodes: dict[str, Counter[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        names = (
            f"{each.domain}::{each.op_type}" if each.domain else each.op_type for each in part.get_nodes()
        )
        nodes.setdefault(part.ep_name, Counter()).update(names)
    result["webgpu"]["nodes"] = {name: dict(sorted(ops.items())) for name, ops in sorted(nodes.items())}
    (folder / WEIGHTS).unlink(missing_ok=True)  # as large as the model's, and nobody reads them
    return session


def vulkan_devices() -> list[str]:
    """The names of the Vulkan devices of this process; empty where there is no Vulkan.

    The provider does not tell which adapter it chose, but where there is one it is that.
    """
    with contextlib.suppress(OSError, AttributeError):
        return [*_vulkan_devices(ctypes.CDLL("libvulkan.so.1"))]
    return []


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    )


class _InstanceInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(_ApplicationInfo)),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


def _vulkan_devices(vulkan: Any) -> Any:
    """By the structures of the Vulkan specification: VkPhysicalDeviceProperties has the name at byte 20."""
    application = _ApplicationInfo(type=0, api_version=1 << 22)
    info = _InstanceInfo(type=1, application=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)):
        return
    count = ctypes.c_uint32()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    devices = (ctypes.c_void_p * count.value)()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
    for device in devices:
        properties = ctypes.create_string_buffer(2048)
        vulkan.vkGetPhysicalDeviceProperties(ctypes.c_void_p(device), properties)
        yield properties.raw[20 : 20 + 256].split(b"\0")[0].decode("utf-8", "replace")
    vulkan.vkDestroyInstance(instance, None)
