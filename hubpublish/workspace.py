"""The folder of a run: what is staged, why something failed, pictures, log. One run at a time is in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.utils import WeakFileLock

from hubpublish.errors import UsageError
from hubpublish.provenance import CHECKSUMS_FILE, PREDICATE_FILE
from hubpublish.runlog import RunLog


@dataclass(frozen=True)
class Workspace:
    """The folder of a run, by what is in it.

    Attributes:
        out: The folder itself.
    """

    out: Path

    @property
    def staged(self) -> Path:
        """Every file that would be published, under its path in the repo."""
        return self.out / "staged"

    @property
    def failed(self) -> Path:
        """What shows why a verification failed."""
        return self.out / "failed"

    @property
    def outputs(self) -> Path:
        """An input of each variant, and what both models make of it; of a dry run."""
        return self.out / "outputs"

    @property
    def pictures(self) -> Path:
        """The same as pictures, for the preview."""
        return self.out / "pictures"

    @property
    def preview(self) -> Path:
        """What a dry run would change, as Markdown."""
        return self.out / "preview.md"

    @property
    def log(self) -> Path:
        """Durations, memory and machine of the run."""
        return self.out / "run.json"

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the folder: another run's files must not come between proof and upload.

        Raises:
            UsageError: ``cannot_write``.
        """
        lock = self.out / ".lock"
        with ExitStack() as held:
            with self.writing():
                self.out.mkdir(parents=True, exist_ok=True)
                try:
                    held.enter_context(WeakFileLock(lock, timeout=1.0))
                except TimeoutError:
                    say(f"waiting for another run that is at work in {self.out}")
                    held.enter_context(WeakFileLock(lock))
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say which file of the run cannot be written, and what helps.

        Raises:
            UsageError: ``cannot_write``.
        """
        try:
            yield
        except OSError as error:
            raise UsageError(
                f"cannot write the run's files: {error.strerror or error}",
                where=str(error.filename2 or error.filename or self.out),  # of two, the second is written
                hint="make room or the folder writable, or name another with --out",
                kind="cannot_write",
            ) from error

    def begin(self) -> RunLog:
        """Make the folder ready for a run: what an earlier one left is gone.

        Raises:
            UsageError: It holds something under one of these names that no run has made.
        """
        folders = (self.staged, self.failed, self.outputs, self.pictures)
        foreign = next((each for each in folders if each.exists()), None) if not self.log.exists() else None
        if foreign:
            raise UsageError(
                f"{foreign} exists, and was not made by a run", hint="name another folder with --out"
            )
        log = RunLog.start()
        self.out.mkdir(parents=True, exist_ok=True)
        log.write(self.log)  # first of all: it marks the folder as ours, also after a crash
        for old in folders:
            shutil.rmtree(old, ignore_errors=True)
        for name in (self.preview.name, CHECKSUMS_FILE, PREDICATE_FILE):
            (self.out / name).unlink(missing_ok=True)
        self.staged.mkdir()
        return log

    def write(self, texts: Mapping[str, str]) -> None:
        """Write texts by file name.

        Raises:
            UsageError: ``cannot_write``.
        """
        with self.writing():
            for name, text in texts.items():
                (self.out / name).write_text(text, encoding="utf-8", newline="\n")
