"""Write the kernel table of the native WebGPU execution provider from the installed plugin.

Run it as ``python -m hubpublish.devices.refresh``, with ``onnxruntime-ep-webgpu`` installed; the plugin
tells nothing where there is no device, a software one will do. What it does not tell (failures, limits) is
kept from the file that is there.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx

from hubpublish.devices.runtimes import is_of_others
from hubpublish.errors import UsageError

PROVIDER, CPU_PROVIDER = "WebGpuExecutionProvider", "CPUExecutionProvider"
DOMAINS = ("", "com.microsoft")
CHANNELS_LAST = "com.ms.internal.nhwc"  # operators between Transposes that the runtime adds
COPIES = ("MemcpyFromHost", "MemcpyToHost")
OPEN = 2**31 - 1  # the end of a kernel that is registered without one

Types = tuple[tuple[str, tuple[str, ...]], ...]


def read_plugin() -> dict[str, Any]:
    """The plugin's table as it is stored.

    Raises:
        UsageError: The plugin is not installed, or finds no device.
    """
    import onnxruntime
    from onnxruntime.capi import _pybind_state as state

    try:
        plugin = import_module("onnxruntime_ep_webgpu")
    except ImportError:
        raise UsageError(
            "the plugin is not installed", where="onnxruntime-ep-webgpu", hint="install it with pip"
        ) from None
    os.environ.setdefault("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1")
    onnxruntime.register_execution_provider_library("hubpublish-refresh", plugin.get_library_path())
    try:
        definitions = state.get_registered_ep_kernel_defs(PROVIDER)
    except RuntimeError as error:
        raise UsageError(str(error), where="onnxruntime-ep-webgpu", kind="no_webgpu_device") from None
    kernels, on_cpu = _by_op(definitions), _by_op(state.get_registered_ep_kernel_defs(CPU_PROVIDER))
    schemas = onnx.defs.get_all_schemas_with_history()
    of_others = {each.name for each in schemas if not each.domain and is_of_others(each)}
    return {
        "summary": f"onnxruntime-ep-webgpu {version('onnxruntime-ep-webgpu')}, the native plugin",
        "source": f"read from the plugin under onnxruntime {onnxruntime.__version__}",
        "changes_layout": sorted({each.op_name for each in definitions if each.domain == CHANNELS_LAST}),
        "kernels": {op: _entries(kernels[op]) for op in sorted(kernels)},
        "cpu_kernels": {op: _entries(on_cpu[op]) for op in sorted(of_others & on_cpu.keys())},
        "signatures": _signatures(state.get_all_operator_schema(), kernels),
    }


def _by_op(definitions: Iterable[Any]) -> dict[str, list[Any]]:
    kernels: dict[str, list[Any]] = defaultdict(list)
    for each in definitions:
        if each.domain in DOMAINS and each.op_name not in COPIES:
            kernels[_op(each.domain, each.op_name)].append(each)
    return kernels


def _op(domain: str, op_type: str) -> str:
    return f"{domain}::{op_type}" if domain else op_type


def _entries(definitions: Iterable[Any]) -> list[list[Any]]:
    """Kernels of an operator, those with the same types joined where one begins after another ends."""
    ranges: dict[Types, list[tuple[int, int]]] = defaultdict(list)
    for each in definitions:
        first, last = each.version_range
        types = {name: tuple(sorted(map(_dtype, dtypes))) for name, dtypes in each.type_constraints.items()}
        ranges[tuple(sorted(types.items()))].append((first, first if last == OPEN else last))
    joined = {types: tuple(_joined(sorted(found))) for types, found in ranges.items()}
    entries = [(versions, dict(types)) for types, found in joined.items() for versions in found]
    return [
        [f"{first}-{last}" if first < last else f"{first}", {n: " ".join(d) for n, d in types.items()}]
        for (first, last), types in _typed(entries)
    ]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _typed(entries: Iterable[tuple[Any, dict[str, tuple[str, ...]]]]) -> list[tuple[Any, dict[str, Any]]]:
    """One entry for kernels of the same versions that are registered type by type."""
    merged: dict[tuple[Any, str], tuple[str, ...]] = {}
    others = []
    for versions, types in entries:
        if len(types) == 1:
            ((name, dtypes),) = types.items()
            merged[versions, name] = tuple(sorted({*merged.get((versions, name), ()), *dtypes}))
        else:
            others.append((versions, types))
    singles = [(versions, {name: dtypes}) for (versions, name), dtypes in merged.items()]
    return sorted([*singles, *others], key=lambda entry: (entry[0], str(entry[1])))


def _dtype(name: str) -> str:
    return name.removeprefix("tensor(").removesuffix(")")


def _signatures(schemas: Iterable[Any], kernels: Mapping[str, Any]) -> dict[str, Any]:
    """Type parameters of the operators that onnx does not know."""
    found = {}
    for each in sorted(schemas, key=lambda schema: (schema.domain, schema.name, schema.since_version)):
        op = _op(each.domain, each.name)
        if op in kernels and not onnx.defs.has(each.name, each.domain):
            found[op] = {
                "inputs": [f"{parameter.name}:{parameter.typeStr}" for parameter in each.inputs],
                "outputs": [f"{parameter.name}:{parameter.typeStr}" for parameter in each.outputs],
            }
    return found


def written(table: Mapping[str, Any]) -> str:
    """A table as JSON with one line an operator."""
    parts = []
    for key, value in table.items():
        if isinstance(value, dict) and value:
            lines = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f"  {json.dumps(key)}: {{\n{lines}\n  }}")
        elif isinstance(value, list) and value and not isinstance(value[0], str):
            lines = ",\n".join(f"    {json.dumps(each)}" for each in value)
            parts.append(f"  {json.dumps(key)}: [\n{lines}\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write the file of the installed plugin's version."""
    folder = Path(__file__).parent / "kernels"
    name = f"native-{version('onnxruntime-ep-webgpu')}.json"
    others = sorted(folder.glob("native-*.json"))
    before = folder / name if (folder / name).exists() else (others[-1] if others else None)
    new = {"shape_arithmetic_on_cpu": False, "first_opset": 7}
    kept = json.loads(before.read_text("utf-8")) if before else new
    table = read_plugin()
    last = ("changes_layout", "kernels", "cpu_kernels", "signatures")
    order = ("summary", "source", *(key for key in kept if key not in table), *last)
    (folder / name).write_text(written({key: {**kept, **table}[key] for key in order}), encoding="utf-8")
    sys.stdout.write(f"{folder / name}: {len(table['kernels'])} operators\n")


if __name__ == "__main__":
    main()
