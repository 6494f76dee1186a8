"""Commands on what is published already: rollback, reproduce."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hubpublish.cli.options import Endpoint, Json, cache_folder, examples
from hubpublish.cli.output import emit, emit_json, emit_table, note
from hubpublish.cli.recipes import RecipeFile
from hubpublish.words import printable

app = typer.Typer()


@app.command(
    epilog=examples(
        "hubpublish rollback configs/birefnet_lite.yaml --dry-run",
        "hubpublish rollback configs/birefnet_lite.yaml",
        "hubpublish rollback configs/birefnet_lite.yaml --to v1.2",
    )
)
def rollback(
    recipe: RecipeFile,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="Commit, tag or branch of the target to go back to. Default: the publication before.",
            show_default=False,
        ),
    ] = None,
    endpoint: Endpoint = None,
    target: Annotated[
        str | None, typer.Option(help="Roll back this repo instead of the recipe's.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing on the Hub; needs no write token.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Have the target hold again what was published before.

    Makes one commit on top of the head that restores every file of an older publication and deletes
    what it did not have; nothing is uploaded. Files that are not hubpublish's stay, and nobody's edits
    are overwritten. `run` does not publish by itself again what was rolled back; --force does.
    """
    from hubpublish import recipe as recipes
    from hubpublish.rollback import RollbackOptions, roll_back

    options = RollbackOptions(to=to, dry_run=dry_run, endpoint=endpoint, target=target)
    result = roll_back(recipes.load(recipe), options, os.environ, note)
    if as_json:
        emit_json(asdict(result))
    else:
        _show_rolled_back(result)


@app.command(
    epilog=examples(
        "hubpublish reproduce acme/BiRefNet_lite-webgpu",
        "hubpublish reproduce acme/BiRefNet_lite-webgpu@v1.0 --out rebuilt",
    )
)
def reproduce(
    repo: Annotated[
        str,
        typer.Argument(
            metavar="REPO[@REV]",
            help="A published repo on the Hub, owner/name; a branch, tag or commit of it.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="A new folder for what is made. Default: none is kept.", show_default=False),
    ] = None,
    endpoint: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Make a published repo again from its own report, and compare the bytes.

    Fetches the source at the recorded commit, rewrites it with the recorded passes, and renders card,
    recipe, provenance and manifest. Nothing is verified again, and no published model is downloaded:
    hashes are compared. Exit code 5 when a file is not the same; each is named with the reason.
    """
    from hubpublish import hub
    from hubpublish.reproduce import parse_target
    from hubpublish.reproduce import reproduce as make_again

    name, revision = parse_target(repo)
    api = hub.connect(endpoint, None)
    result = make_again(api, name, revision, cache=cache_folder(), out=out, say=note)
    if not as_json:
        _show_reproduced(result)
    if not result:
        raise result.error()
    if as_json:
        emit_json(result.model_dump(mode="json"))


def _show_rolled_back(result: Any) -> None:
    state = f"what commit {result.to[:12]} published (source {result.source_commit[:12]})"
    words = {
        "rolled_back": f"Rolled back: {result.url}\nIt holds {state}:",
        "nothing_to_do": f"Nothing to do: {result.target} already holds {state}.\n"
        "To go further back, name an older publication with --to.",
        "dry_run": f"Dry run: nothing was changed. {result.target} would again hold {state}:",
    }
    emit(words[result.status])
    for path, word in sorted(result.files.items()):
        emit(f"  {word:<9}  {path}")


def _show_reproduced(result: Any) -> None:
    where = f"{result.repo} at {result.commit[:12]}, from {result.source} at {result.source_commit[:12]}"
    emit(printable(where))
    rows = [[each.status.replace("_", " "), each.path, each.why or ""] for each in result.files]
    emit_table(["", "file", ""], [[printable(cell) for cell in row] for row in rows])
    for name, each in result.versions.items():
        emit(printable(f"{name}: {each.then or 'none'} then, {each.now or 'none'} here"))
    if result:
        emit("Every file is the same. What the verification found was not measured again.")
