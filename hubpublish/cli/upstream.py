"""Commands that look at what became of a recipe's source: status, bump."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hubpublish.cli.options import Endpoint, Json, cache_folder, examples
from hubpublish.cli.output import emit, emit_json, note

app = typer.Typer()


@app.command(
    epilog=examples(
        "hubpublish status configs/*.yaml",
        "hubpublish status configs/*.yaml --json --exit-code",
    )
)
def status(
    recipes: Annotated[list[Path], typer.Argument(metavar="RECIPE...", help="Recipes.", show_default=False)],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if there is something to do for any recipe.")
    ] = False,
    endpoint: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Say whether upstream has changed, and whether the target is up to date.

    Compares the recipe's pins with what the Hub lists, and the target with what a run would publish.
    No model is downloaded. A recipe that cannot be told about does not stop the others; the exit code
    is then that of the first error.
    """
    from hubpublish import hub, upstream

    found = upstream.status(recipes, hub.access(endpoint, None).read, os.environ)
    if as_json:
        emit_json({"recipes": [each.model_dump(mode="json") for each in found]})
    else:
        for each in found:
            for line in upstream.status_lines(each):
                emit(line)
    if code := upstream.exit_code(found, tell=exit_code):
        raise typer.Exit(code)


@app.command(
    epilog=examples(
        "hubpublish bump configs/birefnet_lite.yaml --dry-run",
        "hubpublish bump configs/birefnet_lite.yaml --json",
    )
)
def bump(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE", help="A recipe, such as configs/birefnet_lite.yaml.", show_default=False
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and write nothing.")
    ] = False,
    no_download: Annotated[
        bool, typer.Option("--no-download", help="Compare hashes alone, not the models.")
    ] = False,
    endpoint: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Pin what the source holds now.

    Writes the new SHA-256, and the new commit if the recipe pins one, in place: comments, order and
    everything else in the file stay as they are. Says before how the models differ, for which it
    fetches old and new ones. If a file that the recipe names is gone, nothing is written.
    """
    from hubpublish import hub, upstream

    api = hub.access(endpoint, None).read
    made = upstream.plan_bump(recipe, api, cache_folder(), note, download=not no_download)
    if not as_json:
        for line in upstream.bump_lines(made):
            emit(line)
    if not dry_run:
        made.write()
    if as_json:
        emit_json({**made.to_dict(), "markdown": upstream.bump_markdown(made)})
    elif made.changed:
        emit("Dry run: nothing was written." if dry_run else f"Wrote {recipe}")
