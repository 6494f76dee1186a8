"""manifest.json: which files of the target repo are ours, and what they hashed to when published."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

import hubpublish
from hubpublish.errors import HubError
from hubpublish.layout import CARD, MANIFEST, OWN_FILES, SIGNATURE
from hubpublish.publish.staged import StagedFile
from hubpublish.regions import BrokenRegionsError, holds_words, outside_of, texts_of

ATTRIBUTES = ".gitattributes"  # the Hub's own, which it edits when a file goes to LFS

_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_GitOid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class FreeText(BaseModel):
    """What is known of a card in which people may write, to tell their words from edits.

    ``outside`` is the SHA-256 of the card without what stands in its regions. ``texts`` has that of
    each region's text on the target's main branch when the card was made; see `text_sha256`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    outside: _Sha256
    texts: dict[str, _Sha256]

    @classmethod
    def of(cls, card: str) -> FreeText | None:
        """What is to be known of a card; None if nobody may write in it.

        Raises:
            BrokenRegionsError: Its markers enclose no regions.
        """
        texts = texts_of(card)
        if not texts:
            return None
        outside = hashlib.sha256(outside_of(card).encode()).hexdigest()
        return cls(outside=outside, texts={name: text_sha256(text) for name, text in texts.items()})


def text_sha256(text: str) -> str:
    """SHA-256 of a region's text; of nothing, where nobody has written."""
    return hashlib.sha256(text.encode() if holds_words(text) else b"").hexdigest()


class Manifest(BaseModel):
    """The published manifest. Unknown fields are those of a later version, and are left alone.

    ``git_oids`` repeats the files by git blob id: the Hub lists those for files outside of LFS, so
    that an edit shows without downloading anything. ``withdrawn`` holds the keys of publications
    that were rolled back: no run publishes them again by itself. ``restored`` is the commit whose state
    a rollback brought back; what is published afterwards has none. ``free_text`` is there if people may write
    in the card.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    hubpublish: str
    key: str
    content_key: str | None = None
    source_commit: str
    files: dict[str, _Sha256]
    git_oids: dict[str, _GitOid] = Field(default_factory=dict)
    withdrawn: tuple[str, ...] = ()
    restored: str | None = None
    free_text: FreeText | None = None

    @property
    def content(self) -> str:
        """A digest of the models and the copied files: of all that is published but the texts about it."""
        texts = {*OWN_FILES, SIGNATURE}
        listed = sorted((path, sha256) for path, sha256 in self.files.items() if path not in texts)
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    @property
    def keys(self) -> tuple[str, ...]:
        """By what a publication is known when it was rolled back: how it was made, and what it holds.

        The same models come from other versions and from later commits of the source too.
        """
        return tuple(key for key in (self.key, self.content_key, self.content) if key is not None)


def make_manifest(
    files: Iterable[StagedFile], *, key: str, source_commit: str, content_key: str | None = None
) -> str:
    """The text of manifest.json for these files; it does not list itself.

    Args:
        files: All that is published, in any order.
        key: What the publication was made from: equal keys, equal files.
        source_commit: The source repo's commit.
        content_key: The same, whatever else there is at that commit.

    Raises:
        HubError: ``card_invalid``: markers of free text stand where none may.
    """
    listed = sorted((file for file in files if file.path != MANIFEST), key=lambda file: file.path)
    manifest = Manifest(
        hubpublish=hubpublish.__version__,
        key=key,
        content_key=content_key,
        source_commit=source_commit,
        files={file.path: file.sha256 for file in listed},
        git_oids={file.path: file.git_oid for file in listed},
        free_text=next((_free_text(file) for file in listed if file.path == CARD), None),
    )
    return _dumped(manifest.model_dump(mode="json", exclude_none=True))


def manifest_with_card(content: bytes, card: StagedFile, free_text: FreeText | None = None) -> bytes:
    """A manifest for another card, and with this ``free_text`` if given; all else in it stays."""
    document = json.loads(content)
    document.setdefault("files", {})[CARD] = card.sha256
    document.setdefault("git_oids", {})[CARD] = card.git_oid
    if free_text is not None:
        document["free_text"] = free_text.model_dump(mode="json")
    return _dumped(document).encode()


def manifest_with(content: bytes, **fields: object) -> bytes:
    """A manifest with other values of these fields; all else in it stays, also what we do not know."""
    return _dumped({**json.loads(content), **fields}).encode()


def _dumped(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _free_text(card: StagedFile) -> FreeText | None:
    try:
        return FreeText.of(card.read().decode("utf-8", "replace"))
    except BrokenRegionsError as error:
        raise HubError(
            f"the model card cannot be published: {error}",
            where=CARD,
            hint="take the lines that are markers of free text out of what the card quotes",
            kind="card_invalid",
        ) from None


def parse_manifest(content: bytes) -> Manifest | None:
    """The manifest in these bytes; None if they are no manifest of ours."""
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError:
        return None
    # Whatever it claims: what is listed may be deleted one day.
    files = {path: sha256 for path, sha256 in manifest.files.items() if path != ATTRIBUTES}
    return manifest.model_copy(update={"files": files})


def same_but_for_words(published: bytes, made: bytes) -> bool:
    """Whether a manifest is what this version writes, but for what follows from words and signatures."""
    documents = [json.loads(published), json.loads(made)]
    if _dumped(documents[0]).encode() != published:
        return False
    for document in documents:
        for hashes in (document.get("files", {}), document.get("git_oids", {})):
            for path in (CARD, SIGNATURE):
                hashes.pop(path, None)
        (document.get("free_text") or {}).pop("texts", None)
    return bool(documents[0] == documents[1])
