"""What a target held before: its commits, newest first, as the publications that they are.

Read lazily, a page of commits and a manifest at a time, and no further back than `LIMIT` commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from urllib.parse import quote

from huggingface_hub import HfApi
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import get_session, hf_raise_for_status, parse_datetime

from hubpublish.errors import HubError
from hubpublish.hub import ListedFile, request_headers, retried, translated
from hubpublish.layout import MANIFEST
from hubpublish.publish.manifest import Manifest, parse_manifest
from hubpublish.publish.target import TargetState, read_file, read_target

LIMIT = 500  # commits; each costs a request
_SHORTENED = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Commit:
    """A commit of the target's history."""

    id: str
    date: datetime


@dataclass(frozen=True)
class Stretch:
    """Commits in a row, newest first, with the same manifest of ours: one publication, and edits since."""

    manifest: Manifest
    commits: tuple[Commit, ...]


@dataclass(frozen=True)
class PublishedState:
    """The first commit of a stretch at which every file is as its manifest says."""

    commit: Commit
    target: TargetState
    manifest: Manifest


def stretches(api: HfApi, repo: str, head: str) -> Iterator[Stretch]:
    """The publications that lead to a commit, newest first; commits without a manifest of ours are none.

    Raises:
        HubError: No access, no network, at whichever step it happens.
    """
    blob: str | None = None
    manifest: Manifest | None = None
    commits: list[Commit] = []
    for commit in islice(_history(api, repo, head), LIMIT):
        listed = _listed_manifest(api, repo, commit)
        found = None if listed is None else listed.sha256 or listed.git_oid
        if found != blob:
            if manifest is not None:
                yield Stretch(manifest, tuple(commits))
            blob, manifest, commits = found, _manifest_at(api, repo, commit, listed), []
        commits.append(commit)
    if manifest is not None:
        yield Stretch(manifest, tuple(commits))


def state_of(api: HfApi, repo: str, stretch: Stretch) -> PublishedState | None:
    """The published state of a stretch; None if its files never were what the manifest says.

    Raises:
        HubError: No access, no network.
    """
    for commit in reversed(stretch.commits):
        target = read_target(api, repo, revision=commit.id)
        if target.manifest is not None and not target.edited():
            return PublishedState(commit, target, target.manifest)
    return None


def first_commit(api: HfApi, state: TargetState) -> str:
    """The commit that published what a target holds; its head may hold more of other people's.

    Raises:
        HubError: No access, no network.
    """
    head = str(state.head)
    newest = next(stretches(api, state.repo, head), None)
    found = state_of(api, state.repo, newest) if newest is not None else None
    return head if found is None else found.commit.id


def published_states(api: HfApi, repo: str, head: str) -> Iterator[PublishedState]:
    """Every published state that leads to a commit, newest first.

    Raises:
        HubError: No access, no network, at whichever step it happens.
    """
    for stretch in stretches(api, repo, head):
        found = state_of(api, repo, stretch)
        if found is not None:
            yield found


def find_commit(api: HfApi, repo: str, head: str, revision: str) -> str | None:
    """The commit that a tag or branch points to, or of that id, which may be shortened.

    A commit must be one that led to ``head``: anybody can put others into a repo, by a pull request.

    Raises:
        HubError: No access, no network.
    """
    with translated(HubError, "list tags and branches", repo=repo):
        refs = retried(lambda: api.list_repo_refs(repo))
    for ref in (*refs.tags, *refs.branches):
        if revision in (ref.name, ref.ref):
            return ref.target_commit
    if not _SHORTENED.fullmatch(revision):
        return None
    commits = islice(_history(api, repo, head), LIMIT)
    return next((commit.id for commit in commits if commit.id.startswith(revision)), None)


def _history(api: HfApi, repo: str, head: str) -> Iterator[Commit]:
    """The commits that lead to one, itself first; the client itself would read all pages at once."""
    url: str | None = f"{api.endpoint}/api/models/{repo}/commits/{quote(head, safe='')}"
    while url is not None:
        page, url = _page(api, repo, url)
        yield from page


def _page(api: HfApi, repo: str, url: str) -> tuple[list[Commit], str | None]:
    def ask() -> tuple[list[Commit], str | None]:
        response = get_session().get(url, headers=request_headers(api))
        hf_raise_for_status(response)
        rows = response.json()
        try:
            commits = [Commit(str(row["id"]), parse_datetime(row["date"])) for row in rows]
        except (KeyError, TypeError):
            raise ValueError("Malformed response: no list of commits") from None
        return commits, response.links.get("next", {}).get("url")

    with translated(HubError, "read the history", repo=repo):
        return retried(ask)


def _listed_manifest(api: HfApi, repo: str, commit: Commit) -> ListedFile | None:
    with translated(HubError, f"read the history at commit {commit.id[:12]}", repo=repo):
        rows = retried(lambda: api.get_paths_info(repo, [MANIFEST], revision=commit.id))
    for row in rows:
        if isinstance(row, RepoFile) and row.path == MANIFEST:
            return ListedFile(
                MANIFEST, row.size, row.lfs.sha256 if row.lfs else None, None if row.lfs else row.blob_id
            )
    return None


def _manifest_at(api: HfApi, repo: str, commit: Commit, listed: ListedFile | None) -> Manifest | None:
    if listed is None:
        return None
    state = TargetState(repo, commit.id, exists=True, head=commit.id, files={MANIFEST: listed})
    return parse_manifest(read_file(api, state, MANIFEST) or b"")
