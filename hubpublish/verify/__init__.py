"""Proving that a rewritten model computes what the original does.

Every run of the runtime is a child process; original and rewritten are compared bit by bit at the
same optimization level.
"""

from hubpublish.verify.result import (
    Distance,
    InputResult,
    InputSummary,
    LevelResult,
    OutputComparison,
    RunMeasurement,
    Verification,
    verification_error,
)
from hubpublish.verify.runner import RunLimits
from hubpublish.verify.values import parse_input, parse_shape, parse_value
from hubpublish.verify.verifier import verify

__all__ = [
    "Distance",
    "InputResult",
    "InputSummary",
    "LevelResult",
    "OutputComparison",
    "RunLimits",
    "RunMeasurement",
    "Verification",
    "parse_input",
    "parse_shape",
    "parse_value",
    "verification_error",
    "verify",
]
