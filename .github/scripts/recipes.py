"""Which recipes a workflow has to run: `matrix=[{"recipe": path, ...}, ...]`, a line for GITHUB_OUTPUT.

recipes.py changed FILE     those that a pull request concerns: FILE lists the changed paths, one a line
recipes.py publish STATUS   those to publish: STATUS is what `hubpublish status --json` printed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import api

CONFIGS = Path("configs")
# A change of the code or the templates concerns every recipe.
CONCERNS_ALL = ("hubpublish/", "templates/", "pyproject.toml", "constraints.txt")


def changed(paths: Sequence[str]) -> list[dict[str, str]]:
    """The recipes that a change of these paths concerns."""
    every = [path.as_posix() for path in sorted(CONFIGS.glob("*.yaml"))]
    if not any(path.startswith(CONCERNS_ALL) for path in paths):
        every = [path for path in every if path in paths]
    return [{"recipe": path} for path in every]


def publishable(status: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The recipes to publish, with their targets; of every other it says why it is not among them.

    A broken one is among them too: it fails in a job of its own, and stops no other.
    """
    return [{"recipe": each["recipe"], "target": each["target"] or ""} for each in status if _is_to_run(each)]


def _is_to_run(each: dict[str, Any]) -> bool:
    path, broken = each["recipe"], each["error"]
    if broken is not None:
        place = f"{broken['where']}: " if broken.get("where") else ""
        api.error(f"{place}{broken['message']}", path)
    elif each["target"] is None:
        api.notice("skipped: a variable of target.repo is not set", path)
    elif each["action"] == "look":
        api.warning(f"not published: {_to_look_at(each)}", path)
    elif each["action"] == "bump":
        api.notice("not published: the source is not the pinned one any more; watch proposes new pins", path)
    return broken is not None or (each["action"] == "publish" and each["target"] is not None)


def _to_look_at(each: dict[str, Any]) -> str:
    gone = [file["path"] for file in each["files"] if file["change"] == "removed"]
    if gone and each["upstream"] == "changed":
        return f"{each['source']} does not have {', '.join(gone)} any more"
    edited = [f"{path}: {what}" for path, what in each["edited"].items()]
    return f"somebody has to look at {each['target']}: {'; '.join(edited) or each['published']}"


def read_status(path: Path) -> list[dict[str, Any]]:
    """The recipes of a status document.

    Raises:
        ValueError: It has none, since the command failed as a whole; in its words.
    """
    text = path.read_text("utf-8")
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("hubpublish status printed no JSON; its log says why") from None
    if "recipes" not in document:
        raise ValueError(str(document.get("error", {}).get("message", "hubpublish status named no recipes")))
    found: list[dict[str, Any]] = document["recipes"]
    return found


def main() -> int:
    """Print the matrix."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("changed", "the changed paths"), ("publish", "the status document")):
        commands.add_parser(name).add_argument("file", type=Path, help=f"a file with {what}")
    arguments = parser.parse_args()
    try:
        if arguments.command == "changed":
            matrix = changed(arguments.file.read_text("utf-8").splitlines())
        else:
            matrix = publishable(read_status(arguments.file))
    except ValueError as error:
        api.error(str(error))
        return 1
    print(f"matrix={json.dumps(matrix)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
