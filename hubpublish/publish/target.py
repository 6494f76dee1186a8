"""What the target repo holds at one commit, and which of it is ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import httpx2
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from huggingface_hub.utils import get_session, hf_raise_for_status

from hubpublish.errors import HubError
from hubpublish.hub import ListedFile, git_oid_of, listed_files, request_headers, retried, translated
from hubpublish.layout import CARD, MANIFEST, REPORT, SIGNATURE
from hubpublish.publish import free_text
from hubpublish.publish.manifest import Manifest, parse_manifest

LARGEST_READ = 64 * 2**20  # bytes of a file that is read into memory; no text of a publication is that long


@dataclass(frozen=True)
class TargetState:
    """The target at one commit. ``head`` is None when the repo does not exist or has no commit.

    Of ``files`` outside of LFS the SHA-256 is None until somebody reads them. ``card`` is the model
    card where people may write in it and it is not as it was published.
    """

    repo: str
    revision: str
    exists: bool
    head: str | None
    files: Mapping[str, ListedFile] = field(default_factory=dict)
    manifest: Manifest | None = None
    report: object | None = None
    card: bytes | None = None

    def is_ours(self, path: str) -> bool:
        """Whether we published this path, changed since or not."""
        if self.manifest is None:
            return False
        return path == MANIFEST or path in self.manifest.files

    def edited(self) -> dict[str, str]:
        """Our files that are not as we left them: path to what happened, in words.

        What people wrote where the card invites them to is no edit.
        """
        if self.manifest is None:
            return {}
        found = {}
        for path, sha256 in self.manifest.files.items():
            if path not in self.files:
                found[path] = "deleted since"
            elif self.files[path].sha256 != sha256 and (why := self._why_edited(path)):
                found[path] = why
        return found

    def _why_edited(self, path: str) -> str | None:
        known = self.manifest.free_text if self.manifest and path == CARD else None
        return "edited since" if known is None else free_text.why_edited(self.card, known)


def already_published(state: TargetState, key: str) -> bool:
    """Whether the target is the publication with this key, and nobody has touched its files.

    One that was rolled back is none, though a merge may have brought its files back.
    """
    return (
        state.manifest is not None
        and state.manifest.key == key
        and not withdrawn(state, key)
        and not state.edited()
    )


def is_signed(state: TargetState) -> bool:
    """Whether what was published came with a signature."""
    return state.is_ours(SIGNATURE)


def withdrawn(state: TargetState, *keys: str) -> bool:
    """Whether a publication with one of these keys was rolled back."""
    return state.manifest is not None and not set(keys).isdisjoint(state.manifest.withdrawn)


def read_target(api: HfApi, repo: str, *, revision: str = "main") -> TargetState:
    """Read a target once: its head, all files with hashes, its manifest and report. Nothing is written.

    Raises:
        HubError: No access, no network, no such revision. A repo that does not exist is a state.
    """
    with translated(HubError, "read the files", repo=repo):
        try:
            info = retried(lambda: api.model_info(repo, revision=revision, files_metadata=True))
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            return TargetState(repo, revision, exists=False, head=None)
    state = TargetState(repo, revision, exists=True, head=info.sha, files=listed_files(info))
    content = read_file(api, state, MANIFEST)
    if content is None or (manifest := parse_manifest(content)) is None:
        return state
    state = _with_card(api, replace(state, manifest=manifest, files=_known(state.files, manifest)))
    return replace(with_hashes(api, state, manifest.files), report=_report(api, state))


def read_file(api: HfApi, state: TargetState, path: str) -> bytes | None:
    """The content of one of the target's small files at the state's commit; None if it has none.

    The bytes are checked against the hash that the Hub lists, and asked for again if they differ.
    """
    listed = state.files.get(path)
    if listed is None or state.head is None:
        return None
    if listed.size > LARGEST_READ:
        raise HubError(
            f"{path} of {state.repo} has {listed.size:,} bytes, which is no file of hubpublish's",
            where=f"{api.endpoint}/{state.repo}/blob/{state.head}/{path}",
            hint="look what it is; hubpublish publishes to repos of its own",
            kind="too_large",
        )
    url = hf_hub_url(state.repo, path, revision=state.head, endpoint=api.endpoint)

    def download() -> bytes:
        response: httpx2.Response = get_session().get(url, headers=request_headers(api))
        hf_raise_for_status(response)
        return response.content

    with translated(HubError, f"read {path}", repo=state.repo):
        for _ in range(2):
            content = retried(download)
            if _matches(listed, content):
                return content
    raise HubError(
        f"{path} of {state.repo} arrived corrupt twice",
        where=url,
        hint="run again later; something on the way changes files",
        kind="corrupt_download",
    )


def read_card(api: HfApi, state: TargetState) -> bytes | None:
    """The target's model card; None if it has none, or one too large for free text in it to be kept."""
    listed = state.files.get(CARD)
    if state.card is not None or listed is None or listed.size > free_text.LARGEST:
        return state.card
    return read_file(api, state, CARD)


def with_hashes(api: HfApi, state: TargetState, paths: Collection[str]) -> TargetState:
    """The state with the SHA-256 of these files known; those outside of LFS are read for it."""
    found = dict(state.files)
    for path in paths:
        if path in found and found[path].sha256 is None:
            content = read_file(api, state, path) or b""
            found[path] = replace(found[path], sha256=hashlib.sha256(content).hexdigest())
    return replace(state, files=found)


def _known(files: Mapping[str, ListedFile], manifest: Manifest) -> dict[str, ListedFile]:
    """Files with the SHA-256 filled in where the git blob id proves that it is the manifest's."""
    return {
        path: replace(file, sha256=manifest.files[path])
        if file.git_oid is not None and path in manifest.files and manifest.git_oids.get(path) == file.git_oid
        else file
        for path, file in files.items()
    }


def _with_card(api: HfApi, state: TargetState) -> TargetState:
    """The state with its card, where people may write in it and it is not as it was published."""
    manifest, listed = state.manifest, state.files.get(CARD)
    if manifest is None or manifest.free_text is None or listed is None:
        return state
    if listed.sha256 == manifest.files.get(CARD) or (card := read_card(api, state)) is None:
        return state
    found = replace(listed, sha256=hashlib.sha256(card).hexdigest())
    return replace(state, card=card, files={**state.files, CARD: found})


def _matches(listed: ListedFile, content: bytes) -> bool:
    if listed.git_oid is not None:
        return git_oid_of(content) == listed.git_oid
    return listed.sha256 is None or hashlib.sha256(content).hexdigest() == listed.sha256


def _report(api: HfApi, state: TargetState) -> object | None:
    if not state.is_ours(REPORT):
        return None
    try:
        found: object = json.loads(read_file(api, state, REPORT) or b"null")
    except (ValueError, RecursionError):
        return None
    return found
