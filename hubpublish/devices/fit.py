"""Does every node fit the device's storage-buffer slots?

A shader binds one storage buffer for each tensor that it reads or writes on the GPU. Inputs that
stay on the host (the sizes of a Split, the shape of a Reshape) and operators that run without a
shader take none; ``operators.json`` lists both, read from the kernels of ONNX Runtime's WebGPU
execution provider and tried with the native plugin 0.4.0. Only Split's own limit differs between the
listed runtimes, and there the formula below is the worst of them. Tensors are counted as if each fits
one binding.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from hubpublish.devices.profiles import Profile
from hubpublish.devices.runtimes import Runtime
from hubpublish.model import node_label, scopes
from hubpublish.model.statistics import op_name
from hubpublish.passes import PASSES

DOMAINS_WITH_SHADERS = ("", "com.microsoft")


class NodeWidth(BaseModel):
    """How many storage-buffer slots a node takes.

    ``narrowed_by`` names the pass that can narrow its op type; None if no pass can.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    op: str
    scope: str
    slots: int
    narrowed_by: str | None


class Fit(BaseModel):
    """Whether a model fits a profile; true in a condition if nothing stands in the way.

    Attributes:
        profile: Name of the device profile.
        limit: Slots that the profile grants.
        widest: The node that takes most slots; the first of several.
        widest_by_op: The same for each op type that a pass can narrow or that is over the limit.
        too_wide: Nodes over the limit that some pass could have narrowed: the model does not fit.
        cannot_run: Nodes over the limit that no pass can narrow: they will not run on this device.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str
    limit: int
    widest: NodeWidth | None
    widest_by_op: tuple[NodeWidth, ...]
    too_wide: tuple[NodeWidth, ...]
    cannot_run: tuple[NodeWidth, ...]

    def __bool__(self) -> bool:
        return not self.too_wide


def measure_fit(
    model: ir.Model,
    profile: Profile,
    runtime: Runtime | None = None,
    shaders: Collection[ir.Node] | None = None,
) -> Fit:
    """Count the slots of every node, in every scope, against the profile.

    With a runtime, nodes that it splits up by itself or has no kernels for are not counted; without one
    the worst of the listed runtimes counts.

    Args:
        model: The model.
        profile: What the device grants.
        runtime: What runs the model there.
        shaders: The nodes that may run on the GPU, if that was worked out; None: all that could.
    """
    widths = node_widths(model, shaders)
    if runtime is not None:
        widths = [each for each in widths if _is_one_shader(each.op, runtime)]
    over = [width for width in widths if width.slots > profile.storage_buffers]
    by_op: dict[str, NodeWidth] = {}
    for width in widths:
        if width.op not in by_op or width.slots > by_op[width.op].slots:
            by_op[width.op] = width
    return Fit(
        profile=profile.name,
        limit=profile.storage_buffers,
        widest=max(widths, key=lambda width: width.slots, default=None),
        widest_by_op=tuple(
            width
            for _, width in sorted(by_op.items())
            if width.narrowed_by or width.slots > profile.storage_buffers
        ),
        too_wide=tuple(width for width in over if width.narrowed_by),
        cannot_run=tuple(width for width in over if not width.narrowed_by),
    )


def _is_one_shader(op: str, runtime: Runtime) -> bool:
    return op in runtime.kernels and op not in runtime.splits_itself


def node_widths(model: ir.Model, shaders: Collection[ir.Node] | None = None) -> list[NodeWidth]:
    """The slots of every node that runs in a shader, in the order of the graphs."""
    narrowing = {op: each.name for each in PASSES.values() if each.narrows for op in each.op_types}
    return [
        NodeWidth(
            node=node_label(node),
            op=op_name(node),
            scope=scope.label,
            slots=slots,
            narrowed_by=narrowing.get(op_name(node)),
        )
        for scope in scopes(model)
        for node in scope.graph
        if (shaders is None or node in shaders) and (slots := slots_of(node))
    ]


def slots_of(node: ir.Node) -> int:
    """Storage-buffer slots that a node takes; 0 if it runs without a shader."""
    _, without_shader = _operators()
    if node.domain not in DOMAINS_WITH_SHADERS or op_name(node) in without_shader:
        return 0
    host = host_inputs_of(node)
    inputs = sum(1 for index, value in enumerate(node.inputs) if value is not None and index not in host)
    return inputs + sum(1 for value in node.outputs if value.name)


def host_inputs_of(node: ir.Node) -> frozenset[int]:
    """The inputs that a kernel on the GPU reads on the host, by position."""
    return _operators()[0].get(op_name(node), frozenset())


@cache
def _operators() -> tuple[dict[str, frozenset[int]], frozenset[str]]:
    data = json.loads(files("hubpublish.devices").joinpath("operators.json").read_text("utf-8"))
    host = {op: frozenset(indices) for op, indices in data["host_inputs"].items()}
    return host, frozenset(data["without_shader"])
