"""What becomes of a dry run: its preview for the job's summary on stdout, and two files for the comment.

    preview.py RECIPE OUT RESULT

OUT is the folder of `hubpublish run --dry-run`, RESULT what its `--json` printed. If the run failed, its
error takes the preview's place. OUT/about.json says which recipe it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import texts
from artifacts import ABOUT, PREVIEW

IN_ARTIFACT = "in this run's artifacts"


def error_of(result: str) -> dict[str, Any] | None:
    """The error that a run printed; None if it went well."""
    try:
        document = json.loads(result)
        return None if "status" in document else dict(document["error"])
    except (ValueError, KeyError, TypeError):
        return {"message": "the dry run ended without a result; its log says why"}


def as_markdown(recipe: str, error: dict[str, Any]) -> str:
    """An error in the place of a preview."""
    place = f" (`{error['where']}`)" if error.get("where") else ""
    lines = [f"# The dry run of {recipe} failed", f"**{error['message']}**{place}", error.get("hint") or ""]
    return "\n\n".join(filter(None, lines)) + "\n"


def main() -> int:
    """Write the two files and print the preview."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", help="path of the recipe")
    parser.add_argument("out", type=Path, help="folder of the run")
    parser.add_argument("result", type=Path, help="what the run printed")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    preview = out / PREVIEW
    error = error_of(arguments.result.read_text("utf-8"))
    if error:
        preview.write_text(as_markdown(arguments.recipe, error), encoding="utf-8")
    about = {"recipe": arguments.recipe, "failed": error is not None}
    (out / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
    text = texts.without_pictures(preview.read_text("utf-8"), IN_ARTIFACT)
    print(texts.cut(text, texts.SUMMARY_LIMIT, f"… and more, {IN_ARTIFACT}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
