"""One Hub repo on disk: a git repository, its settings and its discussions.

``<kind>s/<namespace>/<name>/`` holds ``git/``, ``meta.json`` and ``discussions.json``.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from hubpublish.localhub.discussions import Discussions
from hubpublish.localhub.files import write_text_atomically
from hubpublish.localhub.git import NO_OBJECT, Change, Git, RefMovedError, hub_date
from hubpublish.localhub.protocol import HubHTTPError

MAIN = "refs/heads/main"
# What the Hub puts into a new repo, from its documentation's list of file types that it keeps in LFS.
LFS_EXTENSIONS = (
    *("7z", "arrow", "bin", "bz2", "ckpt", "ftz", "gz", "h5", "joblib", "model", "msgpack", "npy", "npz"),
    *("onnx", "ot", "parquet", "pb", "pickle", "pkl", "pt", "pth", "rar", "safetensors", "tar", "tflite"),
    *("tgz", "wasm", "xz", "zip", "zst"),
)
MOVED = "A commit has happened since. Please refresh and try again."
_REVISION = re.compile(r"(?!/)(?:(?!\.\.|//|@\{)[^\x00-\x20~^:?*\[\\\x7f])+")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Meta:
    """What a repo's owner set, and when it was made."""

    created: str
    private: bool = False
    gated: Literal["auto", "manual", False] = False
    granted: tuple[str, ...] = ()


class Repo:
    """A repo of a kind (``model``, ``dataset``, ``space`` or ``kernel``) under an id ``namespace/name``.

    Attributes:
        lock: Held by whoever reads a state and then writes what follows from it.
    """

    def __init__(self, folder: Path, kind: str, repo_id: str) -> None:
        self.folder = folder
        self.kind = kind
        self.id = repo_id
        self.lock = threading.RLock()
        self.git = Git(folder / "git")
        self.discussions = Discussions(folder / "discussions.json", kind, repo_id)
        self.meta = self._read_meta()

    @classmethod
    def create(cls, folder: Path, user: str, *, private: bool) -> None:
        """Make the files of a new repo, with the Hub's first commit in it."""
        git = Git.init(folder / "git")
        attributes = "".join(f"*.{name} filter=lfs diff=lfs merge=lfs -text\n" for name in LFS_EXTENSIONS)
        change = Change({".gitattributes": git.store_bytes(attributes.encode())})
        git.set_ref(MAIN, git.commit([], change, "initial commit\n", user), NO_OBJECT)
        meta = Meta(created=hub_date(datetime.now(UTC)), private=private)
        write_text_atomically(folder / "meta.json", json.dumps(asdict(meta), indent=1))

    @property
    def namespace(self) -> str:
        return self.id.split("/")[0]

    @property
    def web_path(self) -> str:
        """Where a person finds it, without the endpoint: ``/namespace/name``, ``/datasets/...``."""
        return f"/{self.id}" if self.kind == "model" else f"/{self.kind}s/{self.id}"

    def _read_meta(self) -> Meta:
        stored: dict[str, Any] = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        return Meta(**{**stored, "granted": tuple(stored["granted"])})

    def change_meta(self, **changes: Any) -> None:
        """Set some of the settings (fields of `Meta`)."""
        with self.lock:
            self.meta = replace(self.meta, **changes)
            write_text_atomically(self.folder / "meta.json", json.dumps(asdict(self.meta), indent=1))

    def commit_id(self, revision: str) -> str:
        """The commit that a branch, a tag, a ``refs/...`` or a (shortened) commit id stands for.

        Raises:
            HubHTTPError: 404 when there is none.
        """
        for name in _ref_candidates(revision):
            commit = self.git.commit_of(name)
            if commit:
                return commit
        raise revision_not_found(revision)

    def writable_ref(self, revision: str) -> str:
        """The ref that a commit to this revision moves: a branch, or ``refs/pr/N``.

        Raises:
            HubHTTPError: 404 when there is none.
        """
        revision_check(revision)
        ref = revision if revision.startswith("refs/") else f"refs/heads/{revision}"
        if not ref.startswith(("refs/heads/", "refs/pr/")) or not self.git.has_ref(ref):
            raise revision_not_found(revision)
        return ref

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Hold the repo, and turn a ref that moved meanwhile into the Hub's 412."""
        with self.lock:
            try:
                yield
            except RefMovedError as error:
                raise HubHTTPError(412, MOVED) from error


def revision_check(revision: str) -> None:
    """Refuse what git would read as more than a name.

    Raises:
        HubHTTPError: 404; a revision of that name cannot exist.
    """
    if (
        not _REVISION.fullmatch(revision)
        or revision.startswith("-")
        or revision.endswith((".", ".lock", "/"))
    ):
        raise revision_not_found(revision)


def revision_not_found(revision: str) -> HubHTTPError:
    return HubHTTPError(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def entry_not_found(path: str, commit: str | None = None) -> HubHTTPError:
    headers = {"X-Repo-Commit": commit} if commit else {}
    return HubHTTPError(404, f"Entry not found: {path}", "EntryNotFound", headers=headers)


def _ref_candidates(revision: str) -> list[str]:
    revision_check(revision)
    if revision == "HEAD":
        return [MAIN]
    if revision.startswith("refs/"):
        return [revision]
    short = [revision] if _COMMIT.fullmatch(revision) else []
    return [f"refs/heads/{revision}", f"refs/tags/{revision}", *short]
