"""How a publication compares with what was made from its report, as data. JSON out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hubpublish.errors import VerificationError
from hubpublish.words import printable

Status = Literal["same", "differs", "edited", "missing", "not_rebuilt", "signature"]
RIGHT: tuple[Status, ...] = ("same", "signature")
NAMED = 3  # so many files an error message names; the details have all


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Versions(_Frozen):
    """A version that is not what it was; None: not recorded, or not used any more."""

    then: str | None
    now: str | None


class FileResult(_Frozen):
    """One file of the publication.

    Attributes:
        path: In the repo.
        status: ``same`` bytes; ``differs``; ``edited``: not what was published, as the manifest says;
            ``missing`` in the repo; ``not_rebuilt``: nothing could be made; ``signature``.
        why: In words; None where it is the same.
        published: SHA-256 of what the repo holds, as far as it was needed.
        rebuilt: SHA-256 of what was made.
    """

    path: str
    status: Status
    why: str | None = None
    published: str | None = None
    rebuilt: str | None = None


class Reproduction(_Frozen):
    """The whole of it. True when every file is the same.

    Attributes:
        commit: The repo's; what was compared.
        source: The repo that everything was taken from, at ``source_commit``.
        versions: Those that are not what the report says.
    """

    repo: str
    commit: str
    source: str
    source_commit: str
    versions: dict[str, Versions]
    files: tuple[FileResult, ...]

    def __bool__(self) -> bool:
        return all(file.status in RIGHT for file in self.files)

    def error(self) -> VerificationError:
        """What to raise where it is False: ``not_reproduced``, with everything among the details."""
        wrong = [file for file in self.files if file.status not in RIGHT]
        named = "; ".join(f"{file.path}: {file.why}" for file in wrong[:NAMED])
        more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        then = ", ".join(f"{name} {each.then}" for name, each in self.versions.items() if each.then)
        what = f"{len(wrong)} of {len(self.files)} files are not what the report leads to: {named}{more}"
        hint = f"try again with the versions of then: {then}" if then else "look at who changed these files"
        return VerificationError(
            printable(what),
            where=f"{self.repo}@{self.commit[:12]}",
            hint=printable(hint),
            kind="not_reproduced",
            details=self.model_dump(mode="json"),
        )
