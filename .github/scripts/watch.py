"""Pull requests that bring the pins of recipes up to date: one a recipe, on the branch bump/RECIPE.

    watch.py choose STATUS OUT    which recipes, from what `hubpublish status --json` printed; only reads
    watch.py bump STATUS OUT      `hubpublish bump` of each, on copies in OUT; asks nothing of GitHub
    watch.py propose OUT          push the branches, open or update the pull requests

At most three are open at once; the others wait. A pull request that stands for what upstream holds now is
not touched. A branch that somebody else committed to is left as it is, and so is a pull request whose reason
went away because upstream went back. One that was closed without merging is not opened again until upstream
moves on.

The first two take an environment with hubpublish, and read files that anybody may have made; the last has a
token that may write, and needs nothing but Python and git. Both look at branches as `git fetch` left them,
but for `propose`, which fetches.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import api
import branches
from api import GitHub, GitHubError
from branches import GitError
from proposals import PREFIX, Bump, base_of, open_pulls, propose, why_not
from recipes import read_status

CHOSEN = "chosen.json"


def choose(github: GitHub, status: Sequence[dict[str, Any]]) -> list[Bump]:
    """The recipes to bump now; says of every other why it is not among them."""
    pulls, (_, base) = open_pulls(github), base_of(github)
    chosen: list[Bump] = []
    for each in status:
        path = each["recipe"]
        pull = pulls.get(PREFIX + Path(path).stem)
        if each["action"] != "bump":
            if pull and each["upstream"] == "unchanged":
                api.notice(f"upstream holds what is pinned: pull request {pull['number']} is left open", path)
            continue
        pins = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        try:
            bump = Bump(path, each["source"], each["commit"] or "", pins)
        except ValueError as error:
            api.warning(f"not bumped: {error}", path)
            continue
        new = sum(other.branch not in pulls for other in chosen)
        if reason := why_not(github, bump, pulls, base, len(pulls) + new):
            api.notice(reason, path)
        else:
            chosen.append(bump)
    return chosen


def bump_all(out: Path, status: Sequence[dict[str, Any]]) -> int:
    """Bump copies of the chosen recipes; prints which. Returns 1 if any recipe is in error."""
    done, code = [], 0
    for each in status:
        if each["error"]:
            api.error(each["error"]["message"], each["recipe"])
            code = 1
    for bump in _chosen(out):
        result = _bumped(bump, out / f"{bump.stem}.yaml")
        if "changed" not in result:
            api.error(str(result["error"]["message"]), bump.recipe)
            code = 1
        elif result["changed"]:
            (out / f"{bump.stem}.md").write_text(result["markdown"], encoding="utf-8")
            done.append(bump.stem)
        else:
            api.notice("the bump changes nothing", bump.recipe)
    print(f"bumps={' '.join(done)}")
    return code


def _bumped(bump: Bump, copy: Path) -> dict[str, Any]:
    """What `hubpublish bump` says of a copy of a recipe; the copy stays if it was changed."""
    copy.write_bytes(Path(bump.recipe).read_bytes())
    hubpublish = Path(sys.executable).with_name("hubpublish")  # of the same environment
    command = [str(hubpublish), "bump", str(copy), "--json"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    try:
        result: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        result = {"error": {"message": "hubpublish bump printed no JSON; its log says why"}}
    if not result.get("changed"):
        copy.unlink()
    return result


def propose_all(github: GitHub, out: Path) -> int:
    """Open or update the pull requests of what was bumped. Returns 1 if any failed."""
    branches.update()
    code = 0
    for bump in _chosen(out):
        copy = out / f"{bump.stem}.yaml"
        if not copy.is_file():
            continue
        try:
            place = propose(github, bump, copy.read_bytes(), copy.with_suffix(".md").read_text("utf-8"))
        except (GitHubError, GitError) as error:
            hint = ""
            if isinstance(error, GitHubError) and error.status == 403:
                hint = "; the repository's settings for Actions must let it create pull requests"
            api.error(f"{error}{hint}", bump.recipe)
            code = 1
        else:
            print(f"{bump.recipe}: {place or 'nothing was done'}")
    return code


def _chosen(out: Path) -> list[Bump]:
    return [Bump(**each) for each in json.loads((out / CHOSEN).read_text("utf-8"))]


def main() -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("choose", "bump", "propose"):
        command = commands.add_parser(name)
        if name != "propose":
            command.add_argument("status", type=Path, help="the status document")
        command.add_argument("out", type=Path, help="folder for what is bumped")
    arguments = parser.parse_args()
    out: Path = arguments.out
    try:
        if arguments.command == "propose":
            return propose_all(GitHub.of_environment(), out)
        status = read_status(arguments.status)
        if arguments.command == "bump":
            return bump_all(out, status)
        out.mkdir(parents=True, exist_ok=True)
        chosen = choose(GitHub.of_environment(), status)
        (out / CHOSEN).write_text(json.dumps([asdict(each) for each in chosen], indent=2), encoding="utf-8")
    except (GitHubError, GitError, ValueError) as error:
        api.error(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
