"""The folder that becomes the target repo: models, copied files, and what says what they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hubpublish import provenance, signing, webgpu
from hubpublish import recipe as recipes
from hubpublish.card import render
from hubpublish.errors import HubError
from hubpublish.layout import CARD, MANIFEST, PROVENANCE, RECIPE, REPORT, SIGNATURE, WEBGPU
from hubpublish.publish import StagedFile, make_manifest, stage
from hubpublish.recipe import Recipe
from hubpublish.report import FileRecord, Report
from hubpublish.source import SourceFile

Signer = Callable[[Path, Sequence[StagedFile]], object]


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
    files = stage_files(report, resolved, copied, staging)
    return (*files, stage_manifest(files, report, staging))


def stage_files(
    report: Report, resolved: Recipe, copied: tuple[SourceFile, ...], staging: Path
) -> tuple[StagedFile, ...]:
    """All that `stage_all` stages but the manifest, which lists the rest."""
    for file in copied:
        target = staging / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.local, target)
    texts = {
        CARD: render(report, resolved.card),
        REPORT: report.to_json(),
        RECIPE: recipes.dumps(resolved),
        PROVENANCE: provenance.render(report),
        WEBGPU: webgpu.render(report),
    }
    for path, text in texts.items():
        write_text(staging / path, text)
    paths = [*(record.path for record in (*report.outputs, *report.copied)), *texts]
    files = tuple(stage(path, staging / path) for path in paths)
    _check(files, (*report.outputs, *report.copied))
    return files


def stage_manifest(files: Sequence[StagedFile], report: Report, staging: Path) -> StagedFile:
    """Write the manifest of these files, which are all others that will be published."""
    manifest = make_manifest(
        files,
        key=report.key,
        content_key=report.content_key,
        source_commit=report.source.commit,
    )
    write_text(staging / MANIFEST, manifest)
    return stage(MANIFEST, staging / MANIFEST)


def add_signature(
    staged: Sequence[StagedFile], report: Report, recipe: Recipe, staging: Path, make: Signer = signing.sign
) -> tuple[StagedFile, ...]:
    """Sign what is staged; the signature is one more file of the publication, which the manifest lists.

    Args:
        staged: All files, from `stage_all`.
        report: What was done.
        recipe: What was run.
        staging: Where the files are.
        make: Writes model.sig for files of the folder into it.

    Raises:
        UsageError: ``cannot_sign``.
        HubError: ``signing_failed``, ``staged_changed``.
    """
    make(staging, signing.signable(staged, recipe))
    content = (file for file in staged if file.path != MANIFEST)
    files = (*content, stage(SIGNATURE, staging / SIGNATURE))
    return (*files, stage_manifest(files, report, staging))


def write_text(path: Path, text: str) -> None:
    """Write a text as it is published: UTF-8, with the same line ends on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")


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
