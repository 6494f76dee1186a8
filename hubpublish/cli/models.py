"""Commands on single ONNX files, without a recipe or a Hub: rewrite, inspect, verify; passes, devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubpublish.cli.options import Device, Json, ModelFile, Runtime, cache_folder, examples
from hubpublish.cli.output import emit, emit_json, emit_table, note
from hubpublish.errors import UsageError

if TYPE_CHECKING:
    from hubpublish.verify import Verification
    from hubpublish.verify.webgpu import WebGpuVerification

app = typer.Typer()


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
        str | None,
        typer.Option(
            help="Device profile. A node that binds too many storage buffers for it, of an operator that a "
            "pass can narrow, is an error, and nothing is written. What else is left there is only said.",
            show_default=False,
        ),
    ] = None,
    runtime: Runtime = None,
    report: Annotated[
        Path | None, typer.Option(help="Write what was done, node by node, as JSON.", show_default=False)
    ] = None,
) -> None:
    """Rewrite one ONNX file.

    The result is written atomically, also when every node was left alone. External data stays
    external, in a file beside it. Nothing is verified: see `hubpublish verify`. With --device it
    ends with how many nodes do not run there or are on the CPU, and what is copied, before and after.
    """
    from hubpublish import single
    from hubpublish.cli import rewritten

    rewritten.show(single.rewrite_file(source, target, passes or [], device, report, runtime))


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
    """Say what stands in the way of a model on a device, and which passes may remove it.

    For every node that does not fit or does not run on the GPU: what is wrong, what the runtime does
    then, and the passes that are for such operators; whether one can rewrite this node, only `hubpublish
    rewrite` tells. Then how many tensors are copied between GPU and CPU, the largest tensor, and the
    bytes that are alive at once. Nothing is run: it is worked out from tables of the runtimes' kernels.
    The table puts equal nodes together; --json has each of them.
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
    int,
    typer.Option(
        min=8, max=2**31 - 1, help="On WebGPU: the most that a shader gets, where that can be lowered."
    ),
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


@app.command(epilog=examples("hubpublish passes", "hubpublish passes split_tree", "hubpublish passes --json"))
def passes(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A pass, to be shown in full.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the passes, a line each; of one, what it removes, why it is exact, and its options.

    --json has all of that, of every pass or of the one.
    """
    from hubpublish.cli import explained

    entries = explained.pass_entries(name)
    if as_json:
        emit_json({"passes": entries})
    elif name is not None:
        explained.show_one(entries[0])
    else:
        explained.show_list(entries)


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
    from hubpublish.words import readable_binary_bytes

    emit_table(
        ["profile", "storage buffers", "binding", "buffer", "f16", "what it is"],
        [
            [
                profile.name,
                str(profile.storage_buffers),
                readable_binary_bytes(profile.max_binding_bytes),
                readable_binary_bytes(profile.max_buffer_bytes),
                "yes" if profile.shader_f16 else "no",
                profile.summary,
            ]
            for profile in PROFILES.values()
        ],
    )
    emit()
    emit_table(["runtime", "what it is"], [[each.name, each.summary] for each in runtimes])
