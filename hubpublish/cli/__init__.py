"""The command line: parses, calls, prints. What a command does is in the module that it calls."""

from hubpublish.cli.main import main

__all__ = ["main"]
