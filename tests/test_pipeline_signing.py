"""Runs that sign: what is published, and that a signature alone never is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import snapshot_download

from hubpublish import publish, signing
from hubpublish.errors import HubError, UsageError
from hubpublish.layout import MANIFEST, SIGNATURE
from hubpublish.publish import Message, StagedFile, stage
from hubpublish.staging import add_signature
from tests.errors import error_of
from tests.publication import TARGET, TOKEN, Publication, commit, sha256
from tests.test_signing import Key

SECOND = Message("second")


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Key:
    """In place of Sigstore and of an identity."""
    key = Key(tmp_path)
    monkeypatch.setattr(signing, "require", lambda: None)
    monkeypatch.setattr(signing, "_keyless", lambda trust: key.signer())
    return key


@pytest.fixture
def signed(publication: Publication, key: Key) -> Publication:
    publication.seed()
    assert publication.run(sign=True).status == "published"
    return publication


def verifies(publication: Publication, key: Key) -> bool:
    folder = publication.folder / "downloaded"
    shutil.rmtree(folder, ignore_errors=True)
    snapshot_download(TARGET, local_dir=folder, endpoint=publication.hub.endpoint, token=TOKEN)
    return key.verify(folder).returncode == 0


def other(publication: Publication) -> Any:
    return publication.recipe(card={"summary": "Another."})


def again(publication: Publication) -> tuple[StagedFile, ...]:
    """What another run makes of the same, with a signature of its own."""
    result = publication.run(dry_run=True, force=True, out=publication.folder / "other")
    assert result.report is not None
    assert result.out is not None
    folder = result.out / "staged"
    files = [stage(path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file()]
    return add_signature(files, result.report, publication.recipe(), folder)


def listed(publication: Publication) -> dict[str, str]:
    found = json.loads(publication.read(MANIFEST))["files"]
    assert isinstance(found, dict)
    return found


def test_the_signature_is_published_with_what_it_covers(signed: Publication, key: Key) -> None:
    assert len(signed.commits()) == 2
    assert listed(signed)[SIGNATURE] == sha256(signed.read(SIGNATURE))
    assert verifies(signed, key)


@pytest.mark.parametrize("sign", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_a_signature_alone_is_no_reason_for_a_commit(signed: Publication, sign: bool, force: bool) -> None:
    before = signed.published()
    writes = len(signed.hub.requests(r"^(POST|PUT) .*(commit|preupload|lfs)"))
    assert signed.run(sign=sign, force=force).status == "nothing_to_do"
    assert signed.published() == before
    assert len(signed.hub.requests(r"^(POST|PUT) .*(commit|preupload|lfs)")) == writes


def test_a_new_publication_has_a_new_signature_in_the_same_commit(signed: Publication, key: Key) -> None:
    before = signed.read(SIGNATURE)
    assert signed.run(other(signed), sign=True).status == "published"
    assert len(signed.commits()) == 3
    assert signed.read(SIGNATURE) != before
    assert verifies(signed, key)


def test_a_publication_that_is_not_signed_has_none(signed: Publication) -> None:
    assert signed.run(other(signed)).status == "published"
    assert SIGNATURE not in signed.published()
    assert SIGNATURE not in listed(signed)


def test_a_target_that_holds_the_result_is_signed_if_forced(publication: Publication, key: Key) -> None:
    publication.seed()
    publication.run()
    assert publication.run(sign=True).status == "nothing_to_do"
    assert publication.run(sign=True, force=True).status == "published"
    assert verifies(publication, key)


def test_a_card_that_people_may_edit_is_not_covered(publication: Publication, key: Key) -> None:
    publication.seed()
    recipe = publication.recipe(card={"free_text": ["notes"]})
    publication.run(recipe, sign=True)
    marker = "<!-- free text: notes -->\n"
    card = publication.read("README.md").decode().replace(marker, f"{marker}Words.\n")
    commit(publication.api, TARGET, {"README.md": card.encode()})
    assert verifies(publication, key)
    head = publication.api.model_info(TARGET).sha
    assert publication.run(recipe, sign=True, force=True).status == "nothing_to_do"
    assert publication.api.model_info(TARGET).sha == head


def test_a_pull_request_is_not_made_again_for_a_signature(signed: Publication) -> None:
    first = signed.run(other(signed), sign=True, as_pr=True)
    assert first.status == "pull_request"
    assert SIGNATURE in signed.published(revision="refs/pr/1")
    again = signed.run(other(signed), sign=True, as_pr=True, force=True)
    assert (again.status, again.commit) == ("nothing_to_do", first.commit)


def test_the_second_of_two_publishers_keeps_the_signature_of_the_first(signed: Publication) -> None:
    before = signed.published()
    done = publish.publish(signed.api, TARGET, again(signed), SECOND)
    assert not done.changed
    assert signed.published() == before


def test_an_edited_signature_is_not_overwritten(signed: Publication) -> None:
    commit(signed.api, TARGET, {SIGNATURE: b"mine"})
    for options in ({}, {"force": True}):
        error = error_of(HubError, lambda options=options: signed.run(sign=True, **options))  # type: ignore[misc]
        assert (error.kind, error.details["files"]) == ("target_edited", [SIGNATURE])
    files = again(signed)
    assert (
        error_of(HubError, lambda: publish.publish(signed.api, TARGET, files, SECOND)).kind == "target_edited"
    )


def test_a_signature_of_somebody_else_stays(publication: Publication, key: Key) -> None:
    publication.seed()
    commit(publication.api, TARGET, {SIGNATURE: b"mine"})
    assert error_of(HubError, lambda: publication.run(sign=True)).kind == "target_edited"
    assert publication.run().status == "published"
    assert publication.read(SIGNATURE) == b"mine"


def test_without_an_identity_nothing_is_fetched(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "unavailable", lambda: "the environment offers no identity to sign with")
    publication.seed()
    error = error_of(UsageError, lambda: publication.run(sign=True))
    assert error.kind == "cannot_sign"
    assert not (publication.folder / "cache" / "sources").exists()
    assert publication.nothing_is_published()


def test_a_signature_that_cannot_be_made_publishes_nothing(
    publication: Publication, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    key.private.unlink()
    monkeypatch.setattr(signing, "_keyless", lambda trust: key.signer())
    publication.seed()
    assert error_of(HubError, lambda: publication.run(sign=True)).kind == "signing_failed"
    assert publication.nothing_is_published()
