"""The folder that becomes the target repo: models, copied files, card, report, recipe, manifest."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from hubpublish import recipe as recipes
from hubpublish.card import render
from hubpublish.errors import HubError
from hubpublish.layout import CARD, MANIFEST, RECIPE, REPORT
from hubpublish.publish import StagedFile, make_manifest, stage
from hubpublish.recipe import Recipe
from hubpublish.report import FileRecord, Report
from hubpublish.source import SourceFile


def stage_all(
    report: Report, resolved: Recipe, copied: tuple[SourceFile, ...], staging: Path
) -> tuple[StagedFile, ...]:
    """Add to the models in ``staging`` all other files, and hash everything that will be published.

    Args:
        report: What was done.
        resolved: The recipe with nothing left that can move.
        copied: Files of the source that are published unchanged.
        staging: Holds the report's output files under their paths.

    Raises:
        HubError: ``staged_changed``: a file is not the one that the report names.
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
    _check(files, (*report.outputs, *report.copied))
    manifest = make_manifest(files, key=report.key, source_commit=report.source.commit)
    _write(staging / MANIFEST, manifest)
    return (*files, stage(MANIFEST, staging / MANIFEST))


def _check(files: Sequence[StagedFile], records: Iterable[FileRecord]) -> None:
    """What is published must be what was verified, and what report and card name by its hash."""
    hashes = {file.path: file.sha256 for file in files}
    for record in records:
        if hashes[record.path] != record.sha256:
            raise HubError(
                f"{record.path} changed on disk after it was verified",
                where=record.path,
                hint="let nothing write to the staged folder and the cache, and run again",
                kind="staged_changed",
            )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
