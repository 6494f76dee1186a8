"""A Hub on which every request of a run can be made to go wrong, and what is then left on it."""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from huggingface_hub import file_download
from huggingface_hub.utils import _http

from hubpublish import hub as clients
from hubpublish import transform
from hubpublish.cli.main import run
from hubpublish.hub import retry
from hubpublish.localhub.lfs import LfsStore
from hubpublish.localhub.registry import Registry
from hubpublish.model import sha256_of
from tests.publication import TARGET, TOKEN, Publication, recipe_data

SECRET = "hf_" + "NeverToBeSeen" * 3

# What a run asks of a Hub; a request that is none of these fails a test.
ENDPOINTS = {
    "source info": r"^GET /api/models/acme/small/revision/",
    "source head": r"^HEAD /acme/small/resolve/.*/model\.onnx$",
    "source model": r"^GET /acme/small/resolve/.*/model\.onnx$",
    "source others": r"^(HEAD|GET) /acme/small/resolve/.*/(config\.json|LICENSE)$",
    "target info": r"^GET /api/models/acme/small-webgpu/revision/",
    "target manifest": r"^GET /acme/small-webgpu/resolve/.*/manifest\.json$",
    "target report": r"^GET /acme/small-webgpu/resolve/.*/report\.json$",
    "whoami": r"^GET /api/whoami-v2$",
    "access": r"^GET /api/models/acme/small-webgpu/auth-check",
    "create": r"^POST /api/repos/create$",
    "check card": r"^POST /api/validate-yaml$",
    "preupload": r"^POST /api/models/acme/small-webgpu/preupload/",
    "lfs batch": r"^POST /acme/small-webgpu\.git/info/lfs/objects/batch$",
    "lfs upload": r"^PUT /_storage/",
    "lfs verify": r"^POST /acme/small-webgpu\.git/info/lfs/verify$",
    "commit": r"^POST /api/models/acme/small-webgpu/commit/",
    "read back": r"^POST /api/models/acme/small-webgpu/paths-info/",
    "pull requests": r"^GET /api/models/acme/small-webgpu/discussions\?",
    "pull request": r"^GET /api/models/acme/small-webgpu/discussions/1\?",
    "request's text": r"^POST /api/models/acme/small-webgpu/discussions/1/comment/",
    "refs": r"^GET /api/models/acme/small-webgpu/refs",
    "tag": r"^POST /api/models/acme/small-webgpu/tag/",
    "history": r"^GET /api/models/acme/small-webgpu/commits/",
    "target texts": r"^GET /acme/small-webgpu/resolve/.*/(README|recipe|provenance|webgpu|config)\.\w+$",
}
FAULTS: dict[str, dict[str, Any]] = {
    **{str(status): {"status": status} for status in (400, 401, 403, 404, 409, 412, 422, 500, 502, 503)},
    "429": {"status": 429, "headers": {"RateLimit": '"api";r=0;t=7'}},
    "wait": {"status": 429, "headers": {"RateLimit": '"api";r=0;t=3000'}},
    "leak": {"status": 403, "body": f"no rights for {TOKEN}, {SECRET}"},
    **{action: {"action": action} for action in ("reset", "truncate", "corrupt", "drop_response")},
}


@dataclass(frozen=True)
class State:
    """The target: the tree and number of commits of each branch and request, and the requests' texts."""

    branches: dict[str, tuple[str, int]]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """A run of the command; ``text`` is all that it printed, logged and wrote."""

    code: int
    out: str
    err: str
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@dataclass
class Lab:
    """A source, a target and recipes, and the Hub's states by name, to go back to."""

    publication: Publication
    folder: Path
    runs: int = 0
    saved: dict[str, Path] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)  # of histories, by their last commit

    def recipe(self, name: str, **changes: Any) -> Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(recipe_data(self.publication.models, **changes)))
        return path

    def save(self, name: str) -> None:
        self.saved[name] = self.folder / "saved" / name
        shutil.copytree(self._root, self.saved[name])

    def restore(self, name: str) -> None:
        state = self.publication.hub.state
        state.faults.clear()
        shutil.rmtree(self._root)
        shutil.copytree(self.saved[name], self._root)
        state.registry, state.lfs = Registry(self._root), LfsStore(self._root)

    @property
    def _root(self) -> Path:
        return self.publication.hub.state.root

    def run(self, recipe: Path, *arguments: str, command: str = "run") -> Ran:
        """The command, with a new cache and folder, and with the client's own log at its most talkative."""
        self.runs += 1
        folder = self.folder / f"run-{self.runs}"
        where = ["--endpoint", self.publication.hub.endpoint, "--json"]
        if command == "run":
            where += ["--out", str(folder / "out")]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, _log_of_the_client() as log:
            patch.setenv("HF_TOKEN", TOKEN)
            patch.setenv("HUBPUBLISH_CACHE", str(folder / "cache"))
            with redirect_stdout(out), redirect_stderr(err):
                code = run([command, str(recipe), *where, *arguments])
        written = [path.read_bytes().decode("utf-8", "replace") for path in _files(folder)]
        text = "\n".join([out.getvalue(), err.getvalue(), log.getvalue(), *written])
        shutil.rmtree(folder, ignore_errors=True)
        return Ran(code, out.getvalue(), err.getvalue(), text)

    def state(self) -> State | None:
        """What the target holds; None when there is none."""
        repo = self.publication.hub.state.registry.get("model", TARGET)
        if repo is None:
            return None
        branches = {}
        both = [  # a tag is an object of its own
            f"%(if)%(*tree)%(then)%(*{field})%(else)%({field})%(end)" for field in ("tree", "objectname")
        ]
        listed = repo.git.run("for-each-ref", f"--format=%(refname) {' '.join(both)}").decode().splitlines()
        for ref, tree, commit in (line.split() for line in listed):
            if commit not in self.lengths:
                self.lengths[commit] = int(repo.git.run("rev-list", "--count", commit))
            branches[ref] = (tree, self.lengths[commit])
        requests = repo.discussions.all()
        return State(branches, tuple(each["events"][0]["data"]["latest"]["raw"] for each in requests))

    def used(self, since: int) -> dict[str, int]:
        """How often each endpoint was asked since that entry of the log.

        Raises:
            AssertionError: A request is to none of them.
        """
        counts: dict[str, int] = {}
        for entry in list(self.publication.hub.log)[since:]:
            request = f"{entry.method} {entry.path}"
            name = next((name for name, pattern in ENDPOINTS.items() if re.search(pattern, request)), None)
            assert name is not None, f"an endpoint that no fault has been tried on: {request}"
            counts[name] = counts.get(name, 0) + 1
        return counts


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".onnx")


@contextmanager
def _log_of_the_client() -> Iterator[io.StringIO]:
    logger, text = logging.getLogger("huggingface_hub"), io.StringIO()
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [logging.StreamHandler(text)], False
    logger.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        logger.handlers, _, logger.propagate = before
        logger.setLevel(before[1])


def hurry(monkeypatch: pytest.MonkeyPatch, timeout: float | None = None) -> list[float]:
    """Have nobody wait between attempts, and no model verified twice; returns the waits asked for."""
    waits: list[float] = []
    hurried = SimpleNamespace(**{**vars(time), "sleep": waits.append})
    monkeypatch.setattr(retry, "sleep", waits.append)
    for module in (_http, file_download):
        monkeypatch.setattr(module, "time", hurried)
    known: dict[Sequence[str], Any] = {}
    verify = transform.verify

    def verify_once(original: Path, rewritten: Path, **options: Any) -> Any:
        key = (sha256_of(original), sha256_of(rewritten))
        if key not in known:
            known[key] = verify(original, rewritten, **options)
        return known[key]

    monkeypatch.setattr(transform, "verify", verify_once)
    if timeout is not None:
        connect = clients.connect
        monkeypatch.setattr(clients, "connect", lambda url, token: connect(url, token, timeout=timeout))
    return waits
