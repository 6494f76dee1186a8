"""The models that a bump goes between: fetched, each from a commit that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from huggingface_hub import HfApi

from hubpublish.errors import SourceError
from hubpublish.hub import retried, translated
from hubpublish.model import sha256_of
from hubpublish.recipe import Recipe, Variant
from hubpublish.source import Upstream, fetch_variant, folder_key, look_up
from hubpublish.upstream.hashes import Hashes
from hubpublish.upstream.pins import pinned_commit

LOOKED_AT: Final = 50  # commits, the newest first


class Models:
    """The files of a recipe's variants, old and new.

    Args:
        api: The Hub.
        recipe: As it is: its pins are those of the old models.
        head: The source as it is now.
        sources: Folder of the cache for source files.
        hashes: To look for files by their SHA-256.
    """

    def __init__(self, api: HfApi, recipe: Recipe, head: Upstream, sources: Path, hashes: Hashes) -> None:
        self._api = api
        self._source = recipe.source
        self._head = head
        self._home = sources / head.repo.replace("/", "--")
        self._hashes = hashes
        self._at = cache(self._look_up)  # several variants come from one commit
        self._commits = cache(self._history)

    def new(self, variant: Variant) -> Path:
        """The model at the head, with its external data beside it.

        Raises:
            SourceError: See `hubpublish.source.fetch`.
        """
        return fetch_variant(self._api, self._head, variant, self._home).model.local

    def old(self, variant: Variant) -> Path:
        """The model that a variant pins, with its external data beside it.

        Raises:
            SourceError: It is neither in the cache nor in any commit that the Hub still lists
                (``gone``), or cannot be fetched.
        """
        pins = {variant.path: variant.sha256, **{data.path: data.sha256 for data in variant.data}}
        folder = self._home / folder_key(variant)
        if all(_is(folder / path, sha256) for path, sha256 in pins.items()):
            return folder / variant.path
        upstream = self.holding(pins)
        if upstream is None:
            raise SourceError(
                f"no commit of {self._head.repo} that the Hub still lists has it",
                where=variant.path,
                hint="the old file cannot be had any more",
                kind="gone",
            )
        return fetch_variant(self._api, upstream, variant, self._home).model.local

    def holding(self, pins: Mapping[str, str]) -> Upstream | None:
        """The source at a commit with these files: the pinned one, or the newest that has them.

        Args:
            pins: SHA-256 by path.
        """
        for commit in self._candidates():
            upstream = self._at(commit)
            if upstream is not None and all(
                path in upstream.files and self._hashes.sha256(upstream, path) == sha256
                for path, sha256 in pins.items()
            ):
                return upstream
        return None

    def _candidates(self) -> Iterator[str]:
        if pinned := pinned_commit(self._source):
            yield pinned
        yield from self._commits()

    def _history(self) -> list[str]:
        repo = self._head.repo
        with translated(SourceError, "list the commits", repo=repo):
            found = retried(lambda: self._api.list_repo_commits(repo, revision=self._head.commit))
        return [each.commit_id for each in found[:LOOKED_AT]]

    def _look_up(self, commit: str) -> Upstream | None:
        try:
            return look_up(self._api, self._head.repo, commit)
        except SourceError as error:
            if error.kind != "revision_not_found":
                raise
            return None


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256
