"""What people wrote into the card on the Hub, and how it gets into the card that replaces theirs.

The card that is staged has empty regions. At plan time it takes the words of the card that the target
holds, and the manifest is made to match: both are in the same commit, or neither is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from hubpublish.layout import CARD, MANIFEST
from hubpublish.publish.manifest import FreeText, Manifest, manifest_with_card, text_sha256
from hubpublish.publish.staged import StagedFile, stage_content
from hubpublish.regions import BrokenRegionsError, filled, holds_words, outside_of, texts_of

LARGEST: Final = 2**20  # bytes of a card whose words are kept: it is read at every change, and shown in diffs
_TOO_LARGE = "with its free text it is larger than 1 MiB, which is too much to be kept"
_NOTHING = text_sha256("")


class Merged(NamedTuple):
    """Files with the words of a card in them, and why words of it would be lost, as parts of a sentence."""

    files: tuple[StagedFile, ...]
    lost: tuple[str, ...] = ()


def why_edited(card: bytes | None, known: FreeText) -> str | None:
    """Why a card that is not the published one is more than that with other words; None if it is not.

    Args:
        card: Its bytes; None if it is larger than ``LARGEST``.
        known: From the manifest that was published with it.
    """
    if card is None:
        return f"edited since: {_TOO_LARGE}"
    try:
        text = _text(card)
        missing = sorted(known.texts.keys() - texts_of(text).keys())
        if missing:
            return f"edited since: the markers of its free text '{missing[0]}' are missing"
        changed = hashlib.sha256(outside_of(text).encode()).hexdigest() != known.outside
    except BrokenRegionsError as error:
        return f"edited since: {error}"
    return "edited since, outside of its free text" if changed else None


def why_lost(card: bytes | None, names: Collection[str]) -> tuple[str, ...]:
    """Why words of the target's card would be lost in one that has regions of these names alone."""
    if card is None:
        return (_TOO_LARGE,)
    try:
        written = _words(_text(card))
    except BrokenRegionsError:
        return ()  # which is an edit
    return tuple(
        f"somebody wrote into its free text '{name}', which the recipe does not name any more"
        for name in written
        if name not in names
    )


def merged(staged: Sequence[StagedFile], card: bytes | None) -> Merged:
    """The staged files with what people wrote into the target's card.

    A card that differs from the staged one in its words alone is taken as it is.

    Args:
        staged: All files, with the card as it was made.
        card: What the target holds and was published with regions; None if it is larger than ``LARGEST``.

    Raises:
        HubError: ``staged_changed``.
    """
    files = {file.path: file for file in staged}
    if CARD not in files:
        return Merged(tuple(staged))
    ours = _text(files[CARD].read())
    lost = why_lost(card, texts_of(ours))
    if lost or card is None or not texts_of(ours):
        return Merged(tuple(staged), lost)
    try:
        content = _with_words(ours, card, _words(_text(card)))
    except BrokenRegionsError:
        return Merged(tuple(staged))
    return _merged(files, content, FreeText.of(_text(content)))


def merged_with_request(staged: Sequence[StagedFile], card: bytes | None, known: FreeText) -> Merged:
    """Files for the branch of a pull request, with what people wrote there and on the main branch.

    Where a region changed in one of the two places since we looked, the changed text is taken.

    Args:
        staged: All files, with the words of the main branch.
        card: What the pull request holds; None if it is larger than ``LARGEST``.
        known: From the manifest of the pull request.

    Raises:
        HubError: ``staged_changed``.
    """
    files = {file.path: file for file in staged}
    if card is None or CARD not in files:
        return Merged(tuple(staged), () if card is not None else (_TOO_LARGE,))
    ours = _text(files[CARD].read())
    regions, here = texts_of(ours), _words(ours)
    try:
        there = _words(_text(card))
    except BrokenRegionsError:
        return Merged(tuple(staged))
    chosen, lost = dict(here), []
    for name in sorted({*here, *there}):
        base, main, request = known.texts.get(name, _NOTHING), here.get(name, ""), there.get(name, "")
        if request == main or text_sha256(request) == base:
            continue
        if text_sha256(main) != base or name not in regions:
            lost.append(
                f"its free text '{name}' was changed on the pull request, and otherwise on the target"
            )
        chosen[name] = request
    if lost or not regions:
        return Merged(tuple(staged), tuple(lost))
    return _merged(files, _with_words(ours, card, {name: text for name, text in chosen.items() if text}))


def differ_in_words_alone(old: Manifest, new: Manifest) -> bool:
    """Whether two manifests are of the same files, but for what people wrote into the card."""
    if old.free_text is None or new.free_text is None:
        return False
    return old.free_text.outside == new.free_text.outside and _without_card(old) == _without_card(new)


def _without_card(manifest: Manifest) -> Manifest:
    none: dict[str, object] = {"free_text": None}
    for name in ("files", "git_oids"):
        none[name] = {path: each for path, each in getattr(manifest, name).items() if path != CARD}
    return manifest.model_copy(update=none)


def _text(card: bytes) -> str:
    try:
        return card.decode("utf-8")
    except UnicodeDecodeError:
        raise BrokenRegionsError("it is not UTF-8") from None


def _words(card: str) -> dict[str, str]:
    return {name: text for name, text in texts_of(card).items() if holds_words(text)}


def _with_words(ours: str, theirs: bytes, words: Mapping[str, str]) -> bytes:
    """Our card with these words; their very bytes, where only editors' habits would differ."""
    text = _text(theirs)
    if outside_of(ours) == outside_of(text) and _words(text) == words:
        return theirs
    return filled(ours, words).encode()


def _merged(files: Mapping[str, StagedFile], content: bytes, free_text: FreeText | None = None) -> Merged:
    if len(content) > LARGEST:
        return Merged(tuple(files.values()), (_TOO_LARGE,))
    card = stage_content(CARD, content)
    made = {**files, CARD: card}
    if MANIFEST in made:
        manifest = manifest_with_card(made[MANIFEST].read(), card, free_text)
        made[MANIFEST] = stage_content(MANIFEST, manifest)
    return Merged(tuple(made.values()))
