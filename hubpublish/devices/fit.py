"""Does every node fit the device's storage-buffer slots?

A shader binds one storage buffer for each tensor that it reads or writes on the GPU. Inputs that
stay on the host (the sizes of a Split, the shape of a Reshape) and operators that run without a
shader take none; ``operators.json`` lists both, read from the kernels of ONNX Runtime's WebGPU
execution provider and tried with the native plugin 0.4.0. How many slots there are is up to the device,
and for some operators of some runtimes to the runtime, which may take fewer. Tensors are counted as if
each fits one binding.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from hubpublish.devices.profiles import Profile
from hubpublish.devices.runtimes import Runtime, all_runtimes
from hubpublish.model import node_label, scopes
from hubpublish.model.statistics import op_name
from hubpublish.passes import PASSES

DOMAINS_WITH_SHADERS = ("", "com.microsoft")


class NodeWidth(BaseModel):
    """How many storage-buffer slots a node takes.

    Attributes:
        narrowed_by: The pass that can narrow its op type; None if no pass can.
        limit: How many it gets in the worst of the runtimes that were asked; None if none runs it as one
            shader, and in reports of before it was noted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    op: str
    scope: str
    slots: int
    narrowed_by: str | None
    limit: int | None = None

    def exceeds(self, granted: int) -> bool:
        """Whether it takes more than it gets, or more than ``granted`` where its own limit is not noted."""
        return self.slots > (granted if self.limit is None else self.limit)


class Fit(BaseModel):
    """Whether a model fits a profile; true in a condition if nothing stands in the way.

    Attributes:
        profile: Name of the device profile.
        limit: Slots that the profile grants; those of a node may be fewer, see `NodeWidth`.
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

    @property
    def granted_by(self) -> str:
        """What grants too few: the profile, or where a node gets fewer than that, also the runtime."""
        over = (*self.too_wide, *self.cannot_run)
        fewer = any(width.limit is not None and width.limit < self.limit for width in over)
        return f"{self.profile} or the runtime" if fewer else self.profile


def measure_fit(
    model: ir.Model,
    profile: Profile,
    runtime: Runtime | None = None,
    shaders: Mapping[ir.Node, Collection[str]] | None = None,
) -> Fit:
    """Count the slots of every node, in every scope, against what it gets.

    Nodes that a runtime splits up by itself or has no kernels for are not counted there; without a runtime
    the worst of those listed counts.

    Args:
        model: The model.
        profile: What the device grants.
        runtime: What runs the model there.
        shaders: The nodes that may run on the GPU, each with the runtimes where it may, if that was worked
            out; None: all that could.
    """
    runtimes = all_runtimes() if runtime is None else (runtime,)
    widths = [each for each in node_widths(model, profile, runtimes, shaders) if each.limit is not None]
    over = [width for width in widths if width.exceeds(profile.storage_buffers)]
    by_op: dict[str, NodeWidth] = {}
    for width in widths:
        known = by_op.setdefault(width.op, width)
        if (width.slots, -(width.limit or 0)) > (known.slots, -(known.limit or 0)):
            by_op[width.op] = width
    return Fit(
        profile=profile.name,
        limit=profile.storage_buffers,
        widest=max(widths, key=lambda width: width.slots, default=None),
        widest_by_op=tuple(
            width
            for _, width in sorted(by_op.items())
            if width.narrowed_by or width.exceeds(profile.storage_buffers)
        ),
        too_wide=tuple(width for width in over if width.narrowed_by),
        cannot_run=tuple(width for width in over if not width.narrowed_by),
    )


def slots_granted(op: str, profile: Profile, runtimes: Iterable[Runtime]) -> dict[str, int]:
    """By the name of each runtime that runs an operator as one shader, the slots that this gets."""
    granted = profile.storage_buffers
    return {
        each.name: min(granted, each.limits[op].storage_buffers) if op in each.limits else granted
        for each in runtimes
        if op in each.kernels and op not in each.splits_itself
    }


def node_widths(
    model: ir.Model,
    profile: Profile | None = None,
    runtimes: Collection[Runtime] = (),
    shaders: Mapping[ir.Node, Collection[str]] | None = None,
) -> list[NodeWidth]:
    """The slots of every node that runs in a shader, in the order of the graphs.

    Args:
        model: The model.
        profile: The device that limits are of; None: there are none.
        runtimes: The runtimes that limits are of.
        shaders: As in `measure_fit`.
    """
    narrowing = {op: each.name for each in PASSES.values() if each.narrows for op in each.op_types}
    granted: dict[str, dict[str, int]] = {}

    def limit_of(node: ir.Node, op: str) -> int | None:
        if profile is None:
            return None
        if op not in granted:
            granted[op] = slots_granted(op, profile, runtimes)
        return min(
            (least for name, least in granted[op].items() if shaders is None or name in shaders[node]),
            default=None,
        )

    return [
        NodeWidth(
            node=node_label(node),
            op=(op := op_name(node)),
            scope=scope.label,
            slots=slots,
            narrowed_by=narrowing.get(op),
            limit=limit_of(node, op),
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
