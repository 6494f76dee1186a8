"""Commands on single ONNX files, without a recipe or a Hub: rewrite, inspect, verify; passes, devices."""

from __future__ import annotations

import inspect as python_inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubpublish.cli.options import Device, Json, ModelFile, Runtime, cache_folder, examples
from hubpublish.cli.output import emit, emit_json, emit_table, note, prose
from hubpublish.errors import UsageError

if TYPE_CHECKING:
    from hubpublish.verify import Verification
    from hubpublish.verify.webgpu import WebGpuVerification

app = typer.Typer()

SHOWN = 10  # so many nodes of a kind are listed


@app.command(
    epilog=examples(
        "hubpublish rewrite model.onnx out.onnx --pass auto --device webgpu-min",
        "hubpublish rewrite model.onnx out.onnx --pass concat_tree:max_inputs=4 --pass sum_to_add",
    )
)
def rewrite(
    source: ModelFile,
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where to write the result.", show_default=False)
    ],
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass",
            metavar="NAME[:key=value,...]",
            help="A pass with its options; repeat for several. auto: those that `inspect` names for the "
            "device. Default: every exact one but those that tidy or make files smaller.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Device profile that the result must fit.", show_default=False)
    ] = None,
    runtime: Runtime = None,
    report: Annotated[
        Path | None, typer.Option(help="Write what was done, node by node, as JSON.", show_default=False)
    ] = None,
) -> None:
    """Rewrite one ONNX file.

    The result is written atomically, also when every node was left alone. External data stays
    external, in a file beside it. Nothing is verified: see `hubpublish verify`.
    """
    from hubpublish import single
    from hubpublish.words import printable

    done = single.rewrite_file(source, target, passes or [], device, report, runtime)
    for outcome in done.outcomes:
        emit(f"{outcome.name}: {len(outcome.rewritten):,} rewritten, {len(outcome.skipped):,} left alone")
        for skipped in outcome.skipped[:SHOWN]:
            words = f"{skipped.op} {skipped.node} in {skipped.scope}: {skipped.reason}"
            emit(f"  left alone: {printable(words)}")
        if len(outcome.skipped) > SHOWN:
            emit(f"  and {len(outcome.skipped) - SHOWN:,} more; --report has them all")
    emit(f"Wrote {done.saved.path}" + (f" and {done.saved.data}" if done.saved.data else ""))


@app.command(
    epilog=examples(
        "hubpublish inspect model.onnx --device webgpu-min",
        "hubpublish inspect model.onnx --device webgpu-chromium --runtime web-1.30 --json",
    )
)
def inspect(
    model: ModelFile,
    device: Device = "webgpu-min",
    runtime: Runtime = None,
    as_json: Json = False,
) -> None:
    """Say what stands in the way of a model on a device, and which pass removes it.

    For every node that does not fit or does not run on the GPU: what is wrong, what the runtime does
    then, and the pass that removes it; then how many tensors are copied between GPU and CPU, the
    largest tensor, and the bytes that are alive at once. Nothing is run: it is worked out from tables of
    the runtimes' kernels. The table puts equal nodes together; --json has each of them.
    """
    from hubpublish import single
    from hubpublish.cli import inspection

    found = single.inspect_file(model, device, runtime)
    if as_json:
        emit_json(found.model_dump(mode="json"))
    else:
        inspection.show(found)


Rewritten = Annotated[
    Path, typer.Argument(metavar="REWRITTEN", help="The rewritten ONNX file.", show_default=False)
]
Gate = Annotated[
    str | None,
    typer.Option(
        help="exact (the default), exact_unoptimized, or bounds such as max_abs=1e-3,mean_abs=1e-5; "
        "on WebGPU bounds, or none.",
        show_default=False,
    ),
]
StorageBuffers = Annotated[
    int, typer.Option(min=8, help="On WebGPU: the most that a shader gets, where that can be lowered.")
]
AssignOnly = Annotated[
    bool, typer.Option("--assign-only", help="On WebGPU: only load the models, and say what runs where.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=1,3,...", help="The shape of an input with free dimensions; repeat for several."
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=VALUE", help="An input's fixed value; repeat for several."),
]
InputFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="INPUT=FILE.npy", help="An input's fixed value from a file; repeat for several."
    ),
]


@app.command(
    epilog=examples(
        "hubpublish verify model.onnx out.onnx",
        "hubpublish verify model.onnx out.onnx --shape input=1,3,256,256 --value rate=16000",
    )
)
def verify(
    original: ModelFile,
    rewritten: Rewritten,
    gate: Gate = None,
    ep: Annotated[str, typer.Option(help="Execution provider: cpu or webgpu.")] = "cpu",
    storage_buffers: StorageBuffers = 8,
    assign_only: AssignOnly = False,
    shape: Shapes = None,
    value: Values = None,
    input_file: InputFiles = None,
    as_json: Json = False,
) -> None:
    """Compare two ONNX files, bit by bit, on seeded inputs.

    Each model runs in a process of its own, with optimizations disabled and at the default level.
    Undecided is not passed: if the original crashes, or its outputs do not depend on its inputs, the
    exit code is 5.

    With --ep webgpu both run on a WebGPU device, a software adapter if there is no other: which nodes are on
    the CPU, what is copied, and how far the outputs are from the original's on the CPU.
    """
    from hubpublish import single

    given: dict[str, Any] = {"shapes": shape or [], "values": value or [], "files": input_file or []}
    if ep == "webgpu":
        given |= {"gate": gate, "storage_buffers": storage_buffers, "assign_only": assign_only}
        found = single.verify_files_on_webgpu(original, rewritten, cache=cache_folder(), say=note, **given)
        _show_webgpu(found, as_json=as_json)
    elif ep == "cpu":
        given |= {"gate": gate or "exact", "cache": cache_folder() / "references"}
        _show_cpu(single.verify_files(original, rewritten, say=note, **given), as_json=as_json)
    else:
        raise UsageError(f"unknown execution provider {ep!r}", where="--ep", hint="use cpu or webgpu")


def _show_cpu(result: Verification, *, as_json: bool) -> None:
    from hubpublish import single

    if as_json:
        emit_json({"verification": result.model_dump(mode="json")})
        return
    emit(f"Passed: {single.in_words(result)}")
    for each in result.notes:
        emit(each)


def _show_webgpu(found: WebGpuVerification, *, as_json: bool) -> None:
    from hubpublish.words import shortened

    if as_json:
        emit_json({"webgpu": found.model_dump(mode="json")})
        return
    emit(f"{found.adapter.runtime} on {found.adapter}")
    for run in found.runs:
        emit(f"{run.model}: {run}")
    for output in found.half:
        emit(f"half precision: {output}")
    for each in found.accumulations:
        emit(f"half precision: {each.op} {shortened(each.node, 200)} adds up {each.terms:,} products")


@app.command(epilog=examples("hubpublish passes", "hubpublish passes --json"))
def passes(as_json: Json = False) -> None:
    """List the passes, with what each is for and its options."""
    from hubpublish.passes import PASSES

    if as_json:
        emit_json({"passes": [_pass_entry(each) for each in PASSES.values()]})
        return
    for each in PASSES.values():
        entry = _pass_entry(each)
        emit(f"{entry['name']} ({'exact' if entry['exact'] else 'approximate'})", style="bold")
        for name, option in entry["options"].items():
            emit(f"  {name} = {option['default']}: {option['description']}")
        for line in prose(entry["documentation"]):
            emit(f"  {line}" if line else "")
        emit()


@app.command(epilog=examples("hubpublish devices", "hubpublish devices --json"))
def devices(as_json: Json = False) -> None:
    """List the device profiles and their limits, and the runtimes whose kernels are known.

    Storage buffers that one shader can bind, the largest binding and the largest buffer, and whether
    shaders can compute in half precision (shader-f16).
    """
    from hubpublish.devices import PROFILES
    from hubpublish.devices.runtimes import all_runtimes

    runtimes = all_runtimes()
    if as_json:
        emit_json(
            {
                "devices": [profile.model_dump() for profile in PROFILES.values()],
                "runtimes": [each.model_dump(include={"name", "summary", "source"}) for each in runtimes],
            }
        )
        return
    from hubpublish.words import readable_bytes

    emit_table(
        ["profile", "storage buffers", "binding", "buffer", "f16", "what it is"],
        [
            [
                profile.name,
                str(profile.storage_buffers),
                readable_bytes(profile.max_binding_bytes),
                readable_bytes(profile.max_buffer_bytes),
                "yes" if profile.shader_f16 else "no",
                profile.summary,
            ]
            for profile in PROFILES.values()
        ],
    )
    emit()
    emit_table(["runtime", "what it is"], [[each.name, each.summary] for each in runtimes])


def _pass_entry(each: Any) -> dict[str, Any]:
    module = python_inspect.getmodule(each)
    fields = each.Options.model_fields
    return {
        "name": each.name,
        "exact": each.exact,
        "summary": python_inspect.getdoc(each),
        "options": {
            name: {"default": field.default, "description": field.description}
            for name, field in fields.items()
        },
        "documentation": python_inspect.cleandoc(module.__doc__ or "") if module else "",
    }
