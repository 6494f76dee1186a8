"""The result of an inspection, as data that is the same for the same model, profile and runtimes."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from hubpublish.devices import Fit
from hubpublish.devices.needs import TensorSize
from hubpublish.model import GraphStatistics
from hubpublish.passes import PASSES
from hubpublish.passes.removes import Problem

WASM_BYTES: Final = 2**32  # of memory that WebAssembly with 32-bit addresses has

#: What keeps a model from running: of such a node the runtime gets no result, or a wrong one.
STOPPING: Final = (Problem.STORAGE_BUFFERS, Problem.FAILS, Problem.EMPTY, Problem.SHADER_F16)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Frozen):
    """Something that is wrong with a node.

    Attributes:
        dtype: The element type that is wrong; "" if none is.
        what: Such as ``binds 17, 8 granted``, ``no kernel for int64 Clip``.
        happens: What the runtime does then.
        amount, allowed: Storage buffers or bytes that the node takes, and that there are.
        bytes_from_gpu, bytes_to_gpu: Bytes that are copied because the node is on the CPU, once each; None
            if a size is not known.
        passes: The passes for such nodes, in the order in which they are listed. Whether one can rewrite this
            very node was not tried.
        runtimes: Where it is so.
        believed: Whether that is believed of one of those runtimes, and not measured.
    """

    node: str
    op: str
    scope: str
    problem: Problem
    dtype: str
    what: str
    happens: str
    amount: int | None = None
    allowed: int | None = None
    bytes_from_gpu: int | None = 0
    bytes_to_gpu: int | None = 0
    passes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    believed: bool = False


class Group(_Frozen):
    """Nodes of one operator with which the same is wrong.

    ``first`` is the first of them in the order of the graphs; a tensor that several of them share is
    counted once in the bytes.
    """

    problem: Problem
    op: str
    dtype: str
    nodes: int
    first: str
    what: str
    happens: str
    bytes_from_gpu: int | None
    bytes_to_gpu: int | None
    passes: tuple[str, ...]
    runtimes: tuple[str, ...]
    believed: bool


class Totals(_Frozen):
    """Sums over the model as a runtime has it once it is loaded.

    Of several runtimes the worst counts for each figure by itself: a node that fails in one of them and runs
    on the CPU in another is in both figures.

    Attributes:
        nodes: Nodes that are left; constants are folded and equal nodes merged then.
        on_gpu, on_cpu: How many run where.
        failing: How many do not: they do not compile for the device, or the runtime fails at them; see
            `STOPPING`.
        undecided: Of how many it is not known where they run, because an element type is not known.
        copies_from_gpu, copies_to_gpu: Tensors that are copied in each run.
        bytes_from_gpu, bytes_to_gpu: Their bytes, as far as known.
        unknown_copies: Copies of unknown size.
        storage_buffers: Slots of the widest node on the GPU.
        half_precision: Whether a node on the GPU computes in half precision.
        largest_on_gpu, largest: Largest tensor of the GPU, and of all.
        weight_bytes, peak_live_bytes: See `hubpublish.devices.needs.Sizes`.
        fits_wasm: Whether the peak is below the 4 GiB of WebAssembly; None if sizes are unknown.
        unknown_sizes, declared_sizes: Tensors whose size is unknown, or only declared by the model.
    """

    nodes: int
    on_gpu: int
    on_cpu: int
    undecided: int
    failing: int = 0  # reports of before do not have it
    copies_from_gpu: int
    copies_to_gpu: int
    bytes_from_gpu: int
    bytes_to_gpu: int
    unknown_copies: int
    storage_buffers: int
    half_precision: bool
    largest_on_gpu: TensorSize | None
    largest: TensorSize | None
    weight_bytes: int
    peak_live_bytes: int
    fits_wasm: bool | None
    unknown_sizes: int
    declared_sizes: int


class Summary(_Frozen):
    """An inspection without its single nodes: what a report carries of a model before and after."""

    profile: str
    runtimes: tuple[str, ...]
    totals: Totals
    groups: tuple[Group, ...]
    fails_on: tuple[str, ...] = ()
    on_cpu_in: dict[str, int] = {}


class Inspection(_Frozen):
    """A model against a device and a runtime, or against every listed runtime, of which the worst counts.

    Attributes:
        runtimes: The runtimes it was held against.
        statistics: Of the model as it is in the file; the totals are of the model as it is loaded.
        findings: In the order of the graphs.
        groups: The same, put together; what keeps the model from running comes first.
        fails_on: The runtimes in which a node fails or computes wrong values, whatever the device grants.
        on_cpu_in: By runtime, taken alone, the nodes that run on the CPU; without those that run none there.
    """

    profile: str
    runtimes: tuple[str, ...]
    statistics: GraphStatistics
    fit: Fit
    totals: Totals
    groups: tuple[Group, ...]
    findings: tuple[Finding, ...]
    fails_on: tuple[str, ...] = ()
    on_cpu_in: dict[str, int] = {}

    def __bool__(self) -> bool:
        return not self.findings

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes that the findings name, in the order in which passes are listed."""
        named = {name for group in self.groups for name in group.passes}
        return tuple(name for name in PASSES if name in named)

    def summary(self) -> Summary:
        """The part that a report carries."""
        return Summary(
            profile=self.profile,
            runtimes=self.runtimes,
            totals=self.totals,
            groups=self.groups,
            fails_on=self.fails_on,
            on_cpu_in=self.on_cpu_in,
        )
