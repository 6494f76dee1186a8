"""`hubpublish demo`: a real run of a recipe, against a Hub on this machine and a model that it builds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import HfApi

from hubpublish import hub, pipeline
from hubpublish import recipe as recipes
from hubpublish.demo.card import demo_card
from hubpublish.demo.config import SMALL
from hubpublish.demo.repo import write_repo
from hubpublish.errors import UsageError
from hubpublish.job import RunOptions
from hubpublish.localhub import LocalHub
from hubpublish.model import sha256_of
from hubpublish.recipe import Recipe

OWNER = "acme"
SOURCE = f"{OWNER}/birefnet-demo"
TARGET = f"{OWNER}/birefnet-demo-webgpu"
TOKEN = "hf_alice_write"  # the local Hub's own, of a member of the owner
PARTS = ("source", "hub", "cache", "run", "published")  # what the demo makes in its folder
MARK = ".hubpublish-demo"  # in a folder whose parts a later demo may remove

Say = Callable[[str], None]


def run_demo(out: Path, recipe_path: Path, say: Say) -> list[str]:
    """Build a model, publish it on a local Hub as its author would, and run the recipe on it.

    Args:
        out: Folder for what the demo leaves; what an earlier demo left there is replaced.
        recipe_path: The recipe to run; its source, pins, target and texts are replaced in memory.
        say: Called with a line of progress.

    Returns:
        Lines that say what to look at.

    Raises:
        UsageError: The folder holds something else, or the recipe has a file that the demo does not build.
        HubpublishError: See `hubpublish.pipeline.run`.
    """
    recipe = recipes.load(recipe_path)
    _clear(out)
    say("building a model of BiRefNet-lite's structure with random weights, fp32 and fp16")
    write_repo(out / "source", SMALL)
    with LocalHub(out / "hub") as local:
        api = hub.connect(local.endpoint, TOKEN)
        api.create_repo(SOURCE)
        api.upload_folder(repo_id=SOURCE, folder_path=out / "source", commit_message="Demo model")
        recipe = _pointed_here(recipe, out / "source", say)
        options = RunOptions(out=out / "run", cache=out / "cache", endpoint=local.endpoint, token=TOKEN)
        result = pipeline.run(recipe, recipe_path.parent, options, {}, say)
        published = _download(api, out / "published" / TARGET)
    return _what_to_look_at(published, result, out)


def _clear(out: Path) -> None:
    """Remove what an earlier demo left, and nothing of anybody else's."""
    if out.exists() and not (out / MARK).exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            "this was not made by an earlier demo, so the demo does not write there",
            where=str(out),
            hint="name a new folder with --out",
            kind="folder_in_use",
        )
    for part in PARTS:
        shutil.rmtree(out / part, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()


def _pointed_here(recipe: Recipe, source: Path, say: Say) -> Recipe:
    """The recipe with source, pins, target and texts of the demo, each replacement told."""
    variants = []
    for variant in recipe.variants:
        path = source / variant.path
        if not path.is_file():
            raise UsageError(
                f"the demo builds no {variant.path}", hint="run it with a recipe of BiRefNet-lite's two files"
            )
        sha256 = sha256_of(path)
        say(f"replaced sha256 of {variant.path}: {variant.sha256[:12]}… -> {sha256[:12]}…")
        variants.append(variant.model_copy(update={"sha256": sha256}))
    say(f"replaced source.repo: {recipe.source.repo} -> {SOURCE}")
    say(f"replaced target.repo: {recipe.target.repo} -> {TARGET}")
    say("replaced the texts of card, which speak of the trained model")
    return recipe.model_copy(
        update={
            "source": recipe.source.model_copy(update={"repo": SOURCE}),
            "variants": tuple(variants),
            "target": recipe.target.model_copy(update={"repo": TARGET, "create": True}),
            "card": demo_card(recipe.card, SOURCE, SMALL),
        }
    )


def _download(api: HfApi, folder: Path) -> Path:
    """The published repo as a plain folder, as the Hub serves it."""
    api.snapshot_download(TARGET, local_dir=folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return folder


def _what_to_look_at(published: Path, result: pipeline.RunResult, out: Path) -> list[str]:
    assert result.report is not None
    files = [f"  {published / record.path}" for record in result.report.outputs]
    return [
        f"Published on the local Hub as {result.target} at commit {result.commit}.",
        "The Hub is stopped again; what it published is below. Look at",
        f"  {published / 'README.md'}    the model card",
        f"  {published / 'report.json'}  everything it says, node by node",
        f"  {published / 'recipe.yaml'}  the recipe as it was run, every file pinned",
        *files,
        f"  {out / 'run' / 'run.json'}  durations and memory of this run (not published)",
    ]
