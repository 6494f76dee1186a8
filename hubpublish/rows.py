"""Rows of the tables in the card and the preview."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """A row of a table. Rows that say the same of several files become one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str


RowT = TypeVar("RowT", bound=Row)


def merged(rows: Iterable[RowT]) -> list[RowT]:
    """Rows in order, those that say the same of several files as one that names the files."""
    found: dict[tuple[object, ...], RowT] = {}
    for row in rows:
        said = tuple(value for name, value in row if name != "file")
        earlier = found.get(said)
        found[said] = row.model_copy(update={"file": f"{earlier.file}, {row.file}"}) if earlier else row
    return list(found.values())
