"""Which repos there are: found on disk at the start, created, renamed, deleted."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import threading
from pathlib import Path

from hubpublish.localhub.files import write_text_atomically
from hubpublish.localhub.protocol import HubHTTPError
from hubpublish.localhub.repo import Repo

KINDS = ("model", "dataset", "space", "kernel")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")


def check_repo_id(repo_id: str) -> None:
    """Hold an id to the Hub's rules, which also keep it a plain path of two folders.

    Raises:
        HubHTTPError: 400 when it is no ``namespace/name`` of the Hub.
    """
    parts = repo_id.split("/")
    plain = len(parts) == 2 and all(_NAME.fullmatch(part) for part in parts) and len(parts[-1]) <= 96
    if not plain or ".." in repo_id or "--" in repo_id or repo_id.endswith((".git", ".ipynb")):
        raise HubHTTPError(400, f"Invalid repo id: {repo_id!r}")


class Registry:
    """The repos below ``root``, by kind and id; and where repos that were renamed went."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._moved_path = root / "moved.json"
        self._repos = {(repo.kind, repo.id): repo for repo in self._found()}
        self._moved: dict[str, str] = {}
        if self._moved_path.exists():
            self._moved = json.loads(self._moved_path.read_text(encoding="utf-8"))

    def _found(self) -> list[Repo]:
        return [
            Repo(meta.parent, kind, f"{meta.parent.parent.name}/{meta.parent.name}")
            for kind in KINDS
            for meta in sorted((self._root / f"{kind}s").glob("*/*/meta.json"))
        ]

    def get(self, kind: str, repo_id: str) -> Repo | None:
        return self._repos.get((kind, repo_id))

    def moved_to(self, kind: str, repo_id: str) -> str | None:
        """The id that a renamed repo has now."""
        return self._moved.get(f"{kind}/{repo_id}")

    def all(self, kind: str) -> list[Repo]:
        return [repo for (its_kind, _), repo in sorted(self._repos.items()) if its_kind == kind]

    def create(self, kind: str, repo_id: str, user: str, *, private: bool) -> Repo:
        """Make a repo.

        Raises:
            HubHTTPError: 400 for an id that cannot be, 409 when there is one of that id.
        """
        check_repo_id(repo_id)
        with self._lock, tempfile.TemporaryDirectory(prefix="new-", dir=self._root) as temporary:
            self._refuse_taken(kind, repo_id)
            Repo.create(Path(temporary, "repo"), user, private=private)
            folder = self._folder(kind, repo_id)
            folder.parent.mkdir(parents=True, exist_ok=True)
            Path(temporary, "repo").rename(folder)
            repo = self._repos[kind, repo_id] = Repo(folder, kind, repo_id)
            self._forget_move(kind, repo_id)
            return repo

    def rename(self, repo: Repo, new_id: str) -> None:
        """Give a repo another id; the old one leads to it from now on.

        Raises:
            HubHTTPError: 400 for an id that cannot be, 409 when there is one of that id.
        """
        check_repo_id(new_id)
        with self._lock, repo.lock:
            self._refuse_taken(repo.kind, new_id)
            folder = self._folder(repo.kind, new_id)
            folder.parent.mkdir(parents=True, exist_ok=True)
            repo.folder.rename(folder)
            del self._repos[repo.kind, repo.id]
            self._repos[repo.kind, new_id] = Repo(folder, repo.kind, new_id)
            self._forget_move(repo.kind, new_id)
            prefix = f"{repo.kind}/"
            chain = [old for old, new in self._moved.items() if old.startswith(prefix) and new == repo.id]
            self._moved |= dict.fromkeys([*chain, prefix + repo.id], new_id)
            self._save_moved()

    def delete(self, repo: Repo) -> None:
        with self._lock, repo.lock:
            del self._repos[repo.kind, repo.id]
            shutil.rmtree(repo.folder)

    def _refuse_taken(self, kind: str, repo_id: str) -> None:
        # Some file systems take names that differ in case only for the same.
        taken = {existing.casefold() for its_kind, existing in self._repos if its_kind == kind}
        if repo_id.casefold() in taken:
            raise HubHTTPError(409, f"You already created this {kind} repo: {repo_id}")

    def _folder(self, kind: str, repo_id: str) -> Path:
        return self._root / f"{kind}s" / repo_id

    def _forget_move(self, kind: str, repo_id: str) -> None:
        if self._moved.pop(f"{kind}/{repo_id}", None) is not None:
            self._save_moved()

    def _save_moved(self) -> None:
        write_text_atomically(self._moved_path, json.dumps(self._moved, indent=1))
