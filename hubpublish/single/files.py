"""Rewriting and inspecting one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from hubpublish.devices import Device, NodeWidth
from hubpublish.devices.fit import node_widths
from hubpublish.devices.runtimes import all_runtimes
from hubpublish.errors import UnsupportedModelError, UsageError
from hubpublish.inspection import Auto, Inspection, inspect
from hubpublish.model import load
from hubpublish.passes.validity import require_supported_opsets
from hubpublish.report import FileRecord, PassReport
from hubpublish.rewrite import Rewrite, rewrite
from hubpublish.single.options import find_profile, find_runtime, parse_passes

WIDEST = 50  # nodes that an inspection lists


class FileInspection(Inspection):
    """What an inspection says of a file.

    Attributes:
        widest: The nodes that take most storage buffers.
        refused: Why no pass takes the model, and what to do about it; None if nothing speaks against it.
    """

    file: str
    widest: tuple[NodeWidth, ...]
    refused: str | None = None


def rewrite_file(
    source: Path,
    target: Path,
    passes: Sequence[str],
    device: str | None,
    report: Path | None = None,
    runtime: str | None = None,
) -> Rewrite:
    """Rewrite one file with passes as the command line names them, as `parse_passes` reads them.

    Raises:
        UsageError: A pass or device is unknown, or a file would be written over another of them.
        HubpublishError: See `hubpublish.rewrite.rewrite`.
    """
    chosen = parse_passes(passes)
    if runtime is not None and device is None:
        raise UsageError("a runtime is asked for a device", where="--runtime", hint="name one with --device")
    if isinstance(chosen, Auto) and device is None:
        raise UsageError("passes are chosen for a device", where="--pass auto", hint="name one with --device")
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(
            "the result would replace its source", where=str(target), hint="name another file to write to"
        )
    if target.is_dir():
        raise UsageError("this is a folder", where=str(target), hint="name the file to write to")
    models = {path.resolve() for path in (source, target, target.with_name(f"{target.name}_data"))}
    if report is not None and report.resolve() in models:
        raise UsageError("the report would replace a model", where=str(report), hint="name another file")
    its = find_runtime(runtime) if runtime is not None else None
    done = rewrite(source, target, chosen, Device(find_profile(device), its) if device else None)
    if report is not None:
        write_report(done, report)
    return done


def inspect_file(path: Path, device: str, runtime: str | None = None) -> FileInspection:
    """Hold one file against a device profile and a runtime; without one the worst of those listed counts.

    Raises:
        UsageError: The device or the runtime is unknown.
        SourceError, UnsupportedModelError: The file cannot be read.
    """
    profile = find_profile(device)
    its = find_runtime(runtime) if runtime is not None else None
    model = load(path)
    found = inspect(model, profile, its)
    runtimes = all_runtimes() if its is None else (its,)
    widths = sorted(node_widths(model, profile, runtimes), key=lambda width: -width.slots)
    fields = {name: getattr(found, name) for name in Inspection.model_fields}
    return FileInspection(
        **fields, file=str(path), widest=tuple(widths[:WIDEST]), refused=_why_refused(model)
    )


def _why_refused(model: ir.Model) -> str | None:
    try:
        require_supported_opsets(model)
    except UnsupportedModelError as error:
        return f"{error.what}; {error.hint}" if error.hint else error.what
    return None


def write_report(done: Rewrite, path: Path) -> None:
    """Write what a rewrite did as JSON: files, passes node by node, statistics, fit."""
    before, after = done.inspection_before, done.inspection
    files = [done.saved.path, *([done.saved.data] if done.saved.data else [])]
    document = {
        "output": [FileRecord.of(file.name, file).model_dump(mode="json") for file in files],
        "passes": [PassReport.of(outcome).model_dump(mode="json") for outcome in done.outcomes],
        "before": done.before.model_dump(),
        "after": done.after.model_dump(),
        # "is not None": an inspection that found something is false.
        "fit_before": before.fit.model_dump(mode="json") if before is not None else None,
        "fit": after.fit.model_dump(mode="json") if after is not None else None,
        "inspection_before": before.summary().model_dump(mode="json") if before is not None else None,
        "inspection": after.summary().model_dump(mode="json") if after is not None else None,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write the report: {error.strerror}", where=str(path), hint="name another file"
        ) from error
