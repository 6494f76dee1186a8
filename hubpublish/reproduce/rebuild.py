"""Every file of a publication, made again from its report and the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from huggingface_hub import HfApi

from hubpublish import publish, source
from hubpublish import recipe as recipes
from hubpublish.devices import PROFILES
from hubpublish.errors import DeviceFitError, SourceError, UnsupportedModelError
from hubpublish.layout import MANIFEST, SIGNATURE
from hubpublish.publish import Manifest, StagedFile
from hubpublish.publish.manifest import manifest_with
from hubpublish.recipe import Recipe
from hubpublish.recipe.writer import plain
from hubpublish.report import FileRecord, Report, SourceReport, VariantReport
from hubpublish.reproduce.published import NotRebuiltError, Publication
from hubpublish.rewrite import rewrite
from hubpublish.source import FetchedSource, FetchedVariant
from hubpublish.staging import stage_files, stage_manifest

Say = Callable[[str], None]

_GONE = frozenset({"repo_not_found", "revision_not_found", "file_not_found"})
_OTHER = frozenset({"hash_mismatch", "external_data_not_listed", "external_data_location"})


def rebuild(
    api: HfApi, then: Publication, recipe: Recipe, cache: Path, folder: Path, say: Say
) -> tuple[StagedFile, ...]:
    """Fetch, rewrite and render; afterwards the folder holds every file but a signature.

    What tells of the run of then is taken over from the report: what the verification found, the
    versions, and the key, which covers images that are not published.

    Args:
        api: The Hub.
        then: The publication.
        recipe: Its recipe.
        cache: Folder for source files; kept.
        folder: An empty one.
        say: Called with a line of progress.

    Raises:
        NotRebuiltError: The source is gone or another one, or this version does not rewrite it.
        SourceError: The source could not be asked for.
    """
    fetched = _fetched(api, recipe, cache, say)
    variants = []
    for variant, published in zip(fetched.variants, then.report.variants, strict=True):
        say(f"rewriting {variant.variant.path}")
        variants.append(_rewritten(variant, published, recipe, folder))
    copied = {file.path: file.sha256 for file in fetched.copied}
    resolved = recipes.resolved(recipe, commit=fetched.commit, target=recipe.target.repo, copied=copied)
    report = then.report.model_copy(
        update={
            "target": resolved.target.repo,
            "source": SourceReport(repo=fetched.repo, commit=fetched.commit, license=fetched.license),
            "device": PROFILES[resolved.device.profile],
            "recipe": plain(resolved),
            "copied": tuple(FileRecord(path=f.path, sha256=f.sha256, size=f.size) for f in fetched.copied),
            "variants": tuple(variants),
        }
    )
    files = stage_files(report, resolved, fetched.copied, folder)
    return (*files, _manifest(then.manifest, files, report, folder))


def _fetched(api: HfApi, recipe: Recipe, cache: Path, say: Say) -> FetchedSource:
    say(f"fetching {recipe.source.repo} at commit {recipe.source.revision[:12]}")
    try:
        upstream = source.resolve(api, recipe.source)
        return source.fetch(api, recipe, upstream, cache / "sources")
    except SourceError as error:
        if error.kind in _GONE:
            raise NotRebuiltError(f"the source is no longer there: {error.what}") from None
        if error.kind in _OTHER:
            raise NotRebuiltError(f"the source is not what the recipe says: {error.what}") from None
        raise


def _rewritten(
    fetched: FetchedVariant, published: VariantReport, recipe: Recipe, folder: Path
) -> VariantReport:
    """The variant's report as it comes out here; what the verification found is that of then."""
    path = fetched.variant.path
    try:
        done = rewrite(
            fetched.model.local, folder / path, recipe.build_passes(fetched.variant), recipe.device.build()
        )
    except (DeviceFitError, SourceError, UnsupportedModelError) as error:
        raise NotRebuiltError(f"this version does not rewrite {path}: {error.what}") from None
    saved = [done.saved.path, *([done.saved.data] if done.saved.data else [])]
    output = tuple(FileRecord.of(path.relative_to(folder).as_posix(), path) for path in saved)
    # That the passes were chosen is told: the recipe names those that were.
    told = (published.verification, published.webgpu)
    return VariantReport.of(fetched, output, done, *told, auto=published.auto)


def _manifest(then: Manifest, files: Sequence[StagedFile], report: Report, folder: Path) -> StagedFile:
    """The manifest of these files. The signature is listed as it was: it cannot be made again."""
    signature = [
        StagedFile(path, folder / path, then.files[path], then.git_oids.get(path, ""), 0)
        for path in (SIGNATURE,)
        if path in then.files
    ]
    stage_manifest([*files, *signature], report, folder)
    # None follows from the source: which version wrote it, and what people withdrew and restored since.
    told: dict[str, object] = {
        "hubpublish": report.versions.get("hubpublish"),
        "withdrawn": list(then.withdrawn),
    }
    if then.restored:
        told["restored"] = then.restored
    path = folder / MANIFEST
    path.write_bytes(manifest_with(path.read_bytes(), **told))
    return publish.stage(MANIFEST, folder / MANIFEST)
