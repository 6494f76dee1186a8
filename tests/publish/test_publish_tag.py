"""The tag comes after everything else, says what was published, and is never moved."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from huggingface_hub import HfApi

from hubpublish.errors import HubError
from hubpublish.hub import connect
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    Published,
    already_published,
    check_tag,
    commit,
    ensure_tag,
    find_tag,
    publish,
    read_target,
    tag_name,
)
from tests.publish.publishing import COMMITS, FILES, MESSAGE, REPO, Stage, commits, edit, error_of

TAGS = r"POST /api/models/alice/target/tag/"
REFS = r"GET /api/models/alice/target/refs"
LIGHT: dict[str, bytes] = {**FILES, "config.json": b"[]"}


def tags(api: HfApi) -> dict[str, str]:
    return {tag.name: tag.target_commit for tag in api.list_repo_refs(REPO).tags}


def head_of(api: HfApi) -> str:
    return str(api.model_info(REPO).sha)


def published(api: HfApi, staged: Any, tag: str = "v1") -> Published:
    return publish(api, REPO, staged, MESSAGE, tag=tag)


def test_a_name_is_filled_in() -> None:
    assert tag_name("v1", source_commit="a" * 40, key="b" * 64) == "v1"
    found = tag_name("v-{source}/{key}-{key}", source_commit="a" * 40, key="{source}" * 8)
    assert found == f"v-{'a' * 12}/{{source}}{{sou-{{source}}{{sou"


def test_what_was_published_is_tagged(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    done = published(api, staging())
    assert tags(api) == {"v1": done.commit}
    asked = [f"{entry.method} {entry.path}" for entry in hub.log]
    read_back = max(at for at, each in enumerate(asked) if "paths-info" in each)
    assert asked.index(next(each for each in asked if "/tag/" in each)) > read_back


def test_without_a_tag_none_is_looked_for(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    assert not hub.requests(f"{REFS}|{TAGS}")


def test_a_pull_request_gets_none(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE, as_pr=True, tag="v1")
    assert not hub.requests(f"{REFS}|{TAGS}")


def test_what_differs_when_it_is_read_back_is_not_tagged(
    hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_and_edit(*args: Any) -> str:
        assert send(*args)
        return edit(api, "config.json", b"[1]")

    send = commit._send
    monkeypatch.setattr(commit, "_send", send_and_edit)
    assert error_of(lambda: published(api, staging())).kind == "published_differs"
    assert not tags(api)


def test_what_could_not_be_read_back_is_tagged_by_the_next_run(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    hub.fault("POST .*/paths-info/", "status", status=500, times=None)
    assert error_of(lambda: published(api, staging())).details["published"] == head_of(api)
    assert not tags(api)
    hub.faults.clear()
    again = published(api, staging())
    assert not again.changed
    assert tags(api) == {"v1": again.commit}
    assert commits(api) == ["Publish", "initial commit"]


def test_a_run_killed_before_the_tag_is_made_up_for(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    done = publish(api, target, staging(), MESSAGE)
    before = len(hub.log)
    again = published(api, staging())
    assert (again.changed, again.commit) == (False, done.commit)
    assert tags(api) == {"v1": done.commit}
    assert [entry.method for entry in list(hub.log)[before:] if entry.method != "GET"] == ["POST"]


class TestEnsure:
    def test_a_tag_that_is_there_costs_one_look(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        done = published(api, staging())
        before = len(hub.log)
        assert not ensure_tag(api, target, "v1", done.commit)
        assert [f"{entry.method} {entry.path}" for entry in list(hub.log)[before:]] == [
            "GET /api/models/alice/target/refs"
        ]

    def test_a_tag_of_the_same_name_as_a_branch(self, api: HfApi, target: str, staging: Stage) -> None:
        api.create_branch(target, branch="v1")
        done = published(api, staging())
        assert tags(api) == {"v1": done.commit}

    @pytest.mark.parametrize("name", ["v1", "a/b-{c", "1.0", "ü"])
    def test_a_tag_is_set_once(self, api: HfApi, target: str, staging: Stage, name: str) -> None:
        done = publish(api, target, staging(), MESSAGE)
        assert ensure_tag(api, target, name, done.commit)
        assert not ensure_tag(api, target, name, done.commit)
        assert tags(api) == {name: done.commit}

    def test_a_tag_at_another_commit_is_not_moved(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        first = published(api, staging())
        later = edit(api, "notes.txt", b"1")
        before = len(hub.log)
        error = error_of(lambda: ensure_tag(api, target, "v1", later))
        assert error.kind == "tag_taken"
        assert first.commit[:12] in error.what
        assert later[:12] in error.what
        assert error.details == {
            "tag": "v1", "tagged": first.commit, "commit": later, "published": later
        }  # fmt: skip
        assert "v-{key}" in str(error.hint)
        assert "the next run" not in str(error.hint)
        assert tags(api) == {"v1": first.commit}
        assert {entry.method for entry in list(hub.log)[before:]} == {"GET"}

    def test_a_tag_at_an_earlier_commit_of_the_same_result_stays(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        first = published(api, staging())
        later = edit(api, "notes.txt", b"1")
        same = ensure_tag(api, target, "v1", later, same_result=lambda s: already_published(s, "key 1"))
        assert not same
        assert tags(api) == {"v1": first.commit}
        error = error_of(
            lambda: ensure_tag(api, target, "v1", later, same_result=lambda s: already_published(s, "2"))
        )
        assert error.kind == "tag_taken"

    @pytest.mark.parametrize("action", ["drop_response", "truncate", "corrupt"])
    def test_a_lost_answer_is_looked_after(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, action: Any
    ) -> None:
        done = publish(api, target, staging(), MESSAGE)
        hub.fault(TAGS, action)
        assert ensure_tag(api, target, "v1", done.commit)
        assert tags(api) == {"v1": done.commit}
        assert len(hub.requests(TAGS)) == 1

    def test_a_lost_answer_and_somebody_elses_tag(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = publish(api, target, staging(), MESSAGE)
        other = edit(api, "notes.txt", b"1")
        create = HfApi.create_tag

        def faster(self: HfApi, *args: Any, **options: Any) -> None:
            create(api, target, tag="v1", revision=other)
            create(self, *args, **options)

        monkeypatch.setattr(HfApi, "create_tag", faster)
        error = error_of(lambda: ensure_tag(api, target, "v1", done.commit))
        assert (error.kind, error.details["tagged"]) == ("tag_taken", other)
        assert tags(api) == {"v1": other}

    @pytest.mark.parametrize("fault", [{"action": "status", "status": 503}, {"action": "reset"}])
    def test_what_passes_is_waited_for(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, fault: dict[str, Any]
    ) -> None:
        done = publish(api, target, staging(), MESSAGE)
        hub.fault(TAGS, **fault)
        assert ensure_tag(api, target, "v1", done.commit)
        assert tags(api) == {"v1": done.commit}

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ({"action": "status", "status": 500}, "server_error"),
            ({"action": "status", "status": 429}, "rate_limited"),
            ({"action": "status", "status": 401, "body": "Invalid credentials"}, "unauthorized"),
            ({"action": "status", "status": 403}, "forbidden"),
            ({"action": "status", "status": 409}, "conflict"),
            ({"action": "status", "status": 400}, "refused"),
            ({"action": "reset"}, "connection_lost"),
        ],
    )
    @pytest.mark.parametrize("request_", [TAGS, REFS])
    def test_what_stands_is_told_where_the_tag_is_not_set(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, request_: str, fault: dict[str, Any],
        kind: str,
    ) -> None:  # fmt: skip
        done = publish(api, target, staging(), MESSAGE)
        hub.fault(request_, times=None, **fault)
        error = error_of(lambda: ensure_tag(api, target, "v1", done.commit))
        assert error.kind == kind
        assert (error.details["published"], error.details["tag"]) == (done.commit, "v1")
        assert f"published, as commit {done.commit[:12]}, which stands" in error.what
        assert "its tag 'v1' is missing" in error.what
        assert "the next run sets the missing tag" in str(error.hint)
        hub.faults.clear()
        assert not tags(api)
        assert not published(api, staging()).changed
        assert tags(api) == {"v1": done.commit}

    def test_a_token_that_may_only_read_is_named(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        done = publish(api, target, staging(), MESSAGE)
        reader = connect(hub.endpoint, "hf_alice_read")
        error = error_of(lambda: ensure_tag(reader, target, "v1", done.commit))
        assert (error.kind, error.details["published"]) == ("read_only_token", done.commit)

    def test_two_at_once_set_it_once(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = publish(api, target, staging(), MESSAGE)
        both_looked, create, outcome = threading.Barrier(2, timeout=30), HfApi.create_tag, list[bool]()

        def together(self: HfApi, *args: Any, **options: Any) -> None:
            both_looked.wait()
            create(self, *args, **options)

        def run() -> None:
            outcome.append(ensure_tag(connect(hub.endpoint, "hf_alice_write"), target, "v1", done.commit))

        monkeypatch.setattr(HfApi, "create_tag", together)
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcome) == [False, True]
        assert tags(api) == {"v1": done.commit}


class TestCheck:
    def test_a_free_tag_may_be_taken(self, api: HfApi, target: str) -> None:
        check_tag(api, target, "v1", None)
        assert find_tag(api, target, "v1") is None

    def test_a_repo_to_come_has_none(self, api: HfApi) -> None:
        check_tag(api, "alice/none", "v1", None)
        assert find_tag(api, "alice/none", "v1") is None

    def test_a_tag_may_be_where_it_is_expected(self, api: HfApi, target: str, staging: Stage) -> None:
        done = published(api, staging())
        assert find_tag(api, target, "v1") == done.commit
        check_tag(api, target, "v1", done.commit)
        check_tag(api, target, "v1", None, same_result=lambda state: already_published(state, "key 1"))
        check_tag(api, target, "v2", None)

    @pytest.mark.parametrize("expected", [None, "e" * 40])
    def test_a_tag_elsewhere_is_taken(
        self, api: HfApi, target: str, staging: Stage, expected: str | None
    ) -> None:
        done = published(api, staging())
        error = error_of(lambda: check_tag(api, target, "v1", expected))
        assert (error.kind, error.details["tagged"]) == ("tag_taken", done.commit)
        assert done.commit[:12] in error.what
        assert "published" not in error.details

    def test_a_look_that_fails_is_no_free_tag(self, hub: LocalHub, api: HfApi, target: str) -> None:
        hub.fault(REFS, "status", status=500, times=None)
        assert error_of(lambda: check_tag(api, target, "v1", None)).kind == "server_error"


class TestPublishing:
    def test_a_taken_tag_costs_no_commit(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        first = published(api, staging())
        before = len(hub.log)
        error = error_of(lambda: published(api, staging(LIGHT, key="key 2")))
        assert (error.kind, "published" in error.details) == ("tag_taken", False)
        assert {entry.method for entry in list(hub.log)[before:]} == {"GET"}
        assert head_of(api) == first.commit

    def test_a_tag_taken_in_the_last_moment_is_not_moved(
        self, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def sent(*args: Any) -> str | None:
            api.create_tag(target, tag="v1", revision=initial)
            return send(*args)

        send, initial = commit._send, head_of(api)
        monkeypatch.setattr(commit, "_send", sent)
        error = error_of(lambda: published(api, staging()))
        assert (error.kind, error.details["published"]) == ("tag_taken", head_of(api))
        assert tags(api) == {"v1": initial}

    def test_the_next_result_gets_the_next_tag(self, api: HfApi, target: str, staging: Stage) -> None:
        first = published(api, staging(), "v1")
        second = published(api, staging(LIGHT, key="key 2"), "v2")
        assert tags(api) == {"v1": first.commit, "v2": second.commit}

    def test_a_result_that_comes_back_keeps_its_tag(self, api: HfApi, target: str, staging: Stage) -> None:
        first = published(api, staging(), "v1")
        published(api, staging(LIGHT, key="key 2"), "v2")
        back = published(api, staging(), "v1")
        assert back.changed
        assert tags(api)["v1"] == first.commit

    def test_a_commit_of_others_on_top_is_no_reason_to_fail(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        first = published(api, staging())
        edit(api, "notes.txt", b"1")
        assert not published(api, staging()).changed
        assert tags(api) == {"v1": first.commit}

    def test_a_missing_tag_is_set_at_the_head_that_holds_our_files(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(), MESSAGE)
        head = edit(api, "notes.txt", b"1")
        state = read_target(api, target)
        assert already_published(state, "key 1")
        assert ensure_tag(api, target, "v1", str(state.head))
        assert tags(api) == {"v1": head}

    def test_what_was_published_is_tagged_and_not_what_came_after(
        self, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def check_and_edit(*args: Any) -> None:
            check(*args)
            edit(api, "notes.txt", b"1")

        check = commit.check_published
        monkeypatch.setattr(commit, "check_published", check_and_edit)
        done = published(api, staging())
        assert done.commit != head_of(api)
        assert tags(api) == {"v1": done.commit}

    def test_a_lost_commit_is_tagged_too(
        self, hub: LocalHub, api: HfApi, target: str, staging: Stage
    ) -> None:
        hub.fault(COMMITS, "drop_response")
        done = published(api, staging())
        assert done.changed
        assert tags(api) == {"v1": done.commit}


def test_every_error_is_one_of_ours(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    done = publish(api, target, staging(), MESSAGE)
    for body in ({"branches": 5}, {"tags": [{}]}, []):
        hub.fault(REFS, "status", status=200, body=body if isinstance(body, dict) else "[]", times=None)
        with pytest.raises(HubError) as caught:
            ensure_tag(api, target, "v1", done.commit)
        assert caught.value.details["published"] == done.commit
        hub.faults.clear()
