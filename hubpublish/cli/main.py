"""The entry point: every command, and what becomes of whatever they raise."""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
import tempfile
import traceback
from typing import Annotated, TextIO

import typer

from hubpublish import __version__
from hubpublish.cli import hub, models, published, recipes, upstream
from hubpublish.cli.options import examples
from hubpublish.cli.output import emit_error, emit_json, note
from hubpublish.errors import HubpublishError, UsageError

app = typer.Typer(
    name="hubpublish",
    add_completion=False,
    rich_markup_mode=None,  # plain text keeps the examples as they are written, on a screen and in a pipe
    pretty_exceptions_enable=False,
)
for group in (recipes.app, upstream.app, published.app, models.app, hub.app):
    app.registered_commands.extend(group.registered_commands)

_OF_THE_DISK = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
        *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG),
    }
)
INTERRUPTED = 130
INTERNAL = 1


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "hubpublish new onnx-community/BiRefNet_lite-ONNX > recipe.yaml",
        "hubpublish run recipe.yaml --dry-run",
        "hubpublish rewrite model.onnx out.onnx --device webgpu-min",
    ),
)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Rewrite an ONNX model from the Hub so that it runs on WebGPU, prove it, publish it."""
    if version:
        typer.echo(f"hubpublish {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run a command. Every error leaves as a few lines and an exit code, never as a traceback."""
    sys.stdout, sys.stderr = map(_always_writable, (sys.stdout, sys.stderr))
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command with these arguments; returns its exit code."""
    as_json = "--json" in arguments
    try:
        code = _command()(arguments, prog_name="hubpublish", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return emit_error(_usage(error), as_json=as_json)
    except HubpublishError as error:
        return emit_error(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort) as abort:
        if isinstance(abort.__cause__, EOFError):  # typer takes every one for the end of an answer
            return emit_error(_internal(abort.__cause__), as_json=as_json)
        return _interrupted(as_json=as_json)
    except BrokenPipeError:  # whoever read has enough
        _give_up_on_stdout()
        return INTERNAL
    except Exception as error:
        found = _of_the_disk(error) or _internal(error)
        try:
            sys.stdout.flush()
            return emit_error(found, as_json=as_json)
        except OSError:  # it is stdout that cannot be written
            _give_up_on_stdout()
            return emit_error(found, as_json=False)
    if code == INTERRUPTED:  # what typer makes of Ctrl-C
        return _interrupted(as_json=as_json)
    return code if isinstance(code, int) else 0


# Made of all signatures, which takes longer than many a command: once for a program that runs several.
_command = functools.cache(lambda: typer.main.get_command(app))


def _always_writable(stream: TextIO | None) -> TextIO:
    """The stream, also for names that it cannot show; one that the caller closed swallows what comes."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _give_up_on_stdout() -> None:
    """Python would complain about what is left in the stream when it flushes at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted(*, as_json: bool) -> int:
    message = "interrupted; nothing is half published, and the command can be run again"
    if as_json:
        emit_json({"error": {"kind": "interrupted", "message": message, "exit_code": INTERRUPTED}})
    note(message)
    return INTERRUPTED


def _usage(error: typer.TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "hubpublish"
    return UsageError(error.format_message().rstrip("."), hint=f"see {command} --help")


def _of_the_disk(error: Exception) -> UsageError | None:
    """What is wrong with this machine's disk and not with hubpublish, wherever it shows."""
    if not isinstance(error, OSError) or error.errno not in _OF_THE_DISK:
        return None
    path = error.filename2 or error.filename  # of two, the second is written
    return UsageError(
        f"a file cannot be used: {error.strerror}",
        where=str(path) if path else None,
        hint="make room, or the folder accessible; HUBPUBLISH_CACHE and TMPDIR name other folders",
        kind="cannot_write",
    )


def _internal(error: Exception) -> HubpublishError:
    from hubpublish.hub.redact import redact

    log = _logged(redact("".join(traceback.format_exception(error))))
    return HubpublishError(
        f"internal error: {type(error).__name__}: {redact(' '.join(str(error).split()))[:200]}",
        hint=f"this is a fault of hubpublish; report it with {f'the log, {log}' if log else 'this line'}",
        details={"log": log},
    )


def _logged(text: str) -> str | None:
    """The path of a file with this text; None where it cannot be written."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="hubpublish-", suffix=".log", delete=False, encoding="utf-8"
        ) as log:
            log.write(text)
    except OSError:
        return None
    return log.name
