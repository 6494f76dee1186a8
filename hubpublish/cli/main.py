"""The entry point: every command, and what becomes of whatever they raise."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path

import click
import typer

from hubpublish.cli import hub, models, recipes
from hubpublish.cli.output import emit_error, note
from hubpublish.errors import HubpublishError, UsageError

app = typer.Typer(
    name="hubpublish",
    help="Rewrite an ONNX model from the Hub so that it runs on WebGPU, prove it, publish it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for group in (recipes.app, models.app, hub.app):
    app.registered_commands.extend(group.registered_commands)

INTERRUPTED = 130
INTERNAL = 1


@app.callback()
def root() -> None:
    """Rewrite an ONNX model from the Hub so that it runs on WebGPU, prove it, publish it."""


def main() -> None:
    """Run a command. Every error leaves as a few lines and an exit code, never as a traceback."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command with these arguments; returns its exit code."""
    as_json = "--json" in arguments
    try:
        code = app(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return UsageError.exit_code
    except click.ClickException as error:
        return emit_error(_usage(error), as_json=as_json)
    except HubpublishError as error:
        return emit_error(error, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        note("interrupted; nothing half done is visible, and the command can be run again")
        return INTERRUPTED
    except BrokenPipeError:
        return INTERNAL
    except Exception as error:
        return emit_error(_internal(error), as_json=as_json)


def _usage(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "hubpublish"
    return UsageError(error.format_message().rstrip("."), hint=f"see {command} --help")


def _internal(error: Exception) -> HubpublishError:
    from hubpublish.hub.redact import redact

    with tempfile.NamedTemporaryFile("w", prefix="hubpublish-", suffix=".log", delete=False) as log:
        log.write(redact("".join(traceback.format_exception(error))))
    return HubpublishError(
        f"internal error: {type(error).__name__}: {redact(' '.join(str(error).split()))[:200]}",
        where=str(Path(log.name)),
        hint="this is a fault of hubpublish; report it with that log",
    )
