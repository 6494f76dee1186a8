"""What an app must ask of a device before it downloads a model: the content of ``webgpu.json``.

``requiredLimits`` and ``requiredFeatures`` have the names of a GPUDeviceDescriptor, so an app can compare
them with ``adapter.limits`` and ``adapter.features`` and pass them to ``requestDevice`` as they are. What
no adapter can tell depends on the runtime: where a node fails, ``failsOn``, and where nodes are on the CPU,
``onCpu``. Names of runtimes are those of `hubpublish devices`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from hubpublish.inspection.models import Inspection, Summary


class RequiredLimits(BaseModel):
    """Limits of a device. Sizes are bytes; they are left out of JSON if no tensor's size is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    maxStorageBuffersPerShaderStage: int  # noqa: N815 - the names of WebGPU
    maxStorageBufferBindingSize: int | None = None  # noqa: N815
    maxBufferSize: int | None = None  # noqa: N815


class Requirements(BaseModel):
    """What the files of a model ask of a device.

    Attributes:
        requiredFeatures: ``shader-f16`` if a node on the GPU computes in half precision.
        peakBytes: Weights and results that are alive at once; at least so many if sizes are unknown.
        unknownSizes: Tensors whose size is not known; they are in none of the figures.
        declaredSizes: Tensors whose size is only what the model declares, which may be wrong.
        failsOn: The runtimes in which a node fails or computes wrong values on any device: do not load it.
        onCpu: Nodes that run on the CPU, by runtime; a runtime of the inspection that is not there runs none
            there.
        undecided: Nodes of which it is not known where they run; they are in none of the figures of onCpu.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requiredLimits: RequiredLimits  # noqa: N815
    requiredFeatures: tuple[str, ...]  # noqa: N815
    peakBytes: int  # noqa: N815
    unknownSizes: int  # noqa: N815
    declaredSizes: int  # noqa: N815
    failsOn: tuple[str, ...] = ()  # noqa: N815
    onCpu: dict[str, int] = {}  # noqa: N815
    undecided: int = 0


def webgpu_requirements(inspection: Inspection | Summary) -> Requirements:
    """What an inspected model asks of a device, whatever the profile it was held against grants."""
    totals = inspection.totals
    largest = totals.largest_on_gpu.bytes if totals.largest_on_gpu else None
    return Requirements(
        requiredLimits=RequiredLimits(
            maxStorageBuffersPerShaderStage=totals.storage_buffers,
            maxStorageBufferBindingSize=largest,
            maxBufferSize=largest,
        ),
        requiredFeatures=("shader-f16",) if totals.half_precision else (),
        peakBytes=totals.peak_live_bytes,
        unknownSizes=totals.unknown_sizes,
        declaredSizes=totals.declared_sizes,
        failsOn=inspection.fails_on,
        onCpu=inspection.on_cpu_in,
        undecided=totals.undecided,
    )
