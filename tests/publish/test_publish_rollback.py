import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import HfApi

from hubpublish.layout import MANIFEST
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    RolledBack,
    already_published,
    find_old_state,
    plan_rollback,
    publish,
    read_target,
    roll_back,
    rollback,
    withdrawn,
)
from hubpublish.regions import empty_region
from tests.publish.publishing import (
    CARD,
    COMMITS,
    FILES,
    MESSAGE,
    REPO,
    Stage,
    commits,
    content,
    edit,
    error_of,
)

OLD = FILES
NEW = {
    **{path: data for path, data in FILES.items() if path != "config.json"},
    "README.md": CARD + b"New.\n",
    "onnx/model.onnx": b"\0other weights",
    "onnx/model_fp16.onnx": b"\0half",
    "report.json": b'{"a": 2}',
}


@pytest.fixture
def history(api: HfApi, target: str, staging: Stage) -> list[str]:
    """Two publications, ``key 1`` of OLD and ``key 2`` of NEW; their commits."""
    return [
        publish(api, target, staging(files, key), MESSAGE).commit
        for files, key in ((OLD, "key 1"), (NEW, "key 2"))
    ]


def back(api: HfApi, to: str | None = None) -> RolledBack:
    state = read_target(api, REPO)
    return roll_back(api, state, find_old_state(api, state, to))


def files(api: HfApi, revision: str = "main") -> dict[str, bytes | None]:
    paths = set(api.list_repo_files(REPO, revision=revision)) - {".gitattributes", MANIFEST}
    return {path: content(api, path, revision) for path in paths}


def manifest(api: HfApi, revision: str = "main") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content(api, MANIFEST, revision) or b"")
    return found


def withdrawn_runs(api: HfApi) -> list[str]:
    """The keys of the runs that are withdrawn; beside them stand digests of what they published."""
    return [key for key in manifest(api)["withdrawn"] if key.startswith("key ")]


def but_for_rollbacks(api: HfApi) -> dict[str, Any]:
    return {name: value for name, value in manifest(api).items() if name not in ("withdrawn", "restored")}


def before_the_commit(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Have something happen once, between planning a rollback and its commit."""
    pending = [meanwhile]

    def plan_then(*args: Any) -> Any:
        plan = plan_rollback(*args)
        if pending:
            pending.pop()()
        return plan

    monkeypatch.setattr(rollback, "plan_rollback", plan_then)


class TestRoundTrip:
    def test_every_byte_but_the_manifests_is_as_it_was(self, api: HfApi, history: list[str]) -> None:
        assert files(api) == NEW
        done = back(api)
        assert files(api) == OLD
        assert done.commit == api.model_info(REPO).sha
        old = {key: value for key, value in manifest(api, history[0]).items() if key != "withdrawn"}
        assert (but_for_rollbacks(api), manifest(api)["restored"]) == (old, history[0])
        assert withdrawn_runs(api) == ["key 2"]
        assert commits(api) == [
            f"Roll back to the state of {history[0][:12]} (source cccccccccccc)",
            *(["Publish"] * 2),
            "initial commit",
        ]

    def test_nothing_is_uploaded(self, hub: LocalHub, api: HfApi, history: list[str]) -> None:
        before = len(hub.log)
        back(api)
        sent = [f"{entry.method} {entry.path}" for entry in hub.log[before:]]
        assert [each for each in sent if "/commit/main" in each]
        assert not [each for each in sent if "_storage" in each or "/info/lfs/" in each]
        assert not [each for each in sent if "/resolve/" in each and each.endswith(".onnx")]

    def test_the_commit_holds_what_differs_and_nothing_else(
        self, hub: LocalHub, api: HfApi, history: list[str]
    ) -> None:
        edit(api, "notes.txt", b"mine")
        done = back(api)
        assert done.plan
        changes = {entry.path: entry.change for entry in done.plan.changes}
        assert changes == {
            "README.md": "changed",
            "config.json": "added",
            "onnx/model.onnx": "changed",
            "onnx/model_fp16.onnx": "deleted",
            "report.json": "changed",
            MANIFEST: "changed",
        }
        repo = hub.state.registry.get("model", REPO)
        assert repo
        changed = repo.git.run("diff-tree", "-r", "--name-only", "--no-commit-id", done.commit).decode()
        assert set(changed.split()) == set(changes)
        assert content(api, "notes.txt") == b"mine"

    def test_what_was_rolled_back_is_withdrawn_and_what_came_back_is_published(
        self, api: HfApi, history: list[str]
    ) -> None:
        assert not withdrawn(read_target(api, REPO), "key 2")
        back(api)
        state = read_target(api, REPO)
        assert withdrawn(state, "key 2")
        assert not withdrawn(state, "key 1")
        assert already_published(state, "key 1")
        assert not withdrawn(read_target(api, "alice/none"), "key 1")

    def test_what_the_targets_gitignore_names_comes_back_too(self, api: HfApi, history: list[str]) -> None:
        edit(api, ".gitignore", b"*.json\nonnx/\n")
        back(api)
        assert files(api) == {**OLD, ".gitignore": b"*.json\nonnx/\n"}

    def test_fields_of_a_later_version_stay_in_the_manifest(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(OLD, "key 1"), MESSAGE)
        later = {**manifest(api), "later": {"ä": 1}}
        edit(api, MANIFEST, json.dumps(later).encode())
        publish(api, target, staging(NEW, "key 2"), MESSAGE)
        back(api)
        assert but_for_rollbacks(api) == {key: value for key, value in later.items() if key != "withdrawn"}

    def test_a_manifest_without_git_ids_will_do(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(OLD, "key 1"), MESSAGE)
        bare = {key: value for key, value in manifest(api).items() if key != "git_oids"}
        edit(api, MANIFEST, json.dumps(bare).encode())
        publish(api, target, staging(NEW, "key 2"), MESSAGE)
        back(api)
        assert files(api) == OLD


class TestAgain:
    def test_goes_back_further_and_not_to_and_fro(
        self, api: HfApi, target: str, history: list[str], staging: Stage
    ) -> None:
        publish(api, target, staging({**NEW, "third": b"3"}, "key 3"), MESSAGE)
        back(api)
        assert (files(api), withdrawn_runs(api)) == (NEW, ["key 3"])
        again = find_old_state(api, read_target(api, REPO), None)
        assert again.is_in(read_target(api, REPO))  # a rollback that is repeated changes nothing
        back(api, history[0])
        assert (files(api), set(withdrawn_runs(api))) == (OLD, {"key 3", "key 2"})

    def test_over_several_withdraws_them_all(
        self, api: HfApi, target: str, history: list[str], staging: Stage
    ) -> None:
        publish(api, target, staging({**NEW, "third": b"3"}, "key 3"), MESSAGE)
        api.create_tag(REPO, tag="third")
        back(api, history[0])
        assert files(api) == OLD
        assert withdrawn_runs(api) == ["key 2", "key 3"]
        back(api, "third")
        assert withdrawn_runs(api) == ["key 2", "key 1"]

    def test_a_rollback_can_be_rolled_back(self, api: HfApi, history: list[str]) -> None:
        back(api)
        back(api, history[1])
        assert files(api) == NEW
        assert withdrawn_runs(api) == ["key 1"]

    def test_what_is_there_is_known(self, api: HfApi, history: list[str]) -> None:
        back(api)
        state = read_target(api, REPO)
        assert find_old_state(api, state, history[0]).is_in(state)
        assert not find_old_state(api, state, history[1]).is_in(state)


class TestRevision:
    @pytest.mark.parametrize(
        "form", ["{0}", "{0:.12}", "{0:.7}", "v1", "refs/tags/v1", "old", "refs/heads/old"]
    )
    def test_may_be_a_commit_a_tag_or_a_branch(self, api: HfApi, history: list[str], form: str) -> None:
        api.create_tag(REPO, tag="v1", revision=history[0])
        api.create_branch(REPO, branch="old", revision=history[0])
        back(api, form.format(history[0]))
        assert files(api) == OLD
        assert withdrawn_runs(api) == ["key 2"]

    def test_may_be_a_commit_that_changed_nothing_of_ours(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        publish(api, target, staging(OLD, "key 1"), MESSAGE)
        noted = edit(api, "notes.txt", b"mine")
        publish(api, target, staging(NEW, "key 2"), MESSAGE)
        back(api, noted)
        assert files(api) == {**OLD, "notes.txt": b"mine"}
        assert withdrawn_runs(api) == ["key 2"]

    def test_may_be_a_tag_that_the_history_has_lost(self, api: HfApi, history: list[str]) -> None:
        api.create_tag(REPO, tag="v1", revision=history[0])
        api.super_squash_history(REPO)
        assert error_of(lambda: back(api)).kind == "nothing_to_roll_back"
        assert error_of(lambda: back(api, history[0])).kind == "not_a_published_state"
        back(api, "v1")
        assert (files(api), withdrawn_runs(api)) == (OLD, ["key 2"])

    def test_that_is_none_is_told_with_those_that_are(self, api: HfApi, history: list[str]) -> None:
        first = api.list_repo_commits(REPO)[-1].commit_id
        for revision, why in (
            ("v9", "no tag or branch v9"),
            ("0" * 40, "no tag or branch 000"),
            ("abc", "no tag or branch abc"),
            ("a..b", "no tag or branch"),
            (first, "nothing was published at"),
        ):
            error = error_of(lambda revision=revision: back(api, revision))
            assert error.kind == "not_a_published_state"
            assert why in error.what
            # those that are not there now
            assert [each["commit"] for each in error.details["states"]] == history[:1]  # type: ignore[attr-defined]
            assert f"{history[0][:12]} (2" in str(error.hint)
            assert "source cccccccccccc" in str(error.hint)
        assert files(api) == NEW

    def test_of_edited_files_is_none(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(OLD, "key 1"), MESSAGE)
        edited = edit(api, "config.json", b"[]")
        edit(api, "config.json", OLD["config.json"])
        publish(api, target, staging(NEW, "key 2"), MESSAGE)
        error = error_of(lambda: back(api, edited))
        assert error.kind == "not_a_published_state"
        assert "config.json (edited since)" in error.what
        back(api)  # the one before is where it was first whole
        assert files(api) == OLD

    def test_of_a_pull_request_is_none(
        self, hub: LocalHub, api: HfApi, history: list[str], staging: Stage
    ) -> None:
        """Anybody may open one, with any manifest in it."""
        request = publish(api, REPO, staging({**OLD, "evil": b"!"}, "key 9"), MESSAGE, as_pr=True)
        assert request.pull_request
        for revision in ("refs/pr/1", request.commit, request.commit[:12]):
            assert error_of(lambda revision=revision: back(api, revision)).kind == "not_a_published_state"
        api.merge_pull_request(REPO, 1)
        back(api, history[1])
        back(api, request.commit)  # merged, it is history
        assert content(api, "evil") == b"!"


class TestHistory:
    def test_is_read_page_by_page(
        self, api: HfApi, target: str, staging: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hubpublish.localhub.api.history.COMMITS_PAGE", 2)
        keys = [f"key {number}" for number in range(6)]
        for key in keys:
            publish(api, target, staging({**OLD, "config.json": key.encode()}, key), MESSAGE)
        back(api)
        assert content(api, "config.json") == b"key 4"
        back(api, api.list_repo_commits(REPO)[-2].commit_id)
        assert content(api, "config.json") == b"key 0"
        assert set(withdrawn_runs(api)) == set(keys[1:])

    def test_is_read_only_so_far(
        self, api: HfApi, history: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(3):
            edit(api, "notes.txt", b"%d" % number)
        for module in ("history", "old_state"):
            monkeypatch.setattr(f"hubpublish.publish.{module}.LIMIT", 3)
        error = error_of(lambda: back(api))
        assert error.kind == "nothing_to_roll_back"
        assert "newest 3 commits" in error.what

    def test_of_a_release_in_two_commits_has_the_second_as_its_state(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        """By hand, manifest first: only then were all files what it says."""
        made = {file.path: file.local.read_bytes() for file in staging(OLD, "key 1")}
        edit(api, MANIFEST, made.pop(MANIFEST))
        for path, data in made.items():
            whole = edit(api, path, data)
        publish(api, target, staging(NEW, "key 2"), MESSAGE)
        assert find_old_state(api, read_target(api, REPO), None).commit == whole

    def test_of_what_was_never_whole_is_passed_over(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(OLD, "key 1"), MESSAGE)
        torn = {**manifest(api), "key": "key 2", "files": {"config.json": "0" * 64}, "git_oids": {}}
        edit(api, MANIFEST, json.dumps(torn).encode())
        edit(api, MANIFEST, json.dumps({**torn, "key": "key 3", "files": {}}).encode())
        old = find_old_state(api, read_target(api, REPO), None)
        assert (old.manifest.key, [*filter(lambda key: key.startswith("key"), old.passed)]) == (
            "key 1",
            ["key 3", "key 2"],
        )


class TestRefusals:
    @pytest.mark.parametrize("path", ["README.md", "onnx/model_fp16.onnx", "report.json"])
    def test_an_edited_file_is_not_overwritten(self, api: HfApi, history: list[str], path: str) -> None:
        head = edit(api, path, b"somebody's\0")
        error = error_of(lambda: back(api))
        assert (error.kind, error.details["files"]) == ("target_edited", [path])
        assert path in error.what
        assert "--as-pr" not in str(error.hint)
        assert error_of(lambda: back(api, history[0])).kind == "target_edited"
        assert api.model_info(REPO).sha == head

    def test_an_edit_that_is_what_comes_back_is_no_conflict(self, api: HfApi, history: list[str]) -> None:
        edit(api, "report.json", OLD["report.json"])  # somebody began to roll back by hand
        api.delete_file("onnx/model_fp16.onnx", REPO)
        back(api)
        assert files(api) == OLD

    def test_an_edited_file_is_not_as_it_was_published(self, api: HfApi, history: list[str]) -> None:
        edit(api, "report.json", b"[]")
        error = error_of(lambda: back(api, history[1]))
        assert (error.kind, error.details["files"]) == ("target_edited", ["report.json"])

    def test_a_file_that_is_not_ours_is_not_overwritten(self, api: HfApi, history: list[str]) -> None:
        head = edit(api, "config.json", b"mine now")
        error = error_of(lambda: back(api))
        assert (error.kind, error.details["files"]) == ("target_edited", ["config.json"])
        assert api.model_info(REPO).sha == head

    def test_a_file_that_is_not_ours_but_the_same_is_taken_over(self, api: HfApi, history: list[str]) -> None:
        edit(api, "config.json", OLD["config.json"])
        back(api)
        assert files(api) == OLD

    def test_a_target_of_others_is_none(self, api: HfApi, target: str) -> None:
        assert error_of(lambda: back(api)).kind == "nothing_published"
        edit(api, MANIFEST, b'{"manifest_version": 3}')
        assert error_of(lambda: back(api)).kind == "nothing_published"

    def test_the_first_publication_has_none_before(self, api: HfApi, target: str, staging: Stage) -> None:
        publish(api, target, staging(), MESSAGE)
        error = error_of(lambda: back(api))
        assert error.kind == "nothing_to_roll_back"
        assert "no earlier publication" in error.what

    def test_a_card_that_the_hub_takes_no_more(self, hub: LocalHub, api: HfApi, history: list[str]) -> None:
        refusal = {"errors": [{"message": '"license" must be one of those'}]}
        hub.fault("validate-yaml", "status", times=None, status=400, body=refusal)
        error = error_of(lambda: back(api))
        assert error.kind == "card_invalid"
        assert "--to" in str(error.hint)
        assert api.model_info(REPO).sha == history[1]


class TestFreeText:
    """What people wrote into the card, where it invites them to."""

    def card(self, version: str, words: str | None = "") -> bytes:
        region = empty_region("notes")
        if words:
            region = region.replace("<!-- end", f"{words}\n<!-- end")
        return CARD + f"{version}\n{'' if words is None else region}\n".encode()

    def publish(self, api: HfApi, staging: Stage, version: str, words: str | None = "") -> str:
        card = self.card(version, words)
        return publish(api, REPO, staging({**OLD, "README.md": card}, f"key {version}"), MESSAGE).commit

    def test_stays_in_the_card_that_comes_back(self, api: HfApi, target: str, staging: Stage) -> None:
        self.publish(api, staging, "1")
        self.publish(api, staging, "2")
        edit(api, "README.md", self.card("2", "It is slow here."))
        back(api)
        card = (content(api, "README.md") or b"").decode()
        assert card.startswith(CARD.decode() + "1\n")
        assert "It is slow here." in card
        state = read_target(api, REPO)
        assert not state.edited()
        assert already_published(state, "key 1")
        old = find_old_state(api, state, api.list_repo_commits(REPO)[3].commit_id)
        assert old.is_in(state)
        assert roll_back(api, state, old) == RolledBack(str(state.head), None)

    def test_that_the_old_card_has_no_place_for_is_not_lost(
        self, api: HfApi, target: str, staging: Stage
    ) -> None:
        self.publish(api, staging, "1", None)
        self.publish(api, staging, "2")
        written = edit(api, "README.md", self.card("2", "It is slow here."))
        error = error_of(lambda: back(api))
        assert (error.kind, error.details["files"]) == ("target_edited", ["README.md"])
        assert "notes" in error.what
        assert api.model_info(REPO).sha == written

    def test_of_then_comes_back_with_that_very_commit(self, api: HfApi, target: str, staging: Stage) -> None:
        self.publish(api, staging, "1")
        written = edit(api, "README.md", self.card("1", "It is slow here."))
        edit(api, "README.md", self.card("1"))  # for a card without regions would lose it
        self.publish(api, staging, "2", None)
        back(api, written)
        card = self.card("1", "It is slow here.")
        assert content(api, "README.md") == card
        assert manifest(api)["files"]["README.md"] == hashlib.sha256(card).hexdigest()
        assert not read_target(api, REPO).edited()


class TestRaces:
    def test_a_target_that_moved_meanwhile_is_planned_again(
        self, hub: LocalHub, api: HfApi, history: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before_the_commit(monkeypatch, lambda: edit(api, "notes.txt", b"in between"))
        back(api)
        assert [entry.status for entry in hub.requests(COMMITS)][-3:] == [200, 412, 200]
        assert files(api) == {**OLD, "notes.txt": b"in between"}
        assert commits(api)[1] == "edit notes.txt"

    def test_an_edit_in_between_is_not_overwritten(
        self, api: HfApi, history: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before_the_commit(monkeypatch, lambda: edit(api, "README.md", b"# In between\n"))
        assert error_of(lambda: back(api)).kind == "target_edited"
        assert content(api, "README.md") == b"# In between\n"

    @pytest.mark.parametrize("named", [False, True])
    def test_a_publication_in_between_is_not_undone_unseen(
        self, api: HfApi, history: list[str], staging: Stage, monkeypatch: pytest.MonkeyPatch, named: bool
    ) -> None:
        third = staging({**NEW, "third": b"3"}, "key 3")
        before_the_commit(monkeypatch, lambda: publish(api, REPO, third, MESSAGE))
        error = error_of(lambda: back(api, history[0] if named else None))
        assert error.kind == "conflict"
        assert "published" in error.what
        assert content(api, "third") == b"3"

    def test_the_same_rollback_in_between_is_enough(
        self, api: HfApi, history: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other: list[RolledBack] = []
        before_the_commit(monkeypatch, lambda: other.append(back(api)))
        done = back(api)
        assert done == RolledBack(other[0].commit, None)
        assert len(commits(api)) == 4
        assert withdrawn_runs(api) == ["key 2"]

    def test_a_target_that_never_rests_is_given_up(
        self, hub: LocalHub, api: HfApi, history: list[str]
    ) -> None:
        for status in (409, 412):
            hub.fault(COMMITS, "status", status=status, times=None)
            assert error_of(lambda: back(api)).kind == "conflict"
            hub.faults.clear()
        assert api.model_info(REPO).sha == history[1]

    @pytest.mark.parametrize("fault", ["drop_response", "truncate", "corrupt"])
    def test_a_lost_answer_is_looked_up_and_the_commit_not_sent_again(
        self, hub: LocalHub, api: HfApi, history: list[str], fault: str
    ) -> None:
        before = len(hub.requests(COMMITS))
        hub.fault(COMMITS, fault)
        done = back(api)
        assert done.commit == api.model_info(REPO).sha
        assert len(hub.requests(COMMITS)) == before + 1
        assert files(api) == OLD

    def test_what_is_read_back_is_compared(
        self, api: HfApi, history: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The Hub made something else of our commit: here, the one after it stands for that."""
        send = rollback._send

        def send_and_edit(*args: Any) -> str:
            assert send(*args)
            return edit(api, "onnx/model.onnx", b"\0worse")

        monkeypatch.setattr(rollback, "_send", send_and_edit)
        error = error_of(lambda: back(api))
        assert (error.kind, error.details["files"]) == ("published_differs", ["onnx/model.onnx"])

    def test_a_small_file_that_arrives_corrupt_is_not_sent_on(
        self, hub: LocalHub, api: HfApi, history: list[str]
    ) -> None:
        hub.fault(rf"GET .*/resolve/{history[0]}/README\.md", "corrupt", times=None)
        assert error_of(lambda: back(api)).kind == "corrupt_download"
        assert api.model_info(REPO).sha == history[1]
        hub.faults.clear()
        hub.fault(rf"GET .*/resolve/{history[0]}/README\.md", "corrupt")
        back(api)
        assert files(api) == OLD
