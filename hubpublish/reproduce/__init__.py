"""Making a published repo again from its own report, and comparing the bytes."""

from hubpublish.reproduce.result import FileResult, Reproduction, Versions
from hubpublish.reproduce.run import parse_target, reproduce

__all__ = ["FileResult", "Reproduction", "Versions", "parse_target", "reproduce"]
