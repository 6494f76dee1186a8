"""A GitHub on this machine: as much of its API as the workflows use, on a bare repository on disk.

It is a private repository: every request takes a token, and each token has the rights of its job, no more.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.workflows.api_server import Call, Redirect, Refusal, handler

BOT = "github-actions[bot]"
BODY_LIMIT = 65_536
_LEVELS = {"none": 0, "read": 1, "write": 2}


@dataclass
class Caller:
    login: str
    rights: Mapping[str, str]

    def needs(self, right: str, level: str) -> None:
        if _LEVELS[self.rights.get(right, "none")] < _LEVELS[level]:
            raise Refusal(403, "Resource not accessible by integration")


@dataclass
class FakeGitHub:
    """The API of one repository.

    Attributes:
        bare: The repository.
        pulls, comments, runs, artifacts: What it holds, by number or id.
        dispatched: Workflows that were started: file and branch.
        may_open_pulls: The repository's setting for GitHub Actions.
    """

    bare: Path
    repository: str = "acme/models"
    may_open_pulls: bool = True
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    artifacts: dict[int, dict[str, Any]] = field(default_factory=dict)
    dispatched: list[tuple[str, str]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _callers: dict[str, Caller] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # -- what a test does as somebody

    def token(self, rights: Mapping[str, str], login: str = BOT) -> str:
        """A token with these rights, as a job gets one."""
        secret = f"ghs_{secrets.token_hex(18)}"
        self._callers[secret] = Caller(login, rights)
        return secret

    def pull(
        self, branch: str, base: str = "main", *, fork: str | None = None, sha: str = "", **more: Any
    ) -> int:
        """A pull request of a person; of another repository if ``fork`` names one."""
        return self._new_pull(
            branch, base, fork or self.repository, sha, {"title": branch, "body": None, **more}
        )

    def comment(self, pull: int, body: str, login: str) -> int:
        return int(self._new_comment(pull, body, login)["id"])

    def run(self, **about: Any) -> int:
        """A run of preview.yml."""
        number = 9000 + len(self.runs)
        owner = str(about["repository"]).partition("/")[0]
        self.runs[number] = {
            "id": number,
            "event": about.get("event", "pull_request"),
            "conclusion": about.get("conclusion", "success"),
            "head_branch": about["branch"],
            "head_sha": about["sha"],
            "head_repository": {"full_name": about["repository"], "owner": {"login": owner}},
            "html_url": f"https://github.com/{self.repository}/actions/runs/{number}",
        }
        return number

    def artifact(self, run: int, name: str, content: bytes) -> int:
        number = 500 + len(self.artifacts)
        self.artifacts[number] = {
            "id": number,
            "run": run,
            "name": name,
            "size_in_bytes": len(content),
            "content": content,
        }
        return number

    def sha(self, branch: str) -> str:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"],
            cwd=self.bare,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    def writes(self) -> list[str]:
        """Everything that changed something."""
        return [
            f"{call.method} {call.path}" for call in self.calls if call.method != "GET" and call.status < 400
        ]

    # -- the API

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, token: str) -> Any:
        if path.startswith("/blob/"):
            if token:  # as the real store does, and as nobody else should learn a token
                raise Refusal(400, "InvalidAuthenticationInfo")
            return self._files.pop(path.removeprefix("/blob/"))
        caller = self._callers.get(token)
        if caller is None:
            raise Refusal(401, "Bad credentials")
        prefix = f"/repos/{self.repository}"
        if not path.startswith(prefix):
            raise Refusal(404, "Not Found")
        for wanted, pattern, handle in self._routes():
            found = re.fullmatch(pattern, path.removeprefix(prefix))
            if found and wanted == method:
                return handle(caller, query, body, *found.groups())
        raise Refusal(404, "Not Found")

    def _routes(self) -> list[tuple[str, str, Callable[..., Any]]]:
        return [
            ("GET", "", lambda *_: {"full_name": self.repository, "default_branch": "main"}),
            ("GET", "/pulls", self._list_pulls),
            ("POST", "/pulls", self._create_pull),
            ("PATCH", r"/pulls/(\d+)", self._edit_pull),
            ("GET", r"/issues/(\d+)/comments", self._list_comments),
            ("POST", r"/issues/(\d+)/comments", self._create_comment),
            ("PATCH", r"/issues/comments/(\d+)", self._edit_comment),
            ("GET", r"/actions/runs/(\d+)", self._get_run),
            ("GET", r"/actions/runs/(\d+)/artifacts", self._list_artifacts),
            ("GET", r"/actions/artifacts/(\d+)/zip", self._download),
            ("POST", r"/actions/workflows/([\w.]+)/dispatches", self._dispatch),
        ]

    def _list_pulls(self, caller: Caller, query: dict[str, str], _: Any) -> Any:
        caller.needs("pull-requests", "read")
        state, head = query.get("state", "open"), query.get("head")
        found = [self._shown(each) for each in self.pulls.values() if state in ("all", each["state"])]
        return self._page([each for each in found if head in (None, each["head"]["label"])], query)

    def _create_pull(self, caller: Caller, _: Any, body: Any) -> Any:
        caller.needs("pull-requests", "write")
        if not self.may_open_pulls:
            raise Refusal(403, "GitHub Actions is not permitted to create or approve pull requests.")
        if not self.sha(body["head"]) or not self.sha(body["base"]):
            raise Refusal(422, "Validation Failed", "head or base is invalid")
        if any(each["state"] == "open" and each["ref"] == body["head"] for each in self.pulls.values()):
            raise Refusal(422, "Validation Failed", "A pull request already exists")
        self._within(body["body"])
        text = {"title": body["title"], "body": body["body"], "login": caller.login}
        return self._shown(self.pulls[self._new_pull(body["head"], body["base"], self.repository, "", text)])

    def _edit_pull(self, caller: Caller, _: Any, body: Any, number: str) -> Any:
        caller.needs("pull-requests", "write")
        self._within(body["body"])
        self.pulls[int(number)].update(body)
        return self._shown(self.pulls[int(number)])

    def _list_comments(self, caller: Caller, query: dict[str, str], _: Any, number: str) -> Any:
        caller.needs("pull-requests", "read")
        return self._page([each for each in self.comments.values() if each["pull"] == int(number)], query)

    def _create_comment(self, caller: Caller, _: Any, body: Any, number: str) -> Any:
        caller.needs("pull-requests", "write")
        self._within(body["body"])
        return self._new_comment(int(number), body["body"], caller.login)

    def _edit_comment(self, caller: Caller, _: Any, body: Any, number: str) -> Any:
        caller.needs("pull-requests", "write")
        self._within(body["body"])
        self.comments[int(number)].update(body)
        return self.comments[int(number)]

    def _get_run(self, caller: Caller, _: Any, __: Any, number: str) -> Any:
        caller.needs("actions", "read")
        return self.runs[int(number)]

    def _list_artifacts(self, caller: Caller, query: dict[str, str], _: Any, number: str) -> Any:
        caller.needs("actions", "read")
        found = [
            {key: value for key, value in each.items() if key not in ("content", "run")}
            for each in self.artifacts.values()
            if each["run"] == int(number)
        ]
        return {"total_count": len(found), "artifacts": self._page(found, query)}

    def _download(self, caller: Caller, _: Any, __: Any, number: str) -> Any:
        caller.needs("actions", "read")
        place = secrets.token_hex(8)
        self._files[place] = self.artifacts[int(number)]["content"]
        return Redirect(f"{self.url}/blob/{place}")

    def _dispatch(self, caller: Caller, _: Any, body: Any, workflow: str) -> Any:
        caller.needs("actions", "write")
        shown = subprocess.run(
            ["git", "show", f"{body['ref']}:.github/workflows/{workflow}"],
            cwd=self.bare,
            capture_output=True,
            text=True,
            check=False,
        )
        if "workflow_dispatch" not in shown.stdout:
            raise Refusal(422, "Workflow does not have 'workflow_dispatch' trigger")
        self.dispatched.append((workflow, body["ref"]))
        return None

    # -- what it holds

    def _new_pull(self, branch: str, base: str, repository: str, sha: str, text: Mapping[str, Any]) -> int:
        number = len(self.pulls) + 1
        self.pulls[number] = {
            "number": number,
            "ref": branch,
            "base": base,
            "repository": repository,
            "sha": sha,
            "state": "open",
            "merged_at": None,
            "login": "alice",
            **text,
        }
        return number

    def _shown(self, pull: Mapping[str, Any]) -> dict[str, Any]:
        owner = pull["repository"].partition("/")[0]
        return {
            **{key: pull[key] for key in ("number", "state", "title", "body", "merged_at")},
            "user": {"login": pull["login"]},
            "html_url": f"https://github.com/{self.repository}/pull/{pull['number']}",
            "base": {"ref": pull["base"]},
            "head": {
                "ref": pull["ref"],
                "sha": pull["sha"] or self.sha(pull["ref"]),
                "label": f"{owner}:{pull['ref']}",
                "repo": {"full_name": pull["repository"]},
            },
        }

    def _new_comment(self, pull: int, body: str, login: str) -> dict[str, Any]:
        number = 100 + len(self.comments)
        self.comments[number] = {"id": number, "pull": pull, "body": body, "user": {"login": login}}
        return self.comments[number]

    def _within(self, body: str) -> None:
        if len(body) > BODY_LIMIT:
            raise Refusal(422, "Validation Failed", "body is too long (maximum is 65536 characters)")

    def _page(self, found: list[Any], query: dict[str, str]) -> list[Any]:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        return found[(page - 1) * size : page * size]
