from __future__ import annotations

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.community import DiscussionComment, DiscussionCommit, DiscussionStatusChange
from huggingface_hub.errors import HfHubHTTPError

from hubpublish.localhub import LocalHub

from .conftest import Filled


def propose(api: HfApi, repo_id: str, path: str, content: bytes, **options: object) -> int:
    operations = [CommitOperationAdd(path, content)]
    options = {"create_pr": True, "commit_message": "title", "commit_description": "why", **options}
    return api.create_commit(repo_id, operations, **options).pr_num


def test_a_pull_request_from_a_commit(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    info = api.create_commit(
        filled.id, [CommitOperationAdd("pr.txt", b"hi\n")], commit_message="title", create_pr=True
    )
    assert (info.pr_revision, info.pr_num) == ("refs/pr/1", 1)
    assert info.pr_url == f"{hub.endpoint}/{filled.id}/discussions/1"
    [listed] = api.get_repo_discussions(filled.id, discussion_type="pull_request", discussion_status="open")
    assert (listed.num, listed.title, listed.author, listed.status) == (1, "title", "alice", "open")
    details = api.get_discussion_details(filled.id, 1)
    assert "+hi" in details.diff
    assert (details.conflicting_files, details.target_branch) == ([], "refs/heads/main")
    assert api.model_info(filled.id).sha == filled.commit
    assert "pr.txt" in api.list_repo_files(filled.id, revision="refs/pr/1")


def test_update_and_merge(api: HfApi, filled: Filled, download) -> None:
    number = propose(api, filled.id, "pr.txt", b"hi")
    more = [CommitOperationAdd("more.txt", b"more"), CommitOperationDelete("config.json")]
    api.create_commit(filled.id, more, commit_message="more", revision="refs/pr/1")
    api.upload_file(path_or_fileobj=b"meanwhile", path_in_repo="main.txt", repo_id=filled.id)
    api.merge_pull_request(filled.id, number, comment="thanks")
    files = set(api.list_repo_files(filled.id))
    assert {"pr.txt", "more.txt", "main.txt"} <= files
    assert "config.json" not in files
    details = api.get_discussion_details(filled.id, number)
    assert (details.status, details.merge_commit_oid) == ("merged", api.model_info(filled.id).sha)
    assert [type(event) for event in details.events] == [
        DiscussionComment,
        DiscussionCommit,
        DiscussionCommit,
        DiscussionStatusChange,
        DiscussionComment,
    ]
    with pytest.raises(HfHubHTTPError) as again:
        api.merge_pull_request(filled.id, number)
    assert again.value.response.status_code == 409


def test_conflicts(api: HfApi, filled: Filled) -> None:
    number = propose(api, filled.id, "config.json", b"theirs")
    api.upload_file(path_or_fileobj=b"ours", path_in_repo="config.json", repo_id=filled.id)
    assert api.get_discussion_details(filled.id, number).conflicting_files == ["config.json"]
    head = api.model_info(filled.id).sha
    with pytest.raises(HfHubHTTPError) as refused:
        api.merge_pull_request(filled.id, number)
    assert refused.value.response.status_code == 409
    assert api.model_info(filled.id).sha == head
    api.upload_file(path_or_fileobj=b"theirs", path_in_repo="config.json", repo_id=filled.id)
    assert api.get_discussion_details(filled.id, number).conflicting_files == []


def test_a_pull_request_starts_from_the_parent_it_names(api: HfApi, filled: Filled) -> None:
    api.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=filled.id)
    propose(api, filled.id, "y", b"y", parent_commit=filled.commit)
    assert api.list_repo_commits(filled.id, revision="refs/pr/1")[1].commit_id == filled.commit


def test_the_parent_lock_holds_for_pull_requests(api: HfApi, filled: Filled) -> None:
    propose(api, filled.id, "y", b"y")
    with pytest.raises(HfHubHTTPError) as refused:
        propose(api, filled.id, "z", b"z", create_pr=False, revision="refs/pr/1", parent_commit=filled.commit)
    assert refused.value.response.status_code == 412


def test_comments(api: HfApi, filled: Filled) -> None:
    number = propose(api, filled.id, "x", b"x")
    comment = api.comment_discussion(filled.id, number, "preview <1>")
    edited = api.edit_discussion_comment(filled.id, number, comment.id, "preview 2")
    assert (edited.id, edited.content, edited.edited) == (comment.id, "preview 2", True)
    assert edited.number_of_edits == 1
    assert "&lt;1&gt;" in comment.rendered
    texts = [e.content for e in api.get_discussion_details(filled.id, number).events if e.type == "comment"]
    assert texts == ["why", "preview 2"]
    with pytest.warns(UserWarning, match="irreversible"):
        hidden = api.hide_discussion_comment(filled.id, number, comment.id)
    assert (hidden.hidden, hidden.content) == (True, "")
    with pytest.raises(HfHubHTTPError) as missing:
        api.edit_discussion_comment(filled.id, number, "0" * 24, "x")
    assert missing.value.response.status_code == 404


def test_others_comment_but_do_not_edit(api: HfApi, filled: Filled, as_user) -> None:
    bob, number = as_user("hf_bob_write"), propose(api, filled.id, "x", b"x")
    mine = api.comment_discussion(filled.id, number, "alice's")
    assert bob.comment_discussion(filled.id, number, "bob's").author == "bob"
    for forbidden in (
        lambda: bob.edit_discussion_comment(filled.id, number, mine.id, "bob's"),
        lambda: bob.change_discussion_status(filled.id, number, "closed"),
        lambda: bob.rename_discussion(filled.id, number, "bob's"),
        lambda: bob.merge_pull_request(filled.id, number),
    ):
        with pytest.raises(HfHubHTTPError) as refused:
            forbidden()
        assert refused.value.response.status_code == 403


def test_drafts_titles_and_status(api: HfApi, filled: Filled) -> None:
    draft = api.create_pull_request(filled.id, "draft", description="d")
    assert (draft.status, draft.git_reference) == ("draft", "refs/pr/1")
    assert api.rename_discussion(filled.id, 1, "better").new_title == "better"
    assert api.change_discussion_status(filled.id, 1, "closed", comment="bye").new_status == "closed"
    details = api.get_discussion_details(filled.id, 1)
    assert (details.title, details.status, details.events[-1].content) == ("better", "closed", "bye")
    with pytest.raises(HfHubHTTPError):
        api.merge_pull_request(filled.id, 1)
    assert api.change_discussion_status(filled.id, 1, "open").new_status == "open"


def test_list(api: HfApi, filled: Filled, as_user) -> None:
    api.create_discussion(filled.id, "talk")
    as_user("hf_bob_write").create_pull_request(filled.id, "draft")
    api.create_discussion(filled.id, "done")
    api.change_discussion_status(filled.id, 3, "closed")

    def numbers(**options: str) -> list[int]:
        return [found.num for found in api.get_repo_discussions(filled.id, **options)]

    assert numbers() == [3, 2, 1]
    assert numbers(discussion_type="discussion") == [3, 1]
    assert numbers(discussion_type="pull_request", discussion_status="open") == [2]
    assert numbers(discussion_status="closed") == [3]
    assert numbers(author="bob") == [2]


def test_list_in_pages(api: HfApi, hub: LocalHub, filled: Filled) -> None:
    repo = hub.state.registry.get("model", filled.id)
    assert repo
    for number in range(51):
        repo.discussions.open("alice", str(number), "")
    assert [found.num for found in api.get_repo_discussions(filled.id)] == list(range(51, 0, -1))


def test_what_is_not_there(api: HfApi, filled: Filled) -> None:
    with pytest.raises(HfHubHTTPError) as missing:
        api.get_discussion_details(filled.id, 1)
    assert missing.value.response.status_code == 404


def test_a_target_that_was_squashed_conflicts(api: HfApi, filled: Filled) -> None:
    number = propose(api, filled.id, "x.txt", b"x")
    api.super_squash_history(filled.id)
    details = api.get_discussion_details(filled.id, number)
    assert details.conflicting_files == ["x.txt"]
    assert "+x" in details.diff
