"""What became of a source since a recipe pinned it: status, and bringing the pins up to date."""

from hubpublish.upstream.bump import Bump, PinChange, plan_bump
from hubpublish.upstream.changes import FileChange
from hubpublish.upstream.differences import ModelDifference, ModelSummary, compare, summarize
from hubpublish.upstream.status import RecipeStatus, exit_code, status
from hubpublish.upstream.words import bump_lines, bump_markdown, status_lines

__all__ = [
    "Bump",
    "FileChange",
    "ModelDifference",
    "ModelSummary",
    "PinChange",
    "RecipeStatus",
    "bump_lines",
    "bump_markdown",
    "compare",
    "exit_code",
    "plan_bump",
    "status",
    "status_lines",
    "summarize",
]
