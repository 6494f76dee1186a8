"""The folder that becomes the target repo: models, copied files, card, report, recipe, manifest."""

from __future__ import annotations

import shutil
from pathlib import Path

from hubpublish import recipe as recipes
from hubpublish.card import render
from hubpublish.publish import MANIFEST, StagedFile, make_manifest, stage
from hubpublish.recipe import Recipe
from hubpublish.report import Report
from hubpublish.source import SourceFile

CARD = "README.md"
REPORT = "report.json"
RECIPE = "recipe.yaml"


def stage_all(
    report: Report, resolved: Recipe, copied: tuple[SourceFile, ...], staging: Path
) -> tuple[StagedFile, ...]:
    """Add to the models in ``staging`` all other files, and hash everything that will be published.

    Args:
        report: What was done.
        resolved: The recipe with nothing left that can move.
        copied: Files of the source that are published unchanged.
        staging: Holds the report's output files under their paths.
    """
    for file in copied:
        target = staging / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.local, target)
    texts = {
        CARD: render(report, resolved.card),
        REPORT: report.to_json(),
        RECIPE: recipes.dumps(resolved),
    }
    for path, text in texts.items():
        _write(staging / path, text)
    paths = [*(record.path for record in (*report.outputs, *report.copied)), *texts]
    files = [stage(path, staging / path) for path in paths]
    manifest = make_manifest(files, key=report.key, source_commit=report.source.commit)
    _write(staging / MANIFEST, manifest)
    return (*files, stage(MANIFEST, staging / MANIFEST))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
