"""The files that every publication writes at the root of its repo."""

from __future__ import annotations

from typing import Final

CARD: Final = "README.md"
REPORT: Final = "report.json"
RECIPE: Final = "recipe.yaml"
MANIFEST: Final = "manifest.json"
OWN_FILES: Final = (CARD, REPORT, RECIPE, MANIFEST)
