"""Comparing two files: on the CPU, bit by bit, and on WebGPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hubpublish.errors import SourceError, UsageError
from hubpublish.recipe import InputSpec, Tolerance, VerifySpec, WebGpuSpec
from hubpublish.single.options import parse_gate, valid
from hubpublish.verify import Verification, parse_input, parse_shape, parse_value, verification_error, verify
from hubpublish.verify.asking import by_option, hinted_by_option
from hubpublish.verify.webgpu import WebGpuVerification, verify_webgpu, webgpu_error
from hubpublish.words import plural

BOUNDS = tuple(Tolerance.model_fields)


def verify_files(
    original: Path,
    rewritten: Path,
    *,
    gate: str,
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
    inputs = _comparable(original, rewritten, shapes, values)
    spec = VerifySpec(
        gate=valid(lambda: VerifySpec.model_validate({"gate": parse_gate(gate)}), "--gate", BOUNDS).gate,
        inputs=valid(lambda: InputSpec.model_validate(inputs)),
    )
    given = dict(parse_input(text) for text in files)
    with _in_options():
        result = verify(
            original, rewritten, spec=spec, base_dir=Path(), given=given, cache=cache, progress=say
        )
    if not result:
        raise verification_error(hinted_by_option(result))
    return result


def verify_files_on_webgpu(
    original: Path,
    rewritten: Path,
    *,
    gate: str | None,
    storage_buffers: int,
    assign_only: bool,
    shapes: Sequence[str],
    values: Sequence[str],
    files: Sequence[str],
    cache: Path,
    say: Callable[[str], None],
) -> WebGpuVerification:
    """Run two files on WebGPU as the command line asks.

    Raises:
        UsageError: An option does not say what it must; or ``no_webgpu_device``.
        VerificationError: The rewritten model does not run there, or is too far from the original on the CPU.
    """
    inputs = _comparable(original, rewritten, shapes, values)
    bounds = parse_gate(gate) if gate is not None else None
    if isinstance(bounds, str):
        raise UsageError(
            "results on a GPU are near the CPU's, not the same",
            where=f"--gate {gate}",
            hint="write max_abs=1e-3",
        )
    given = {
        "storage_buffers": storage_buffers,
        "assign_only": assign_only,
        "bounds": bounds,
        "original": True,
    }
    with _in_options():
        result = verify_webgpu(
            original,
            rewritten,
            spec=valid(lambda: WebGpuSpec.model_validate(given), "--gate", BOUNDS),
            inputs=valid(lambda: InputSpec.model_validate(inputs)),
            base_dir=Path(),
            given=dict(parse_input(text) for text in files),
            cache=cache,
            progress=say,
        )
    if not result:
        raise webgpu_error(result)
    return result


@contextmanager
def _in_options() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        by_option(error)
        raise


def _comparable(
    original: Path, rewritten: Path, shapes: Sequence[str], values: Sequence[str]
) -> dict[str, object]:
    """What both files are run on, as a recipe has it."""
    for path in (original, rewritten):
        if not path.is_file():
            raise SourceError("there is no such file", where=str(path), hint="check the path")
    return {
        "shapes": dict(parse_shape(text) for text in shapes),
        "values": dict(parse_value(text) for text in values),
    }


def in_words(result: Verification) -> str:
    """A verification that passed, in a line: the gate that was asked for, and a stronger one that holds."""
    asked = _gate_in_words(result.gate)
    in_fact = f" (in fact {result.held})" if result.held not in ("tolerance", result.gate) else ""
    levels = " and ".join(level.level for level in result.levels)
    inputs = plural(len(result.inputs), "input")
    return f"{asked}{in_fact} on {inputs} (optimizations {levels}), {result.runtime}"


def _gate_in_words(gate: str | dict[str, float]) -> str:
    if isinstance(gate, str):
        return gate
    return ", ".join(f"{name} {_bound_in_words(bound)}" for name, bound in gate.items())


def _bound_in_words(bound: float) -> str:
    """As people write it: ``1e-3``, ``0.25``."""
    return np.format_float_scientific(bound, trim="-", exp_digits=1) if 0 < bound < 0.01 else f"{bound:g}"
