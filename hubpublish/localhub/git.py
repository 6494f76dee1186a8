"""A bare git repository, through git's own plumbing commands.

Blob ids, pointers, refs, diffs and the compare-and-swap of a branch are git's, so they are what a
real Hub shows. Nothing of the machine's git configuration is read.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hubpublish.localhub.kept import Kept, branch_tip

NO_OBJECT = "0" * 40
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_POINTER_SIZES = range(100, 200)


class GitError(Exception):
    """A git command failed that should not have."""


class RefMovedError(Exception):
    """A ref no longer is where the writer believed it to be."""


@dataclass(frozen=True)
class LfsPointer:
    """What an LFS pointer blob points to: SHA-256 and size in bytes of the content."""

    oid: str
    size: int


@dataclass(frozen=True)
class FileEntry:
    """A file in a commit: its blob's id and size, and where it points if it is an LFS pointer."""

    path: str
    oid: str
    blob_size: int
    lfs: LfsPointer | None = None

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        return self.lfs.size if self.lfs else self.blob_size


@dataclass(frozen=True)
class Snapshot:
    """All files and folders (path to tree id) of a commit."""

    files: dict[str, FileEntry]
    folders: dict[str, str]


@dataclass(frozen=True)
class LoggedCommit:
    """One line of history; the date as the Hub writes dates."""

    oid: str
    author: str
    date: str
    title: str
    message: str


@dataclass
class Change:
    """What a commit does to its parent's tree: path to blob id, and paths that go."""

    adds: dict[str, str] = field(default_factory=dict)
    deletes: set[str] = field(default_factory=set)


def hub_date(moment: datetime) -> str:
    """A date in the one format that the client parses, ``2026-01-31T12:00:00.000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def lfs_pointer(oid: str, size: int) -> bytes:
    """The pointer blob of an LFS file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n".encode()


class Git:
    """One bare repository."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._commits: set[str] = set()  # known to be there, for ever

    @classmethod
    def init(cls, path: Path) -> Git:
        """Make an empty repository whose default branch is ``main``."""
        path.mkdir(parents=True)
        git = cls(path)
        git.run("init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(path))
        return git

    # -- commands

    def run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Run a git command and return its output.

        Raises:
            GitError: It failed.
        """
        done = self._command(args, stdin, env)
        if done.returncode:
            raise GitError(f"git {' '.join(args)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def line(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """`run`, for a command that answers with one line."""
        return self.run(*args, stdin=stdin, env=env).decode().strip()

    def _command(
        self, args: Sequence[str], stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        clean = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.devnull,
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_DIR": str(self.path),
            **(env or {}),
        }
        return subprocess.run(["git", *args], input=stdin, capture_output=True, env=clean, check=False)

    # -- refs

    def commit_of(self, name: str) -> str | None:
        """The commit that a full ref name or a commit id of 7 to 40 digits stands for."""
        if name in self._commits:
            return name
        if name.startswith("refs/") and (tip := branch_tip(self.path, name)) is not None:
            return tip or None
        done = self._command(["rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"])
        if done.returncode:
            return None
        commit = done.stdout.decode().strip()
        self._commits.add(commit)
        return commit

    def has_ref(self, ref: str) -> bool:
        if (tip := branch_tip(self.path, ref)) is not None:
            return bool(tip)
        return self._command(["show-ref", "--verify", "--quiet", ref]).returncode == 0

    def may_be_ref(self, ref: str) -> bool:
        """Whether git takes this for the name of a ref."""
        return "\0" not in ref and self._command(["check-ref-format", ref]).returncode == 0

    def refs(self) -> list[tuple[str, str]]:
        """Every ref with the commit it leads to, annotated tags peeled."""
        listing = self.run("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)").decode()
        rows = [row.split() for row in listing.splitlines()]
        return [(row[0], row[-1]) for row in rows]

    def set_ref(self, ref: str, new: str, old: str) -> None:
        """Move a ref from ``old`` (`NO_OBJECT`: it must not exist) to ``new``.

        Raises:
            RefMovedError: It was not at ``old``.
        """
        done = self._command(["update-ref", ref, new, old])
        if done.returncode:
            raise RefMovedError(done.stderr.decode(errors="replace").strip())

    def delete_ref(self, ref: str) -> None:
        self.run("update-ref", "-d", ref)

    def tag(self, name: str, commit: str, message: str, user: str) -> None:
        """Make an annotated tag."""
        args = ("tag", "--annotate", "--cleanup=verbatim", "--file=-", "--", name, commit)
        self.run(*args, stdin=message.encode(), env=_identity(user))

    # -- reading

    def snapshot(self, commit: str) -> Snapshot:
        """The files of a commit."""
        return _SNAPSHOTS.get(commit, lambda: self._read_snapshot(commit))

    def _read_snapshot(self, commit: str) -> Snapshot:
        blobs: dict[str, tuple[str, int]] = {}
        folders: dict[str, str] = {}
        for row in self.run("ls-tree", "-r", "-t", "-l", "-z", commit).split(b"\0")[:-1]:
            head, _, name = row.partition(b"\t")
            _, kind, oid, size = head.decode().split()
            if kind == "tree":
                folders[name.decode()] = oid
            else:
                blobs[name.decode()] = (oid, int(size))
        pointers = self._pointers({oid for oid, size in blobs.values() if size in _POINTER_SIZES})
        files = {path: FileEntry(path, oid, size, pointers.get(oid)) for path, (oid, size) in blobs.items()}
        return Snapshot(files, folders)

    def _pointers(self, oids: Iterable[str]) -> dict[str, LfsPointer]:
        ordered = sorted(oids)
        if not ordered:
            return {}
        stream = self.run("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in ordered).encode())
        found, at = {}, 0
        for oid in ordered:
            end = stream.index(b"\n", at)
            size = int(stream[at:end].split()[2])
            match = _POINTER.fullmatch(stream[end + 1 : end + 1 + size])
            if match:
                found[oid] = LfsPointer(match[1].decode(), int(match[2]))
            at = end + 1 + size + 1
        return found

    def blob(self, oid: str) -> bytes:
        return _BLOBS.get(oid, lambda: self.run("cat-file", "blob", oid))

    def text(self, commit: str, path: str) -> str | None:
        """A small text file of a commit; None when it is not there or kept in LFS."""
        entry = self.snapshot(commit).files.get(path)
        return self.blob(entry.oid).decode(errors="replace") if entry and not entry.lfs else None

    def history(
        self, commit: str, *, path: str | None = None, skip: int = 0, limit: int | None = None
    ) -> list[LoggedCommit]:
        """Commits from this one back, newest first; only those that touch ``path`` if given."""
        asked = commit, path, skip, limit
        return list(_HISTORIES.get(asked, lambda: self._history(*asked)))

    def _history(self, commit: str, path: str | None, skip: int, limit: int | None) -> list[LoggedCommit]:
        count = [f"--skip={skip}", *([f"--max-count={limit}"] if limit is not None else [])]
        only = ["--", f":(literal){path}"] if path is not None else ["--"]
        listing = self.run("log", "-z", "--format=%H%n%an%n%cI%n%s%n%b", *count, commit, *only).decode()
        commits = []
        for record in filter(None, listing.split("\0")):
            oid, author, date, title, message = record.split("\n", 4)
            when = hub_date(datetime.fromisoformat(date))
            commits.append(LoggedCommit(oid, author, when, title, message.strip()))
        return commits

    def merge_base(self, one: str, other: str) -> str | None:
        """The last commit that two have in common; None when there is none."""
        done = self._command(["merge-base", one, other])
        return done.stdout.decode().strip() or None

    def diff(self, old: str, new: str) -> str:
        return self.run("diff", "--no-color", "--no-ext-diff", old, new).decode(errors="replace")

    # -- writing

    def store(self, files: Sequence[Path]) -> list[str]:
        """Store the files' bytes as blobs; their ids, in order."""
        if not files:
            return []
        names = "".join(f"{file}\n" for file in files).encode()
        return self.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names).decode().split()

    def store_bytes(self, data: bytes) -> str:
        return self.line("hash-object", "-w", "--stdin", stdin=data)

    def commit(self, parents: Sequence[str], change: Change, message: str, user: str) -> str:
        """Make a commit of the first parent's tree with the change; moves no ref."""
        with tempfile.TemporaryDirectory(prefix="index-", dir=self.path) as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            if parents:
                self.run("read-tree", parents[0], env=index)
            lines = [f"0 {NO_OBJECT}\t{path}\0" for path in sorted(change.deletes - change.adds.keys())]
            lines += [f"100644 {oid}\t{path}\0" for path, oid in change.adds.items()]
            self.run("update-index", "-z", "--index-info", stdin="".join(lines).encode(), env=index)
            tree = self.line("write-tree", env=index)
        return self.commit_tree(tree, parents, message, user)

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, user: str) -> str:
        """Make a commit of a tree; moves no ref."""
        given = [word for parent in parents for word in ("-p", parent)]
        return self.line("commit-tree", tree, *given, stdin=message.encode(), env=_identity(user))


_SNAPSHOTS: Kept[Snapshot] = Kept(64)
_BLOBS: Kept[bytes] = Kept(256, lambda data: len(data) <= 1 << 16)
_HISTORIES: Kept[list[LoggedCommit]] = Kept(256)


def _identity(user: str) -> dict[str, str]:
    return {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", user), ("EMAIL", f"{user}@localhost"))
    }
