"""Write the recipe's JSON schema: ``python -m hubpublish.recipe [FILE]``, to stdout without FILE."""

from __future__ import annotations

import sys
from pathlib import Path

from hubpublish.recipe.schema import dumps_schema

if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(dumps_schema(), encoding="utf-8")
    else:
        sys.stdout.write(dumps_schema())
