"""All files of a recipe's source, at one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from huggingface_hub import HfApi

from hubpublish.errors import SourceError
from hubpublish.recipe import CopiedFile, Recipe, Source, Variant
from hubpublish.source.download import fetch_file
from hubpublish.source.external import external_locations
from hubpublish.source.upstream import SourceFile, Upstream, look_up

_LEGAL_NAMES = frozenset(
    f"{stem}{suffix}" for stem in ("license", "notice") for suffix in ("", ".txt", ".md")
)


@dataclass(frozen=True)
class FetchedVariant:
    """A variant's files. ``folder`` holds the model and its data under their names; never edit it.

    They are plain files: onnx and onnx_ir refuse external data behind a symbolic or a hard link.
    """

    variant: Variant
    model: SourceFile
    data: tuple[SourceFile, ...]
    folder: Path


@dataclass(frozen=True)
class FetchedSource:
    """All that a publication takes from its source, hashed. ``license`` is the source card's."""

    repo: str
    commit: str
    variants: tuple[FetchedVariant, ...]
    copied: tuple[SourceFile, ...]
    license: str | None


def resolve(api: HfApi, source: Source) -> Upstream:
    """What a source's revision points to now: its commit, the files in it, the card's license.

    Raises:
        SourceError: ``repo_not_found``, ``revision_not_found``, ``no_network`` and the like.
    """
    return look_up(api, source.repo, source.revision)


def fetch(api: HfApi, recipe: Recipe, upstream: Upstream, cache_dir: Path) -> FetchedSource:
    """Fetch a recipe's source files at ``upstream``'s commit and hash every one of them before use.

    Nothing is written outside ``cache_dir``. What is there already, with the right hash, is not
    fetched again; what a killed run left half done is finished.

    Raises:
        SourceError: A file is missing, out of reach, not the pinned one, corrupt, or reads external
            data that the recipe does not list.
    """
    copied = tuple(_to_copy(recipe.source, upstream))
    for path in _paths(recipe, copied):  # all names first: a typing error must not cost a download
        upstream.file(path)
    home, commit = cache_dir / upstream.repo.replace("/", "--"), upstream.commit
    return FetchedSource(
        repo=upstream.repo,
        commit=commit,
        variants=tuple(fetch_variant(api, upstream, variant, home) for variant in recipe.variants),
        copied=tuple(fetch_file(api, upstream, file.path, home / commit, pin=file.sha256) for file in copied),
        license=upstream.license,
    )


def fetch_variant(api: HfApi, upstream: Upstream, variant: Variant, home: Path) -> FetchedVariant:
    """Fetch a variant's files; ``home`` is the source's own folder in the cache. See `fetch`."""
    # By content, not by commit: a new upstream commit that leaves the weights alone costs nothing.
    folder = home / folder_key(variant)
    model = fetch_file(api, upstream, variant.path, folder, pin=variant.sha256)
    _check_external_data(upstream, variant, model.local)
    data = tuple(fetch_file(api, upstream, file.path, folder, pin=file.sha256) for file in variant.data)
    return FetchedVariant(variant, model, data, model.local.parent)


def folder_key(variant: Variant) -> str:
    """The name of the folder, in the source's own in the cache, for files with these paths and pins."""
    pins = [(variant.path, variant.sha256), *((file.path, file.sha256) for file in variant.data)]
    return hashlib.sha256(repr(sorted(pins)).encode()).hexdigest()[:20]


def _check_external_data(upstream: Upstream, variant: Variant, model: Path) -> None:
    where = f"{upstream.repo}/{variant.path}"
    listed = {file.path for file in variant.data}
    folder = PurePosixPath(variant.path).parent
    missing = sorted(
        path
        for path in map(str, map(folder.joinpath, external_locations(model, where)))
        if path not in listed
    )
    if missing:
        raise SourceError(
            f"the model reads external data that the recipe does not list: {', '.join(missing)}",
            where=where,
            hint="add it under the variant's `data`, with its sha256",
            kind="external_data_not_listed",
            details={"missing": missing},
        )


def is_always_copied(path: str) -> bool:
    """Whether a file is published although no recipe lists it: the source's license and notice."""
    return path.lower() in _LEGAL_NAMES


def _to_copy(source: Source, upstream: Upstream) -> Iterator[CopiedFile]:
    yield from source.copy_files
    named = {file.path for file in source.copy_files}
    for path in sorted(upstream.files):
        if is_always_copied(path) and path not in named:
            yield CopiedFile(path=path)


def _paths(recipe: Recipe, copied: tuple[CopiedFile, ...]) -> Iterator[str]:
    for variant in recipe.variants:
        yield variant.path
        yield from (file.path for file in variant.data)
    yield from (file.path for file in copied)
