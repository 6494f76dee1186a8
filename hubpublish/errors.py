"""Every error a user can meet: what happened, where, and what to do next.

The command line turns each into a few lines and an exit code; with ``--json`` into
``{"error": {"kind", "message", "where", "hint", ...}}``. Nothing else may reach a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class HubpublishError(Exception):
    """An error with a place and a remedy.

    Args:
        what: One sentence, without a final stop: what is wrong.
        where: ``file:line``, a node's name and scope, or a URL without its query.
        hint: What to do next, as an instruction.
        kind: A stable word for machines; the class has a default.
        details: More fields for ``--json``, JSON-serializable.
    """

    exit_code: ClassVar[int] = 1
    default_kind: ClassVar[str] = "internal"

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        kind: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.kind = kind or self.default_kind
        self.details = dict(details or {})

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what

    def to_dict(self) -> dict[str, object]:
        """The error as ``--json`` prints it."""
        return {
            "kind": self.kind,
            "message": self.what,
            "where": self.where,
            "hint": self.hint,
            "exit_code": self.exit_code,
            **self.details,
        }


class UsageError(HubpublishError):
    """The command line asks for something that cannot be."""

    exit_code = 2
    default_kind = "usage"


class RecipeError(HubpublishError):
    """The recipe does not say what it must, or says what it must not."""

    exit_code = 2
    default_kind = "recipe"


class SourceError(HubpublishError):
    """A source file is missing, out of reach, or not the one that was pinned."""

    exit_code = 3
    default_kind = "source"


class UnsupportedModelError(HubpublishError):
    """A model of a kind that cannot be rewritten without losing something."""

    exit_code = 4
    default_kind = "unsupported_model"


class DeviceFitError(HubpublishError):
    """The result would not run on the device that the recipe names."""

    exit_code = 4
    default_kind = "device_fit"


class VerificationError(HubpublishError):
    """The rewrite does not compute the same, or it could not be decided."""

    exit_code = 5
    default_kind = "verification"


class HubError(HubpublishError):
    """The Hub refused, changed meanwhile, or did not answer."""

    exit_code = 6
    default_kind = "hub"
