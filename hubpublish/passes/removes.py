"""What a pass removes, as data: for whoever asks which pass helps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Problem(StrEnum):
    """What can be wrong with a node on a device."""

    STORAGE_BUFFERS = "storage_buffers"  # binds more than the device grants
    NO_KERNEL = "no_kernel"  # runs on the CPU
    FAILS = "fails"  # is taken by the runtime, and then not run, or wrongly
    EMPTY = "empty"  # is given a tensor without elements, and fails for that
    BINDING = "binding"  # a tensor that is larger than a binding
    BUFFER = "buffer"  # a tensor that is larger than a buffer
    SHADER_F16 = "shader_f16"  # computes in half precision, which the device cannot
    UNKNOWN = "unknown"  # an element type is not known, so it is not known where it runs


@dataclass(frozen=True)
class Removes:
    """Nodes that a pass removes, or makes such that the problem is gone.

    Attributes:
        problem: What is wrong with them.
        ops: Their op types.
        dtypes: Element types of which the node has one; none: any node.
        on_the_way_to: Op types to which the node leads, through nodes on the CPU; none: any node.
    """

    problem: Problem
    ops: frozenset[str]
    dtypes: frozenset[str] = frozenset()
    on_the_way_to: frozenset[str] = frozenset()


def removed_by(
    declared: tuple[Removes, ...], op_types: frozenset[str], *, narrows: bool
) -> tuple[Removes, ...]:
    """What a pass removes: what it declares, or else what follows from its op types.

    A pass that narrows makes too wide nodes fit; any other takes away nodes that the GPU cannot run.
    """
    if declared or not op_types:
        return declared
    if narrows:
        return (Removes(Problem.STORAGE_BUFFERS, op_types),)
    return (Removes(Problem.NO_KERNEL, op_types), Removes(Problem.FAILS, op_types))
