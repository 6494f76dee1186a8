"""Commands on single ONNX files, without a recipe or a Hub: rewrite, inspect, verify; passes, devices."""

from __future__ import annotations

import inspect as python_inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hubpublish.cli.options import Device, Json, ModelFile, cache_folder
from hubpublish.cli.output import console, emit_json, note

app = typer.Typer()

WIDEST_SHOWN = 10  # rows of the table of widest nodes


@app.command()
def rewrite(
    source: ModelFile,
    target: Annotated[Path, typer.Argument(help="Where to write the result.", show_default=False)],
    passes: Annotated[
        list[str] | None,
        typer.Option("--pass", help="NAME[:key=value,...]; repeat for several. Default: every exact pass."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Device profile that the result must fit.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write what was done, node by node, as JSON.", show_default=False)
    ] = None,
) -> None:
    """Rewrite one ONNX file.

    The result is written atomically, also when every node was left alone. External data stays
    external, in a file beside it. Nothing is verified: see `hubpublish verify`.

    Examples
        hubpublish rewrite model.onnx out.onnx --device webgpu-min

        hubpublish rewrite model.onnx out.onnx --pass concat_tree:max_inputs=4 --pass sum_to_add
    """
    from hubpublish import single

    done = single.rewrite_file(source, target, passes or [], device)
    if report is not None:
        single.write_report(done, report)
    for outcome in done.outcomes:
        line = f"{outcome.name}: {len(outcome.rewritten):,} rewritten, {len(outcome.skipped):,} left alone"
        console.print(line, markup=False)
        for skipped in outcome.skipped[:WIDEST_SHOWN]:
            console.print(
                f"  left alone: {skipped.op} {skipped.node} in {skipped.scope}: {skipped.reason}",
                markup=False,
            )
    console.print(
        f"Wrote {done.saved.path}" + (f" and {done.saved.data}" if done.saved.data else ""), markup=False
    )


@app.command()
def inspect(model: ModelFile, device: Device = "webgpu-min", as_json: Json = False) -> None:
    """Count a model's operators, and its nodes' storage buffers against a device.

    Examples
        hubpublish inspect model.onnx --device webgpu-min
    """
    from hubpublish import single

    found = single.inspect_file(model, device)
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    _show_operators(found)
    _show_fit(found)


@app.command()
def verify(
    original: ModelFile,
    rewritten: Annotated[Path, typer.Argument(help="The rewritten ONNX file.", show_default=False)],
    gate: Annotated[
        str, typer.Option(help="exact, exact_unoptimized, or bounds such as max_abs=1e-3,mean_abs=1e-5.")
    ] = "exact",
    ep: Annotated[str, typer.Option(help="Execution provider: cpu.")] = "cpu",
    shape: Annotated[
        list[str] | None, typer.Option(help="INPUT=1,3,...: the shape of an input with free dimensions.")
    ] = None,
    value: Annotated[list[str] | None, typer.Option(help="INPUT=VALUE: an input's fixed value.")] = None,
    input_file: Annotated[
        list[str] | None, typer.Option("--input", help="INPUT=FILE.npy: an input's fixed value from a file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare two ONNX files, bit by bit, on seeded inputs.

    Each model runs in a process of its own, with optimizations disabled and at the default level.
    Undecided is not passed: if the original crashes, or its outputs do not depend on its inputs, the
    exit code is 5.

    Examples
        hubpublish verify model.onnx out.onnx

        hubpublish verify model.onnx out.onnx --shape input=1,3,256,256 --value rate=16000
    """
    from hubpublish import single

    result = single.verify_files(
        original,
        rewritten,
        gate=gate,
        ep=ep,
        shapes=shape or [],
        values=value or [],
        files=input_file or [],
        cache=cache_folder() / "references",
        say=note,
    )
    if as_json:
        emit_json({"verification": result.model_dump(mode="json")})
    else:
        console.print(f"Passed: {single.in_words(result)}", markup=False)


@app.command()
def passes(as_json: Json = False) -> None:
    """List the passes, with what each is for and its options."""
    from hubpublish.passes import PASSES

    if as_json:
        emit_json({"passes": [_pass_entry(each) for each in PASSES.values()]})
        return
    for each in PASSES.values():
        entry = _pass_entry(each)
        console.print(f"[bold]{entry['name']}[/bold] ({'exact' if entry['exact'] else 'approximate'})")
        for name, option in entry["options"].items():
            console.print(f"  {name} = {option['default']}: {option['description']}", markup=False)
        console.print(entry["documentation"] + "\n", markup=False)


@app.command()
def devices(as_json: Json = False) -> None:
    """List the device profiles and their limits."""
    from hubpublish.devices import PROFILES

    if as_json:
        emit_json({"devices": [profile.model_dump() for profile in PROFILES.values()]})
        return
    table = Table(
        "profile", "storage buffers", "largest binding", "largest buffer", "shader-f16", "what it is"
    )
    from hubpublish.words import readable_bytes

    for profile in PROFILES.values():
        table.add_row(
            profile.name,
            str(profile.storage_buffers),
            readable_bytes(profile.max_binding_bytes),
            readable_bytes(profile.max_buffer_bytes),
            "yes" if profile.shader_f16 else "no",
            profile.summary,
        )
    console.print(table)


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


def _show_operators(found: Any) -> None:
    table = Table(
        "operator", "count", title=f"{found.statistics.nodes:,} nodes, opset {found.statistics.opset}"
    )
    table.columns[1].justify = "right"
    for op, count in found.statistics.ops.items():
        table.add_row(op, f"{count:,}")
    console.print(table)


def _show_fit(found: Any) -> None:
    fit = found.fit
    table = Table(
        "storage buffers",
        "operator",
        "node",
        "scope",
        "narrowed by",
        title=f"Widest nodes ({fit.profile} grants {fit.limit})",
    )
    for width in found.widest[:WIDEST_SHOWN]:
        table.add_row(str(width.slots), width.op, width.node, width.scope, width.narrowed_by or "no pass")
    console.print(table)
    over = len(fit.too_wide) + len(fit.cannot_run)
    if over:
        console.print(
            f"{over:,} nodes bind more than {fit.limit}; {len(fit.too_wide):,} of them can be narrowed."
        )
    else:
        console.print(f"Every node fits {fit.profile}.")
