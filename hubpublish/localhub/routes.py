"""Which request leads to which endpoint: the whole surface of the Hub on one page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from hubpublish.localhub.api import (
    cards,
    commits,
    discussions,
    downloads,
    files,
    history,
    oidc,
    pages,
    repos,
    uploads,
)
from hubpublish.localhub.protocol import HubHTTPError, Request, Response
from hubpublish.localhub.state import HubState

Endpoint = Callable[..., Response]

# {name} in a template; its value comes to the endpoint percent-decoded, under the group's name.
_PIECES = {
    "kind": r"(?P<kind>models|datasets|spaces|kernels)",
    "web": r"(?:(?P<kind>datasets|spaces|kernels)/)?(?P<repo_id>[^/]+/[^/]+?)",
    "repo": r"(?P<repo_id>[^/]+/[^/]+)",
    "revision": r"(?P<revision>[^/]+)",
    "name": r"(?P<name>[^/]+)",
    "path": r"(?P<path>.+)",
    "number": r"(?P<number>\d{1,9})",
    "comment": r"(?P<comment_id>[0-9a-f]+)",
    "oid": r"(?P<oid>[0-9a-f]{64})",
    "write": r"(?P<write>write)",
}


@dataclass(frozen=True)
class Route:
    """A method, the shape of a path, and the endpoint."""

    method: str
    path: re.Pattern[str]
    endpoint: Endpoint


def _route(method: str, template: str, endpoint: Endpoint) -> Route:
    pattern = re.sub(r"\{(\w+)\}", lambda match: _PIECES[match[1]], template.replace(".", r"\."))
    return Route(method, re.compile(pattern), endpoint)


_REPO = "/api/{kind}/{repo}"
_DISCUSSION = _REPO + "/discussions/{number}"

STORAGE_ROUTES = (
    _route("GET", "/_storage/{oid}", downloads.storage_get),
    _route("PUT", "/_storage/{oid}", uploads.storage_put),
    _route("PUT", "/_storage/{oid}/parts/{number}", uploads.storage_part),
)

HUB_ROUTES = (
    _route("GET", "/api/whoami-v2", repos.whoami),
    _route("POST", "/api/repos/create", repos.create_repo),
    _route("DELETE", "/api/repos/delete", repos.delete_repo),
    _route("POST", "/api/repos/move", repos.move_repo),
    _route("POST", "/api/validate-yaml", cards.validate_yaml),
    _route("POST", "/oauth/token", oidc.exchange),
    _route("GET", oidc.IDENTITY_PATH, oidc.identity_token),
    _route("GET", "/api/{kind}", repos.list_repos),
    _route("GET", _REPO, files.info),
    _route("GET", _REPO + "/revision/{revision}", files.info),
    _route("GET", _REPO + "/auth-check", repos.auth_check),
    _route("GET", _REPO + "/auth-check/{write}", repos.auth_check),
    _route("PUT", _REPO + "/settings", repos.settings),
    _route("POST", _REPO + "/user-access-request/grant", repos.grant_access),
    _route("GET", _REPO + "/xet-(?:read|write)-token/{revision}", repos.no_xet),
    _route("GET", _REPO + "/tree/{revision}", files.tree),
    _route("GET", _REPO + "/tree/{revision}/{path}", files.tree),
    _route("POST", _REPO + "/paths-info/{revision}", files.paths_info),
    _route("GET", _REPO + "/refs", history.refs),
    _route("GET", _REPO + "/commits/{revision}", history.commits),
    _route("POST", _REPO + "/branch/{name}", history.create_branch),
    _route("DELETE", _REPO + "/branch/{name}", history.delete_branch),
    _route("POST", _REPO + "/tag/{name}", history.create_tag),
    _route("DELETE", _REPO + "/tag/{name}", history.delete_tag),
    _route("POST", _REPO + "/super-squash/{name}", history.super_squash),
    _route("POST", _REPO + "/preupload/{revision}", uploads.preupload),
    _route("POST", _REPO + "/commit/{revision}", commits.commit),
    _route("GET", _REPO + "/discussions", discussions.list_discussions),
    _route("POST", _REPO + "/discussions", discussions.create_discussion),
    _route("GET", _DISCUSSION, discussions.discussion),
    _route("POST", _DISCUSSION + "/comment", discussions.comment),
    _route("POST", _DISCUSSION + "/comment/{comment}/edit", discussions.edit_comment),
    _route("POST", _DISCUSSION + "/comment/{comment}/hide", discussions.hide_comment),
    _route("POST", _DISCUSSION + "/title", discussions.change_title),
    _route("POST", _DISCUSSION + "/status", discussions.change_status),
    _route("POST", _DISCUSSION + "/merge", discussions.merge),
    _route("POST", "/{web}.git/info/lfs/objects/batch", uploads.lfs_batch),
    _route("POST", "/{web}.git/info/lfs/verify", uploads.lfs_verify),
    _route("POST", "/_storage/{oid}/complete", uploads.storage_complete),
    _route("GET", "/{web}/resolve/{revision}/{path}", downloads.resolve),
    _route("GET", "/{web}/raw/{revision}/{path}", downloads.raw),
    _route("GET", "/", pages.home),
    _route("GET", "/{web}", pages.repo_page),
    _route("GET", "/{web}/(?:tree|commit)/{revision}", pages.tree_page),
    _route("GET", "/{web}/discussions/{number}", pages.discussion_page),
)


def dispatch(routes: Sequence[Route], state: HubState, request: Request) -> Response:
    """The answer of the first route that fits; a HEAD is a GET whose body stays here.

    Raises:
        HubHTTPError: What the endpoint refuses with, or 404 when no route fits.
    """
    method = "GET" if request.method == "HEAD" else request.method
    for route in routes:
        match = route.path.fullmatch(request.path) if route.method == method else None
        if match:
            pieces = {name: unquote(text) for name, text in match.groupdict().items() if text is not None}
            return route.endpoint(state, request, **pieces)
    raise HubHTTPError(404, f"Sorry, we can't find the page you are looking for: {method} {request.path}")
