"""What the commands on single files do: rewrite, inspect and verify without a recipe or a Hub."""

from hubpublish.single.comparison import in_words, verify_files, verify_files_on_webgpu
from hubpublish.single.files import FileInspection, inspect_file, rewrite_file, write_report
from hubpublish.single.options import find_profile, parse_gate, parse_pass

__all__ = [
    "FileInspection",
    "find_profile",
    "in_words",
    "inspect_file",
    "parse_gate",
    "parse_pass",
    "rewrite_file",
    "verify_files",
    "verify_files_on_webgpu",
    "write_report",
]
