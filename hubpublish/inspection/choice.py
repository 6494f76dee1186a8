"""Which passes a model needs for a device: ``passes: auto`` of a recipe, ``--pass auto`` of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hubpublish.inspection.models import Inspection
from hubpublish.passes import PASSES, RewritePass


@dataclass(frozen=True)
class Auto:
    """The passes are chosen for each model.

    Attributes:
        approximate: Whether passes that are not exact may be among them.
    """

    approximate: bool = False

    def choose(self, found: Inspection) -> tuple[RewritePass[Any], ...]:
        """The passes that an inspection names, and those that make any file smaller; as they are listed.

        The list is in the order in which they help each other: a pass that makes one node of many comes
        before one that makes many small ones, and constants are folded when nothing changes any more.
        """
        named = {*found.passes, *(name for name, each in PASSES.items() if each.shrinks)}
        return tuple(
            each() for name, each in PASSES.items() if name in named and (each.exact or self.approximate)
        )
