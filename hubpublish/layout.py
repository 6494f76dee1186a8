"""The files that every publication writes at the root of its repo, and the one that some do."""

from __future__ import annotations

from typing import Final

CARD: Final = "README.md"
REPORT: Final = "report.json"
RECIPE: Final = "recipe.yaml"
PROVENANCE: Final = "provenance.json"
WEBGPU: Final = "webgpu.json"
MANIFEST: Final = "manifest.json"
OWN_FILES: Final = (CARD, REPORT, RECIPE, PROVENANCE, WEBGPU, MANIFEST)

SIGNATURE: Final = "model.sig"
"""Only where a run signs. The name is what model-signing itself writes to when it is told none."""
