"""What people write on the Hub, where the card invites them to, survives; everything else is an edit."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.utils import get_session

from hubpublish.hub import connect, request_headers
from hubpublish.layout import CARD, MANIFEST
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    Published,
    already_published,
    commit,
    make_plan,
    publish,
    read_back,
    read_target,
    refuse_edited,
    refuse_lost_words,
    stage_content,
)
from hubpublish.publish.free_text import LARGEST
from hubpublish.regions import empty_region, filled, texts_of
from tests.publication import Publication
from tests.publish.publishing import (
    COMMITS,
    FILES,
    MESSAGE,
    REPO,
    Stage,
    after_planning,
    commits,
    content,
    edit,
    error_of,
)

BEGIN, END = "<!-- free text: notes -->", "<!-- end of free text: notes -->"
README = r"GET .*/resolve/.*/README\.md"


def card(body: str = "Made once.", *names: str) -> bytes:
    regions = "\n\n".join(map(empty_region, names or ("notes",)))
    return f"---\nlicense: mit\n---\n# Title\n\n{regions}\n\n{body}\n".encode()


def files(body: str = "Made once.", *names: str, **others: bytes) -> dict[str, bytes]:
    return {**FILES, CARD: card(body, *names), **others}


def on_the_hub(api: HfApi, revision: str = "main") -> str:
    return (content(api, CARD, revision) or b"").decode()


def write(api: HfApi, text: str, revision: str = "main", name: str = "notes") -> str:
    """What somebody does in the Hub's editor: the card as it is, with this text in a region."""
    now = on_the_hub(api, revision)
    return edit(api, CARD, filled(now, {**texts_of(now), name: text}).encode(), revision=revision)


def push(api: HfApi, path: str, data: bytes) -> None:
    """A commit with bytes that the client itself would not send, as git does."""
    value = {"path": path, "content": base64.b64encode(data).decode(), "encoding": "base64"}
    lines = [{"key": "header", "value": {"summary": "push"}}, {"key": "file", "value": value}]
    body = "".join(f"{json.dumps(line)}\n" for line in lines)
    headers = {**request_headers(api), "Content-Type": "application/x-ndjson"}
    response = get_session().post(
        f"{api.endpoint}/api/models/{REPO}/commit/main", content=body, headers=headers
    )
    assert response.status_code == 200


def as_pr(api: HfApi, staged: Any) -> Published:
    return publish(api, REPO, staged, MESSAGE, as_pr=True)


def manifest_agrees(api: HfApi, revision: str = "main") -> bool:
    manifest = json.loads(content(api, MANIFEST, revision) or b"")
    state = read_target(api, REPO, revision=revision)
    found = content(api, CARD, revision) or b""
    listed = manifest["files"][CARD] == hashlib.sha256(found).hexdigest()
    return listed and manifest["git_oids"][CARD] == state.files[CARD].git_oid


class TestWords:
    def test_are_in_the_card_that_replaces_theirs(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        done = publish(api, target, staging(files("Made anew.")), MESSAGE)
        assert done.changed
        assert on_the_hub(api) == filled(card("Made anew.").decode(), {"notes": "I like it.\n"})
        assert {each.path for each in done.plan.changes} == {CARD, MANIFEST}
        assert manifest_agrees(api)
        assert not read_target(api, target).edited()

    def test_stay_over_many_publications(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files("0", "notes", "examples")), MESSAGE)
        write(api, "One.\n")
        for round_ in range(1, 4):
            publish(api, target, staging(files(str(round_), "examples", "notes")), MESSAGE)
            assert manifest_agrees(api)
        write(api, "Two.\n", name="examples")
        publish(api, target, staging(files("4", "notes", "more", "examples")), MESSAGE)
        texts = texts_of(on_the_hub(api))
        assert (texts["notes"], texts["examples"]) == ("One.\n", "Two.\n")
        assert list(texts) == ["notes", "more", "examples"]

    def test_are_no_edit(self, hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        head, before = write(api, "I like it.\n"), len(hub.log)
        state = read_target(api, target)
        assert not state.edited()
        assert already_published(state, "key 1")
        refuse_edited(state)
        again = publish(api, target, staging(files()), MESSAGE)
        assert (again.changed, again.commit) == (False, head)
        assert not again.plan.conflicts
        assert {entry.method for entry in hub.log[before:]} == {"GET"}

    def test_come_with_another_file_though_the_card_is_the_same(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        done = publish(api, target, staging({**files(), "config.json": b"[]"}), MESSAGE)
        assert {each.path for each in done.plan.changes} == {"config.json", MANIFEST}
        assert manifest_agrees(api)
        assert "I like it." in on_the_hub(api)

    def test_are_no_reason_to_leave_out_what_else_the_manifest_says(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        done = publish(api, target, staging(files(), key="key 2"), MESSAGE)
        assert [each.path for each in done.plan.changes] == [MANIFEST]
        assert already_published(read_target(api, target), "key 2")
        assert manifest_agrees(api)

    def test_that_are_taken_back_leave_an_empty_region(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        publish(api, target, staging(files("2")), MESSAGE)
        write(api, "")
        publish(api, target, staging(files("3")), MESSAGE)
        assert on_the_hub(api) == card("3").decode()

    def test_are_shown_by_a_dry_run(self, hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        anonymous = connect(hub.endpoint, False)
        plan = make_plan(anonymous, read_target(anonymous, target), staging(files("2")))
        planned = plan.file(CARD)
        assert planned is not None
        assert b"I like it." in planned.read()
        assert plan.file("none") is None

    def test_are_in_the_card_that_is_validated(
        self, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def noted(api: HfApi, text: str) -> list[str]:
            seen.append(text)
            return validate(api, text)

        seen: list[str] = []
        validate = commit.validate_card
        monkeypatch.setattr(commit, "validate_card", noted)
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        publish(api, target, staging(files("2")), MESSAGE)
        assert "I like it." in seen[-1]
        assert seen[-1] == on_the_hub(api)

    def test_that_the_hub_refuses_cost_no_upload(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        body = {"errors": [{"message": "no"}], "warnings": []}
        hub.fault("POST /api/validate-yaml", "status", status=400, body=body)
        before = len(hub.log)
        assert error_of(lambda: publish(api, target, staging(files("2")), MESSAGE)).kind == "card_invalid"
        assert not [
            entry for entry in hub.log[before:] if "validate-yaml" not in entry.path and entry.method != "GET"
        ]

    def test_take_nothing_from_a_card_that_changed_on_disk(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        staged = staging(files("2"))
        next(file for file in staged if file.path == CARD).local.write_bytes(card("Slipped in."))
        assert error_of(lambda: publish(api, target, staged, MESSAGE)).kind == "staged_changed"


class TestOddWords:
    @pytest.mark.parametrize(
        "text",
        [
            f"Write `{BEGIN}` in a line of its own.\n",
            f" {BEGIN}\n",
            "```\nnever closed\n",
            "<!-- never closed\n",
            "---\nlicense: gpl\n---\n",
            "{{ 7 * 7 }} {% for x in y %} \\1 \\g<0> %s\n",
            "\u2028 \x0b \x85 \ufeff \U0001f600\r middle\n",
            "no word is lost at the end \n\n\n",
        ],
    )
    def test_survive(self, api: HfApi, target: str, staging: Stage, text: str) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, text)
        publish(api, target, staging(files("2")), MESSAGE)
        publish(api, target, staging(files("3")), MESSAGE)
        assert texts_of(on_the_hub(api))["notes"] == text
        assert manifest_agrees(api)

    @pytest.mark.parametrize(
        "change",
        [
            lambda card: card.replace(b"\n", b"\r\n"),
            lambda card: card.rstrip(),
            lambda card: card + b"\n\n",
            lambda card: card.replace(b"I like it.\n", b"I like it.\r\n"),
        ],
    )
    def test_of_editors_that_change_line_ends(
        self, api: HfApi, target: str, staging: Stage, change: Callable[[bytes], bytes]
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        edit(api, CARD, change(on_the_hub(api).encode()))
        assert already_published(read_target(api, target), "key 1")
        assert not publish(api, target, staging(files()), MESSAGE).changed
        publish(api, target, staging(files("2")), MESSAGE)
        assert on_the_hub(api) == filled(card("2").decode(), {"notes": "I like it.\n"})

    def test_that_are_not_utf8_are_refused(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        push(api, CARD, card().replace(END.encode(), b"caf\xe9\n" + END.encode()))
        error = error_of(lambda: publish(api, target, staging(files("2")), MESSAGE))
        assert (error.kind, error.details["files"]) == ("target_edited", [CARD])
        assert f"{CARD} (edited since: it is not UTF-8)" in error.what

    def test_of_almost_a_megabyte_are_kept(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        text = "words \n" * ((LARGEST - 2000) // 7)
        write(api, text)
        publish(api, target, staging(files("2")), MESSAGE)
        assert texts_of(on_the_hub(api))["notes"] == text

    def test_of_more_are_refused(self, hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "words \n" * (LARGEST // 7))
        state = read_target(api, target)
        assert "larger than 1 MiB" in state.edited()[CARD]
        assert not already_published(state, "key 1")
        error = error_of(lambda: publish(api, target, staging(files("2")), MESSAGE))
        assert (error.kind, error.details["files"]) == ("target_edited", [CARD])

    def test_that_our_own_part_makes_too_large_are_refused(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        head = write(api, "words \n" * ((LARGEST - 2000) // 7))
        error = error_of(lambda: publish(api, target, staging(files("x" * 4000)), MESSAGE))
        assert (error.kind, error.details["files"]) == ("target_edited", [CARD])
        assert "larger than 1 MiB" in error.what
        assert api.model_info(target).sha == head


class TestEdits:
    def test_outside_of_the_regions_are_refused(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        head = edit(api, CARD, on_the_hub(api).replace("Made once.", "Made twice.").encode())
        state = read_target(api, target)
        assert state.edited() == {CARD: "edited since, outside of its free text"}
        assert not already_published(state, "key 1")
        for call in (
            lambda: refuse_edited(state),
            lambda: publish(api, target, staging(files("2")), MESSAGE),
        ):
            error = error_of(call)
            assert (error.kind, error.details["files"]) == ("target_edited", [CARD])
        assert api.model_info(target).sha == head

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            (END, "", "the marker that ends its free text 'notes' is missing"),
            (BEGIN, "", "the marker that begins its free text 'notes' is missing"),
            (f"{END}\n", f"{END}\n{END}\n", "its free text 'notes' ends twice"),
            (f"{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n", "its free text 'notes' begins twice"),
            (f"{END}\n", f"{empty_region('a')}\n{END}\n", "'a' begins before 'notes' has ended"),
            ("# Title", f"# Title\n{BEGIN}\n{END}", "its free text 'notes' begins twice"),
            ("notes", "words", "the markers of its free text 'notes' are missing"),
            (f"{BEGIN}\n", f"{BEGIN.replace(' -->', '-->')}\n", "the marker that begins"),
        ],
    )
    def test_of_the_markers_are_refused(
        self, api: HfApi, target: str, staging: Stage, old: str, new: str, why: str
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        head = edit(api, CARD, on_the_hub(api).replace(old, new).encode())
        assert why in read_target(api, target).edited()[CARD]
        error = error_of(lambda: publish(api, target, staging(files("2")), MESSAGE))
        assert (error.kind, error.details["files"]) == ("target_edited", [CARD])
        assert f"{CARD} (edited since: " in error.what
        assert why in error.what
        assert api.model_info(target).sha == head

    def test_of_a_whole_region_and_its_markers_are_refused(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        edit(api, CARD, on_the_hub(api).replace(f"{empty_region('notes')}\n\n", "").encode())
        error = error_of(lambda: publish(api, target, staging(files("2")), MESSAGE))
        assert "the markers of its free text 'notes' are missing" in error.what

    def test_are_all_refused_by_a_manifest_that_knows_no_free_text(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        manifest = json.loads(content(api, MANIFEST) or b"")
        del manifest["free_text"]
        edit(api, MANIFEST, json.dumps(manifest).encode())
        assert already_published(read_target(api, target), "key 1")
        write(api, "I like it.\n")
        assert read_target(api, target).edited() == {CARD: "edited since"}

    def test_of_a_card_without_regions_are_what_they_were(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(), MESSAGE)
        assert "free_text" not in json.loads(content(api, MANIFEST) or b"")
        edit(api, CARD, b"# By hand\n")
        assert read_target(api, target).edited() == {CARD: "edited since"}


class TestRegions:
    def test_that_are_new_come_with_the_next_card(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(), MESSAGE)
        publish(api, target, staging(files()), MESSAGE)
        assert on_the_hub(api) == card().decode()

    @pytest.mark.parametrize("names", [("other",), ("examples",)])
    def test_that_are_not_named_any_more_and_hold_words_are_refused(
        self, api: HfApi, target: str, staging: Stage, names: tuple[str, ...]
    ) -> None:
        publish(api, target, staging(files("1", "notes", "examples")), MESSAGE)
        write(api, "I like it.\n")
        publish(api, target, staging(files("2", "notes", "examples")), MESSAGE)
        head = api.model_info(target).sha
        for call in (
            lambda: refuse_lost_words(api, read_target(api, target), names),
            lambda: publish(api, target, staging(files("3", *names)), MESSAGE),
            lambda: publish(api, target, staging(), MESSAGE),
        ):
            error = error_of(call)
            assert (error.kind, error.details["files"]) == ("target_edited", [CARD])
            assert "free text 'notes', which the recipe does not name" in error.what
            assert "card.free_text" in str(error.hint)
            assert "--as-pr" not in str(error.hint)
        assert api.model_info(target).sha == head

    def test_that_are_named_or_empty_are_not(self, api: HfApi, target: str, staging: Stage) -> None:
        refuse_lost_words(api, read_target(api, target), ())
        publish(api, target, staging(files("1", "notes", "examples")), MESSAGE)
        write(api, "I like it.\n")
        refuse_lost_words(api, read_target(api, target), ("notes",))
        publish(api, target, staging(files("2", "notes")), MESSAGE)
        assert list(texts_of(on_the_hub(api))) == ["notes"]
        assert "I like it." in on_the_hub(api)


class TestRequests:
    def test_of_a_run_with_nothing_to_do_are_one_more_at_most(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        def read() -> list[str]:
            before = len(hub.log)
            assert already_published(read_target(api, target), "key 1")
            got = [entry.path for entry in hub.log[before:]]
            return sorted(path.rpartition("/")[2] for path in got if "/resolve/" in path)

        publish(api, target, staging(files()), MESSAGE)
        assert read() == [MANIFEST, "report.json"]
        write(api, "I like it.\n")
        assert read() == [CARD, MANIFEST, "report.json"]

    def test_for_a_card_that_arrives_corrupt_are_repeated(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        hub.fault(README, "corrupt")
        publish(api, target, staging(files("2")), MESSAGE)
        assert "I like it." in on_the_hub(api)


class TestRaces:
    @pytest.mark.parametrize("before", ["", "Before.\n"])
    def test_words_written_between_our_read_and_our_commit(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, before: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        publish(api, target, staging(files()), MESSAGE)
        write(api, before)
        after_planning(monkeypatch, lambda: write(api, "In between.\n"))
        done = publish(api, target, staging(files("2")), MESSAGE)
        assert done.changed
        assert [entry.status for entry in hub.requests(COMMITS)][-3:] == [200, 412, 200]
        assert on_the_hub(api) == filled(card("2").decode(), {"notes": "In between.\n"})
        assert manifest_agrees(api)

    def test_words_written_meanwhile_are_of_a_new_plan_after_409_too(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        after_planning(monkeypatch, lambda: write(api, "In between.\n"))
        hub.fault(COMMITS, "status", status=409, skip=1)
        assert publish(api, target, staging(files("2")), MESSAGE).changed
        assert "In between." in on_the_hub(api)

    def test_the_answer_is_lost(self, hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        hub.fault(COMMITS, "drop_response")
        done = publish(api, target, staging(files("2")), MESSAGE)
        assert (done.changed, done.commit) == (True, api.model_info(target).sha)
        assert len(commits(api)) == 4
        assert manifest_agrees(api)

    def test_the_answer_is_lost_and_somebody_writes(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The head is theirs, and holds our files; only ours would be taken for our commit."""

        def write_first(*args: Any, **options: Any) -> Any:
            if "Late" not in on_the_hub(api):
                write(api, "Late.\n")
            return read_target(*args, **options)

        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        staged = staging(files("2"))
        hub.fault(COMMITS, "drop_response")
        monkeypatch.setattr(read_back, "read_target", write_first)  # the look after the lost answer
        done = publish(api, target, staged, MESSAGE)
        assert done.commit == api.model_info(target).sha
        assert commits(api)[:2] == [f"edit {CARD}", "Publish"]
        assert on_the_hub(api) == filled(card("2").decode(), {"notes": "Late.\n"})


class TestPullRequests:
    def test_have_the_words_of_the_target(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        done = as_pr(api, staging(files("2")))
        assert not done.plan.conflicts
        assert "I like it." in on_the_hub(api, "refs/pr/1")
        assert manifest_agrees(api, "refs/pr/1")
        assert not as_pr(api, staging(files("2"))).changed

    def test_take_words_written_on_the_target_later(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        as_pr(api, staging(files("2")))
        for text in ("Later.\n", "Still later.\n", ""):
            write(api, text)
            as_pr(api, staging(files(f"3 {text!r}")))
            assert texts_of(on_the_hub(api, "refs/pr/1"))["notes"].startswith(text or "<!-- hubpublish")
            assert manifest_agrees(api, "refs/pr/1")

    def test_keep_words_written_on_them(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "On the target.\n")
        as_pr(api, staging(files("2")))
        head = write(api, "On the request.\n", "refs/pr/1")
        again = as_pr(api, staging(files("2")))
        assert (again.changed, again.commit) == (False, head)
        for body in ("3", "4"):
            assert as_pr(api, staging(files(body))).changed
            assert texts_of(on_the_hub(api, "refs/pr/1"))["notes"] == "On the request.\n"
            assert manifest_agrees(api, "refs/pr/1")
        assert texts_of(on_the_hub(api))["notes"] == "On the target.\n"

    def test_keep_what_was_taken_back_on_them(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "On the target.\n")
        as_pr(api, staging(files("2")))
        write(api, "", "refs/pr/1")
        as_pr(api, staging(files("3")))
        assert on_the_hub(api, "refs/pr/1") == card("3").decode()

    def test_with_words_changed_in_both_places_are_refused(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        as_pr(api, staging(files("2")))
        write(api, "On the target.\n")
        head = write(api, "On the request.\n", "refs/pr/1")
        error = error_of(lambda: as_pr(api, staging(files("3"))))
        assert (error.kind, error.details["files"]) == ("target_edited", [CARD])
        assert "its free text 'notes' was changed on the pull request" in error.what
        assert "merge or close" in str(error.hint)
        assert api.model_info(target, revision="refs/pr/1").sha == head

    def test_with_the_same_words_in_both_places_go_on(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        as_pr(api, staging(files("2")))
        write(api, "The same.\n")
        write(api, "The same.\n", "refs/pr/1")
        assert as_pr(api, staging(files("3"))).changed
        assert texts_of(on_the_hub(api, "refs/pr/1"))["notes"] == "The same.\n"

    def test_with_words_in_a_region_that_is_gone_are_refused(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        as_pr(api, staging(files("2")))
        write(api, "On the request.\n", "refs/pr/1")
        for made in (files("3", "other"), FILES):
            assert error_of(lambda made=made: as_pr(api, staging(made))).kind == "target_edited"

    def test_with_edits_outside_are_refused(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        as_pr(api, staging(files("2")))
        edit(api, CARD, card("By hand."), revision="refs/pr/1")
        assert error_of(lambda: as_pr(api, staging(files("3")))).kind == "target_edited"

    def test_explain_what_they_would_replace_and_keep_the_words(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        edit(api, CARD, on_the_hub(api).replace("Made once.", "By hand.").encode())
        as_pr(api, staging(files("2")))
        text = api.get_discussion_details(REPO, 1).events[0].content
        assert f"- `{CARD}`: edited since, outside of its free text" in text
        assert on_the_hub(api, "refs/pr/1") == filled(card("2").decode(), {"notes": "I like it.\n"})

    def test_explain_which_words_they_would_lose(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(files()), MESSAGE)
        write(api, "I like it.\n")
        as_pr(api, staging(files("2", "other")))
        text = api.get_discussion_details(REPO, 1).events[0].content
        assert f"- `{CARD}`: somebody wrote into its free text 'notes'" in text
        as_pr(api, staging(files("3", "other")))  # and the text is no commit on the request


def test_a_file_that_is_in_memory_alone_is_published(api: HfApi, target: str, staging: Stage) -> None:
    staged = [file for file in staging(files()) if file.path != CARD]
    publish(api, target, [*staged, stage_content(CARD, card())], MESSAGE)
    assert on_the_hub(api) == card().decode()


def test_markers_that_a_card_quotes_are_an_error_of_ours(staging: Stage) -> None:
    error = error_of(lambda: staging({**files(), CARD: card(f"Quoted:\n{END}")}))
    assert error.kind == "card_invalid"
    assert "ends twice" in error.what


def test_a_whole_run_keeps_what_was_written(publication: Publication) -> None:
    publication.seed()
    recipe = publication.recipe(card={"free_text": ["notes", "examples"]})
    assert publication.run(recipe).status == "published"
    made = publication.read(CARD).decode()
    assert list(texts_of(made)) == ["notes", "examples"]
    written = filled(made, {**texts_of(made), "notes": "## Notes\n\nI like it.\n"})
    repo = "acme/small-webgpu"
    add = CommitOperationAdd(CARD, written.encode())
    head = publication.api.create_commit(repo, [add], commit_message="notes").oid
    again = publication.run(recipe)
    assert (again.status, again.commit) == ("nothing_to_do", head)
    forced = publication.run(recipe, force=True)
    assert (forced.status, forced.commit) == ("nothing_to_do", head)
    other = publication.recipe(card={"free_text": ["notes", "examples"], "title": "Another"})
    assert publication.run(other).status == "published"
    found = publication.read(CARD).decode()
    assert texts_of(found)["notes"] == "## Notes\n\nI like it.\n"
    assert "# Another" in found
    assert publication.run(other).status == "nothing_to_do"
