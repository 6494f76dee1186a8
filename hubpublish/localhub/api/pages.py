"""A few plain pages, so that a person who opens the endpoint or a URL from a commit sees something."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from hubpublish.localhub import pull_requests
from hubpublish.localhub.access import Need, open_repo, owns
from hubpublish.localhub.protocol import Request, Response
from hubpublish.localhub.registry import KINDS
from hubpublish.localhub.repo import Repo
from hubpublish.localhub.state import HubState

_STYLE = "body{font:16px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}pre{white-space:pre-wrap}"


def home(state: HubState, request: Request) -> Response:
    """``GET /``: the repos that the request may see."""
    token = state.accounts.identify(request.headers.get("Authorization"))
    repos = [repo for kind in KINDS for repo in state.registry.all(kind)]
    seen = [repo for repo in repos if not repo.meta.private or owns(state, token, repo)]
    items = "".join(f"<li>{_link(repo.web_path, repo.web_path[1:])}</li>" for repo in seen)
    return _page("Local Hub", f"<ul>{items}</ul>" if items else "<p>There are no repos yet.</p>")


def repo_page(state: HubState, request: Request, repo_id: str, kind: str | None = None) -> Response:
    """``GET /<id>``: the card, the files, the pull requests."""
    repo = open_repo(state, request, kind or "models", repo_id, Need.FILES)
    return _files(repo, "main")


def tree_page(
    state: HubState, request: Request, repo_id: str, revision: str, kind: str | None = None
) -> Response:
    """``GET /<id>/tree/<revision>`` and ``/commit/<commit>``."""
    return _files(open_repo(state, request, kind or "models", repo_id, Need.FILES), revision)


def discussion_page(
    state: HubState, request: Request, repo_id: str, number: str, kind: str | None = None
) -> Response:
    """``GET /<id>/discussions/<number>``: comments, and a pull request's diff."""
    repo = open_repo(state, request, kind or "models", repo_id, Need.FILES)
    document = repo.discussions.get(int(number))
    comments = [event["data"]["latest"]["raw"] for event in document["events"] if event["type"] == "comment"]
    parts = [f"<p>{_link(repo.web_path, repo.id)}: {escape(document['status'])}</p>"]
    parts += [f"<pre>{escape(text)}</pre><hr>" for text in comments if text]
    if document["isPullRequest"]:
        parts.append(
            f"<pre>{escape(pull_requests.diff(repo, document['changes']['base'], int(number)))}</pre>"
        )
    return _page(f"{document['title']} (#{number})", "".join(parts))


def _files(repo: Repo, revision: str) -> Response:
    commit = repo.commit_id(revision)
    files = repo.git.snapshot(commit).files.values()
    base = f"{repo.web_path}/resolve/{quote(revision, safe='')}"
    rows = "".join(f"<li>{_link(f'{base}/{quote(e.path)}', e.path)} ({e.size} bytes)</li>" for e in files)
    requests = "".join(
        f"<li>{_link(f'{repo.web_path}/discussions/{number}', item['title'])}: {escape(item['status'])}</li>"
        for number, item in enumerate(repo.discussions.all(), 1)
    )
    parts = [f"<p>{escape(revision)}: commit {commit}</p><ul>{rows}</ul>"]
    parts += [f"<h2>Discussions</h2><ul>{requests}</ul>"] if requests else []
    card = repo.git.text(commit, "README.md")
    parts += [f"<h2>README.md</h2><pre>{escape(card)}</pre>"] if card else []
    return _page(repo.id, "".join(parts))


def _link(target: str, text: str) -> str:
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def _page(title: str, body: str) -> Response:
    head = f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    document = f"{head}<h1>{escape(title)}</h1>{body}"
    return Response(200, document.encode(), {"Content-Type": "text/html; charset=utf-8"})
