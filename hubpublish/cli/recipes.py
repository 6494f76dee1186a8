"""Commands that take a recipe, or make one: run, new."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hubpublish.cli.options import Endpoint, Json, cache_folder, examples
from hubpublish.cli.output import emit, emit_json, note

app = typer.Typer()

RecipeFile = Annotated[
    Path,
    typer.Argument(
        metavar="RECIPE", help="A recipe, such as configs/birefnet_lite.yaml.", show_default=False
    ),
]


@app.command(
    epilog=examples(
        "hubpublish run configs/birefnet_lite.yaml --dry-run",
        "hubpublish run configs/birefnet_lite.yaml --as-pr",
    )
)
def run(
    recipe: RecipeFile,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Change nothing on the Hub; write a preview. Needs no write token."),
    ] = False,
    as_pr: Annotated[
        bool, typer.Option("--as-pr", help="Open a pull request, or bring the one opened before up to date.")
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Take only the variant of this path; with --dry-run.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for staged files, preview and log. Default: out/RECIPE.")
    ] = None,
    endpoint: Endpoint = None,
    target: Annotated[
        str | None, typer.Option(help="Publish to this repo instead of the recipe's.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run although the target is up to date.")] = False,
    sign: Annotated[
        bool,
        typer.Option("--sign", help="Sign the files, with the identity of a CI job; takes the extra `sign`."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Rewrite, verify and publish what a recipe describes.

    Fetches the source and checks its SHA-256, rewrites each variant, proves on the CPU that it
    computes the same, and publishes everything in one commit. Does nothing if the target already
    holds the result. Publishing takes a token that may write: HF_TOKEN, or that of `hf auth login`.
    """
    from hubpublish import pipeline
    from hubpublish import recipe as recipes
    from hubpublish.job import RunOptions

    options = RunOptions(
        out=out or Path("out") / recipe.stem,
        cache=cache_folder(),
        dry_run=dry_run,
        as_pr=as_pr,
        variant=variant,
        endpoint=endpoint,
        target=target,
        force=force,
        sign=sign,
    )
    result = pipeline.run(recipes.load(recipe), recipe.parent, options, os.environ, note)
    if as_json:
        emit_json(_as_json(result))
    else:
        show_result(result)


@app.command(
    epilog=examples(
        "hubpublish new onnx-community/BiRefNet_lite-ONNX > configs/my-recipe.yaml",
    )
)
def new(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A repo with ONNX files on the Hub, owner/name.", show_default=False
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Repo to publish to. Default: ${HUBPUBLISH_NAMESPACE}/NAME-webgpu.")
    ] = None,
    endpoint: Endpoint = None,
) -> None:
    """Write a first recipe for a repo, to stdout.

    Lists the repo's ONNX variants and takes their SHA-256 from the Hub; no model is downloaded.
    What it cannot know is left as a comment; what it had to guess or leave open is named on stderr.
    """
    from hubpublish import hub
    from hubpublish.new import draft

    made = draft(hub.connect(endpoint, None), source, target)
    typer.echo(made.text, nl=False)
    for question in made.open:
        note(f"to fill in: {question}")


def show_result(result: Any) -> None:
    """Print how a run ended, for people."""
    words = {
        "nothing_to_do": f"Nothing to do: {result.url} already holds this result.",
        "withdrawn": f"Nothing done: this result was rolled back in {result.url}.\n"
        "Change the recipe, wait for the source to change, or publish it again with --force.",
        "dry_run": "Dry run: nothing was published. Look at\n"
        f"  {result.out}/preview.md        what publishing would change\n"
        f"  {result.out}/staged/README.md  the model card",
        "published": f"Published: {result.url} at commit {result.commit}",
        "pull_request": f"Pull request: {result.url}",
    }
    emit(words[result.status])


def _as_json(result: Any) -> dict[str, Any]:
    return {
        "status": result.status,
        "target": result.target,
        "commit": result.commit,
        "url": result.url,
        "out": str(result.out) if result.out else None,
        "report": result.report.model_dump(mode="json") if result.report else None,
    }
