"""A recipe: one publication as data, read from YAML with the line of everything that is wrong in it."""

from hubpublish.recipe.models import (
    CardSpec,
    CopiedFile,
    DataFile,
    DeviceSpec,
    Recipe,
    Source,
    Target,
    Variant,
)
from hubpublish.recipe.pass_spec import PassSpec
from hubpublish.recipe.reader import load, loads
from hubpublish.recipe.schema import json_schema
from hubpublish.recipe.verify_spec import Gate, InputSpec, Tolerance, VerifySpec, WebGpuSpec
from hubpublish.recipe.writer import checked_target, dumps, resolved, target_repo, with_passes

__all__ = [
    "CardSpec",
    "CopiedFile",
    "DataFile",
    "DeviceSpec",
    "Gate",
    "InputSpec",
    "PassSpec",
    "Recipe",
    "Source",
    "Target",
    "Tolerance",
    "Variant",
    "VerifySpec",
    "WebGpuSpec",
    "checked_target",
    "dumps",
    "json_schema",
    "load",
    "loads",
    "resolved",
    "target_repo",
    "with_passes",
]
