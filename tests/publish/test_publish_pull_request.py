from huggingface_hub import HfApi

from hubpublish.hub import connect
from hubpublish.layout import MANIFEST
from hubpublish.localhub import LocalHub
from hubpublish.publish import (
    Message,
    Published,
    StagedFile,
    ensure_target,
    publish,
)
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


def as_pr(api: HfApi, files: list[StagedFile]) -> Published:
    return publish(api, REPO, files, MESSAGE, as_pr=True)


def text_of(api: HfApi, number: int) -> str:
    return api.get_discussion_details(REPO, number).events[0].content


def test_a_pull_request_is_opened_and_main_left_alone(api: HfApi, target: str, staging: Stage) -> None:
    done = as_pr(api, staging())
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/1"
    assert commits(api) == ["initial commit"]
    assert content(api, "README.md", "refs/pr/1") == CARD
    assert api.get_discussion_details(REPO, 1).title == "Publish"
    assert "Made with care." in text_of(api, 1)


def test_the_same_again_makes_no_commit_and_no_other_request(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    first = as_pr(api, staging())
    before = len(hub.log)
    again = as_pr(api, staging())
    assert not again.changed
    assert (again.pull_request, again.commit) == (first.pull_request, first.commit)
    assert {entry.method for entry in hub.log[before:]} == {"GET"}


def test_the_open_request_is_updated(api: HfApi, target: str, staging: Stage) -> None:
    as_pr(api, staging())
    files = {**FILES, "README.md": CARD + b"new", "more.txt": b"1"}
    done = publish(api, REPO, staging(files), Message("Publish more", "Better."), as_pr=True)
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/1"
    assert content(api, "README.md", "refs/pr/1") == CARD + b"new"
    assert commits(api, "refs/pr/1")[:2] == ["Publish more", "Publish"]
    assert "Better." in text_of(api, 1)
    assert "Made with care." not in text_of(api, 1)


def test_after_a_merge_or_a_close_a_new_one_is_opened(api: HfApi, target: str, staging: Stage) -> None:
    as_pr(api, staging())
    api.merge_pull_request(REPO, 1)
    assert not as_pr(api, staging()).changed
    assert as_pr(api, staging({**FILES, "more.txt": b"1"})).pull_request == (
        f"{api.endpoint}/{REPO}/discussions/2"
    )
    api.change_discussion_status(REPO, 2, "closed")
    assert as_pr(api, staging({**FILES, "more.txt": b"2"})).pull_request == (
        f"{api.endpoint}/{REPO}/discussions/3"
    )


def test_the_requests_of_others_are_left_alone(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    bob = connect(hub.endpoint, "hf_bob_write")
    marked = as_pr(api, staging())
    text = text_of(api, 1)
    api.change_discussion_status(REPO, 1, "closed")
    edit(bob, "b.txt", b"1", create_pr=True, commit_description=text)  # the marker is no secret
    edit(api, "c.txt", b"1", create_pr=True)  # by hand, with the same account
    done = as_pr(api, staging())
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/4"
    assert marked.pull_request != done.pull_request
    assert content(api, MANIFEST, "refs/pr/2") is None


def test_a_request_explains_what_it_would_replace(api: HfApi, target: str, staging: Stage) -> None:
    publish(api, target, staging(), MESSAGE)
    edit(api, "README.md", b"# By hand\n")
    head = edit(api, "more.txt", b"by hand")
    files = {**FILES, "README.md": CARD + b"new", "more.txt": b"ours"}
    as_pr(api, staging(files))
    assert "- `README.md`: edited since" in text_of(api, 1)
    assert "- `more.txt`: not published by hubpublish" in text_of(api, 1)
    assert api.model_info(target).sha == head
    assert content(api, "README.md", "refs/pr/1") == CARD + b"new"


def test_a_request_that_was_opened_before_explains_it_too(api: HfApi, target: str, staging: Stage) -> None:
    edit(api, "more.txt", b"by hand")
    as_pr(api, staging())
    assert "more.txt" not in text_of(api, 1)
    as_pr(api, staging({**FILES, "more.txt": b"ours"}))
    assert "- `more.txt`: not published by hubpublish" in text_of(api, 1)
    assert content(api, "more.txt", "refs/pr/1") == b"ours"


def test_an_edit_on_main_after_the_request_is_explained_without_a_commit(
    api: HfApi, target: str, staging: Stage
) -> None:
    publish(api, target, staging(), MESSAGE)
    files = staging({**FILES, "README.md": CARD + b"new"})
    first = as_pr(api, files)
    edit(api, "README.md", b"# By hand\n")
    again = as_pr(api, files)
    assert (again.changed, again.commit) == (False, first.commit)
    assert "- `README.md`: edited since" in text_of(api, 1)


def test_commits_of_others_on_our_request_are_not_overwritten(
    api: HfApi, target: str, staging: Stage
) -> None:
    as_pr(api, staging())
    edit(api, "README.md", b"# Improved\n", revision="refs/pr/1")
    error = error_of(lambda: as_pr(api, staging({**FILES, "README.md": CARD + b"new"})))
    assert error.kind == "target_edited"
    assert error.where == f"{api.endpoint}/{REPO}/discussions/1"
    assert content(api, "README.md", "refs/pr/1") == b"# Improved\n"


def test_the_answer_to_a_new_request_is_lost(hub: LocalHub, api: HfApi, target: str, staging: Stage) -> None:
    hub.fault(COMMITS, "drop_response")
    done = as_pr(api, staging())
    assert done.pull_request == f"{api.endpoint}/{REPO}/discussions/1"
    assert len(list(api.get_repo_discussions(REPO))) == 1


def test_a_request_by_somebody_without_write_access(
    hub: LocalHub, api: HfApi, target: str, staging: Stage
) -> None:
    bob = connect(hub.endpoint, "hf_bob_write")
    ensure_target(bob, target, as_pr=True)
    assert as_pr(bob, staging()).changed
    assert not as_pr(bob, staging()).changed
    assert as_pr(bob, staging({**FILES, "more.txt": b"1"})).changed
    assert commits(api) == ["initial commit"]
