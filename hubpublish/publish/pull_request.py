"""The pull request that we opened before, if it is still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from huggingface_hub import DiscussionComment, HfApi

from hubpublish.errors import HubError
from hubpublish.hub import retried, translated
from hubpublish.publish.access import whoami
from hubpublish.publish.plan import Conflict

MARKER = "<!-- opened by hubpublish -->"  # in the description, which people edit less than the title


@dataclass(frozen=True)
class PullRequest:
    """An open pull request of ours on the Hub."""

    number: int
    url: str
    comment: str
    text: str

    @property
    def revision(self) -> str:
        """The git reference to read from and to commit to."""
        return f"refs/pr/{self.number}"


def find_pull_request(api: HfApi, repo: str) -> PullRequest | None:
    """The newest open pull request that this account opened with hubpublish.

    Both must hold, author and marker: anybody can write the marker, and a person may have opened
    others with the same token.

    Raises:
        HubError: No access, no network.
    """
    author = whoami(api).name
    with translated(HubError, "list the pull requests", repo=repo):
        found = retried(
            lambda: list(
                api.get_repo_discussions(
                    repo, author=author, discussion_type="pull_request", discussion_status="open"
                )
            )
        )
        for discussion in sorted(found, key=lambda each: each.num, reverse=True):
            # Asked again, as a Hub may ignore the filter.
            if discussion.author != author or not discussion.is_pull_request:
                continue
            details = retried(partial(api.get_discussion_details, repo, discussion.num))
            first = next((event for event in details.events if isinstance(event, DiscussionComment)), None)
            if first is not None and MARKER in first.content:
                return PullRequest(details.num, details.url, first.id, first.content)
    return None


def describe(description: str, conflicts: Sequence[Conflict]) -> str:
    """A pull request's text: the description, and which edits of others it would replace."""
    parts = [description.strip()]
    if conflicts:
        parts.append(
            "**Look at these files before merging.** They were changed here by somebody else, and this "
            "pull request would replace that:"
        )
        parts.append("\n".join(f"- `{conflict.path}`: {conflict.why}" for conflict in conflicts))
    return "\n\n".join([*parts, MARKER])


def update_text(api: HfApi, repo: str, request: PullRequest, text: str) -> None:
    """Bring the pull request's text up to date; does nothing if it is."""
    if request.text.strip() == text.strip():
        return
    with translated(HubError, f"update the text of pull request {request.number}", repo=repo):
        retried(lambda: api.edit_discussion_comment(repo, request.number, request.comment, text))
