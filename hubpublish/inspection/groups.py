"""Equal findings put together: what people read instead of eighty equal lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import onnx_ir as ir

from hubpublish.inspection.models import STOPPING, Finding, Group
from hubpublish.passes.removes import Problem
from hubpublish.words import readable_binary_bytes

if TYPE_CHECKING:
    from hubpublish.inspection.findings import Found

#: What keeps a model from running comes first.
ORDER: Final = (
    *STOPPING,
    *(Problem.BUFFER, Problem.BINDING, Problem.NO_KERNEL, Problem.UNKNOWN),
)
SIZES: Final = frozenset({Problem.BINDING, Problem.BUFFER})


def group(found: Sequence[Found], nbytes: Callable[[ir.Value], int | None]) -> tuple[Group, ...]:
    """Groups by problem, operator, element type, consequence and remedy; the largest first."""
    groups: dict[tuple[object, ...], list[Found]] = {}
    for each in found:
        groups.setdefault(_key(each.finding), []).append(each)
    made = [_group(members, nbytes) for members in groups.values()]
    return tuple(sorted(made, key=lambda each: (ORDER.index(each.problem), -each.nodes, each.op)))


def _key(finding: Finding) -> tuple[object, ...]:
    measured = finding.amount is not None
    happens = re.sub(r"\d+", "N", finding.happens) if finding.problem == Problem.BINDING else finding.happens
    what = "" if measured else finding.what
    op = "" if finding.problem in (*SIZES, Problem.SHADER_F16) else finding.op
    return (finding.problem, op, finding.dtype, what, happens, finding.passes, finding.runtimes)


def _group(members: Sequence[Found], nbytes: Callable[[ir.Value], int | None]) -> Group:
    findings = [each.finding for each in members]
    first = findings[0]
    ops = sorted({each.op for each in findings})
    widest = max(findings, key=lambda each: each.amount or 0)
    return Group(
        problem=first.problem,
        op=ops[0] if len(ops) == 1 else f"{len(ops)} operators",
        dtype=first.dtype,
        nodes=len(findings),
        first=first.node if first.scope == "main" else f"{first.node} in {first.scope}",
        what=_what(findings),
        happens=widest.happens,
        bytes_from_gpu=total([value for each in members for value in each.from_gpu], nbytes),
        bytes_to_gpu=total([value for each in members for value in each.to_gpu], nbytes),
        passes=first.passes,
        runtimes=first.runtimes,
        believed=any(each.believed for each in findings),
    )


def total(values: Sequence[ir.Value], nbytes: Callable[[ir.Value], int | None]) -> int | None:
    """Bytes of tensors, each counted once; None if one is not known."""
    sizes = [nbytes(value) for value in dict.fromkeys(values)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _what(findings: Sequence[Finding]) -> str:
    amounts = sorted({each.amount for each in findings if each.amount is not None})
    if len(amounts) < 2:
        return findings[0].what
    low, high = amounts[0], amounts[-1]
    if findings[0].problem in SIZES:
        over = readable_binary_bytes(findings[0].allowed or 0)
        return f"{findings[0].problem} of up to {readable_binary_bytes(high)} over {over}"
    widest = max(findings, key=lambda each: each.amount or 0)
    return f"binds {low} to {high}, {widest.what.partition(', ')[2]}"
