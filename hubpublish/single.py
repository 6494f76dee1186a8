"""What the commands on single files do: rewrite, inspect and verify without a recipe or a Hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from hubpublish.devices import PROFILES, Device, NodeWidth, Profile
from hubpublish.devices.fit import node_widths
from hubpublish.devices.runtimes import Runtime, read_runtime, runtime_names
from hubpublish.errors import HubpublishError, SourceError, UsageError
from hubpublish.inspection import Auto, Inspection, inspect
from hubpublish.model import load
from hubpublish.passes import PASSES, RewritePass
from hubpublish.recipe import InputSpec, PassSpec, Tolerance, VerifySpec
from hubpublish.recipe.messages import message
from hubpublish.recipe.types import nearest, shown
from hubpublish.report import FileRecord, PassReport
from hubpublish.rewrite import Rewrite, rewrite
from hubpublish.verify import (
    Verification,
    parse_input,
    parse_shape,
    parse_value,
    verification_error,
    verify,
)
from hubpublish.words import plural

_T = TypeVar("_T")

WIDEST = 50  # nodes that an inspection lists
BOUNDS = tuple(Tolerance.model_fields)


class FileInspection(Inspection):
    """What an inspection says of a file; ``widest`` are the nodes that take most storage buffers."""

    file: str
    widest: tuple[NodeWidth, ...]


def rewrite_file(
    source: Path,
    target: Path,
    passes: Sequence[str],
    device: str | None,
    report: Path | None = None,
    runtime: str | None = None,
) -> Rewrite:
    """Rewrite one file with passes as the command line names them; without any, every exact one
    but those that only tidy. ``auto`` stands for those that the device asks for.

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
    widths = sorted(node_widths(model), key=lambda width: -width.slots)
    fields = {name: getattr(found, name) for name in Inspection.model_fields}
    return FileInspection(**fields, file=str(path), widest=tuple(widths[:WIDEST]))


def verify_files(
    original: Path,
    rewritten: Path,
    *,
    gate: str,
    ep: str,
    shapes: Sequence[str],
    values: Sequence[str],
    files: Sequence[str],
    cache: Path,
    say: Callable[[str], None],
) -> Verification:
    """Compare two files as the command line asks.

    Raises:
        UsageError: An option does not say what it must.
        VerificationError: They differ, or it could not be decided.
    """
    if ep != "cpu":
        raise UsageError(f"unknown execution provider {ep!r}", where="--ep", hint="use cpu")
    for path in (original, rewritten):
        if not path.is_file():
            raise SourceError("there is no such file", where=str(path), hint="check the path")
    inputs = {
        "shapes": dict(parse_shape(text) for text in shapes),
        "values": dict(parse_value(text) for text in values),
    }
    spec = VerifySpec(
        gate=_valid(lambda: VerifySpec.model_validate({"gate": parse_gate(gate)}), "--gate", BOUNDS).gate,
        inputs=_valid(lambda: InputSpec.model_validate(inputs)),
    )
    given = dict(parse_input(text) for text in files)
    result = verify(original, rewritten, spec=spec, base_dir=Path(), given=given, cache=cache, progress=say)
    if not result:
        raise verification_error(result)
    return result


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


def in_words(result: Verification) -> str:
    """A verification that passed, in a line."""
    levels = " and ".join(level.level for level in result.levels)
    inputs = plural(len(result.inputs), "input")
    return f"{result.held} on {inputs} (optimizations {levels}), {result.runtime}"


def parse_passes(texts: Sequence[str]) -> tuple[RewritePass[Any], ...] | Auto:
    """What ``--pass``, repeated, asks for; nothing asks for every exact pass but those that only tidy.

    Raises:
        UsageError: A pass or an option is unknown, or ``auto`` is not alone.
    """
    if "auto" in texts:
        if len(texts) > 1:
            raise UsageError(
                "auto chooses all passes", where="--pass auto", hint="leave out auto, or all others"
            )
        return Auto()
    if not texts:
        return tuple(each() for each in PASSES.values() if each.exact and each.by_default)
    return tuple(parse_pass(text).build() for text in texts)


def parse_pass(text: str) -> PassSpec:
    """``name`` or ``name:key=value,...`` as a pass with its options.

    Raises:
        UsageError: The pass or an option is unknown, or a value is not one.
    """
    name, _, rest = text.partition(":")
    options = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"{pair!r} is no option of a pass", where=f"--pass {text}", hint="write key=value"
            )
        options[key.strip()] = _scalar(value, f"--pass {text}")
    known = PASSES[name].Options.model_fields if name in PASSES else ()
    return _valid(
        lambda: PassSpec.model_validate({"name": name, "options": options}), f"--pass {text}", known
    )


def _scalar(text: str, where: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"{text!r} is no value", where=where, hint="write key=value") from None


def parse_gate(text: str) -> str | dict[str, object]:
    """``exact``, ``exact_unoptimized``, or bounds as ``max_abs=1e-3,mean_abs=1e-5``."""
    if "=" not in text:
        return text
    pairs = (pair.partition("=") for pair in text.split(","))
    bounds: dict[str, object] = {}
    for key, _, value in pairs:
        try:
            bounds[key.strip()] = float(value)
        except ValueError:
            raise UsageError(
                f"{value!r} is no number", where=f"--gate {text}", hint="write max_abs=1e-3"
            ) from None
    return bounds


def find_profile(name: str) -> Profile:
    """The device profile of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in PROFILES:
        raise UsageError(f"unknown device {name!r}", where="--device", hint=nearest(name, PROFILES))
    return PROFILES[name]


def find_runtime(name: str) -> Runtime:
    """The runtime of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in runtime_names():
        hint = f"known: {', '.join(runtime_names())}"
        raise UsageError(f"unknown runtime {name!r}", where="--runtime", hint=hint)
    return read_runtime(name)


def _valid(make: Callable[[], _T], where: str | None = None, known: Iterable[str] = ()) -> _T:
    """The result of ``make``, its validation errors as errors of usage.

    Args:
        make: Makes a part of a recipe.
        where: The option that it comes from; None: the recipe's name for it.
        known: Keys that may be given.
    """
    try:
        return make()
    except HubpublishError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][-1]) if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            text = f"unknown key {name!r}; {nearest(name, known)}"
        elif first["type"] == "recipe":
            text = first["msg"]
        elif first["type"] == "int_parsing":
            text = f"{name} must be a whole number, not {shown(first['input'])}"
        else:
            text = message(first, (name,) if where else first["loc"][1:])
        place = where or f"--{str(first['loc'][0]).rstrip('s')}"
        see = "see `hubpublish passes`" if place.startswith("--pass") else "see `hubpublish verify --help`"
        raise UsageError(text, where=place, hint=see) from None
