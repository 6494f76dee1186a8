"""One comment on a pull request with the previews of its recipes, kept up to date in place.

    comment.py RUN      the id of a run of preview.yml

Runs with a token that may write, after a run of code that anybody may have written. So nothing that this
run says of itself counts: which pull request it belongs to is what GitHub says of its commit, and what is
in its artifacts is text from a stranger.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import api
import texts
from api import GitHub, GitHubError
from artifacts import ARCHIVE_LIMIT, NAME, ArtifactError, Preview, read

MARKER = "<!-- hubpublish preview -->"
AUTHOR = "github-actions[bot]"
EVENTS = ("pull_request", "workflow_dispatch")
MOST = 20  # previews in a comment


def pull_requests(github: GitHub, run: dict[str, Any]) -> list[int]:
    """The open pull requests whose head is the commit and repository of this run."""
    source = run["head_repository"]
    if run["event"] not in EVENTS or not source or not run["head_branch"]:
        return []
    head = f"{source['owner']['login']}:{run['head_branch']}"
    return [
        int(pull["number"])
        for pull in github.pages("pulls", state="open", head=head)
        if pull["head"]["sha"] == run["head_sha"]
        and pull["head"]["repo"]
        and pull["head"]["repo"]["full_name"] == source["full_name"]
    ]


def previews(github: GitHub, run: int) -> tuple[list[Preview], list[str]]:
    """The previews that a run left, by recipe; and why others were refused."""
    artifacts: dict[str, dict[str, Any]] = {}
    for each in github.pages(f"actions/runs/{run}/artifacts", "artifacts"):
        # of two with a name the later counts: the job was run again
        if NAME.fullmatch(each["name"]) and each["id"] > artifacts.get(each["name"], {"id": 0})["id"]:
            artifacts[each["name"]] = each
    found, refused = [], []
    for name, each in sorted(artifacts.items())[:MOST]:
        try:
            if each["size_in_bytes"] > ARCHIVE_LIMIT:
                raise ArtifactError("it is too large")
            found.append(read(github.download(f"actions/artifacts/{each['id']}/zip", ARCHIVE_LIMIT)))
        except (ArtifactError, GitHubError) as error:
            refused.append(f"{name}: {error}")
    refused += [f"{name}: left out" for name in sorted(artifacts)[MOST:]]
    return sorted(found, key=lambda each: each.recipe), refused


def compose(found: list[Preview], refused: list[str], url: str) -> str:
    """The comment, within GitHub's limit."""
    place = f"[in this run]({url})"
    head = (
        f"{MARKER}\n## What this pull request would publish\n\n"
        f"The whole text, the pictures and the files are {place}, among its artifacts. "
        "They were made by the code of this pull request, and nobody has checked them."
    )
    if not found and not refused:
        head += "\n\nNo recipe is concerned."
    head += "".join(f"\n\nNot shown: {texts.harmless(each)}" for each in refused)
    # Each gets an equal share of the room, and what the shorter ones leave.
    room = texts.COMMENT_LIMIT - len(head)
    sections: dict[int, str] = {}
    for index in sorted(range(len(found)), key=lambda index: len(found[index].text)):
        start, end = _frame(found[index], opened=len(found) == 1)
        limit = room // (len(found) - len(sections)) - len(start) - len(end)
        text = texts.harmless(texts.without_pictures(found[index].text[: 2 * texts.COMMENT_LIMIT], place))
        sections[index] = start + texts.cut(text, limit, f"… and more, {place}") + end
        room -= len(sections[index])
    return head + "".join(section for _, section in sorted(sections.items()))


def _frame(preview: Preview, *, opened: bool) -> tuple[str, str]:
    title = f"{preview.recipe}{': failed' if preview.failed else ''}"
    opening = "<details open>" if opened else "<details>"
    return f"\n\n{opening}<summary>{title}</summary>\n\n", "\n\n</details>"


def stick(github: GitHub, number: int, body: str, *, create: bool) -> str:
    """Bring our comment up to date, or make it; says what was done."""
    for each in github.pages(f"issues/{number}/comments"):
        # A person's comment may begin with the marker as well.
        if each["user"] and each["user"]["login"] == AUTHOR and each["body"].startswith(MARKER):
            if each["body"] == body:
                return "up to date"
            github.send("PATCH", f"issues/comments/{each['id']}", {"body": body})
            return "updated"
    if not create:
        return "not needed"
    github.send("POST", f"issues/{number}/comments", {"body": body})
    return "made"


def main() -> int:
    """Comment on the pull requests of a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=int, help="id of a run of preview.yml")
    number = parser.parse_args().run
    try:
        github = GitHub.of_environment()
        run = github.get(f"actions/runs/{number}")
        pulls = pull_requests(github, run)
        if not pulls:
            api.notice("no open pull request has this run's commit as its head: nothing to comment on")
            return 0
        found, refused = previews(github, number)
        for each in refused:
            api.warning(each)
        body = compose(found, refused, run["html_url"])
        for pull in pulls:
            print(f"comment on {pull}: {stick(github, pull, body, create=bool(found or refused))}")
    except GitHubError as error:
        api.error(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
