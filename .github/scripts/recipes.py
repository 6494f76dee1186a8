"""Which recipes a workflow has to run, as JSON for its matrix: [{"recipe": path, "target": repo}, ...].

    recipes.py                  every recipe whose target is known; the others are skipped with a notice
    recipes.py --changed FILE   of a pull request: FILE lists the changed paths, one a line

A change of the code or the templates concerns every recipe.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from hubpublish import recipe as recipes
from hubpublish.errors import RecipeError

CONFIGS = Path("configs")
CONCERNS_ALL = ("hubpublish/", "templates/", "pyproject.toml", "constraints.txt")


def concerned(changed: list[str]) -> list[Path]:
    """The recipes that a change of these paths concerns."""
    every = sorted(CONFIGS.glob("*.yaml"))
    if any(path.startswith(CONCERNS_ALL) for path in changed):
        return every
    return [path for path in every if path.as_posix() in changed]


def publishable(paths: list[Path]) -> list[dict[str, str]]:
    """Recipes with their targets; one whose target the environment does not name is skipped."""
    found = []
    for path in paths:
        try:
            found.append(
                {"recipe": path.as_posix(), "target": recipes.target_repo(recipes.load(path), os.environ)}
            )
        except RecipeError as error:
            if error.kind != "target_unset":
                raise
            print(f"::notice file={path}::skipped: {error.what}", file=sys.stderr)
    return found


def main() -> int:
    """Print the matrix; a recipe that cannot be read is an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changed", type=Path, help="a file with the changed paths, one a line")
    arguments = parser.parse_args()
    try:
        if arguments.changed:
            paths = concerned(arguments.changed.read_text("utf-8").splitlines())
            print(json.dumps([{"recipe": path.as_posix()} for path in paths]))
        else:
            print(json.dumps(publishable(sorted(CONFIGS.glob("*.yaml")))))
    except RecipeError as error:
        print(f"::error::{error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
