"""What the texts of a recipe may be: repo ids, paths, hashes, revisions, one line, prose.

Each is an `Annotated` string whose check raises a `problem`: a sentence fragment that reads well
behind the name of the key, which the reader puts in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from hubpublish.regions import NAME

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable, as `target.repo` may hold it."""

IN_A_TAG = ("source", "key")
"""What `target.tag` may hold in braces."""

_HUB_URL = re.compile(r"^(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?:models/)?([^/\s]+/[^/\s?#]+)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_NOT_IN_A_REVISION = re.compile(r"[\s~^:?*\[\\\x00-\x1f\x7f\ud800-\udfff]|\.\.|@\{|//|^[-/]|[/.]$")
_NOT_IN_A_TAG = re.compile(rf"{_NOT_IN_A_REVISION.pattern}|(?:^|/)\.|\.lock(?:/|$)|[{{}}]|^refs/")


class RecipeModel(BaseModel):
    """What all parts of a recipe share: they never change, and know every key they may hold."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_alias=True, validate_by_name=True, allow_inf_nan=False
    )


def problem(text: str) -> PydanticCustomError:
    """An error for a validator to raise; `text` is shown as it is."""
    return PydanticCustomError("recipe", "{text}", {"text": text})


def shown(value: object) -> str:
    """A value as a message quotes it: on one line, escaped, and not longer than a line."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-1]}"


def closest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that was probably meant, if one is near enough."""
    names = list(valid)
    # Cut first: the comparison is quadratic.
    close = get_close_matches(name[:80], names, n=1) or get_close_matches(name[:80].lower(), names, n=1)
    return close[0] if close else None


def nearest(name: str, valid: Iterable[str]) -> str:
    """What to say behind an unknown name: the nearest valid one, or else all of them."""
    names = list(valid)
    if close := closest(name, names):
        return f"did you mean '{close}'?"
    return f"known: {', '.join(names)}" if names else "there are none"


def _repo_id(value: str) -> str:
    if found := _HUB_URL.match(value):
        raise problem(f"{shown(value)} is an address; write the repo id, '{found[1]}'")
    try:
        validate_repo_id(value)
    except HFValidationError:
        raise problem(
            f"{shown(value)} is not a repo id: 'owner/name', of letters, digits, '-', '_' and '.', without "
            "'--' or '..', with neither '-' nor '.' at an end, not ending with '.git', at most 96 characters"
        ) from None
    return value


def _fixed_repo_id(value: str) -> str:
    if VARIABLE.search(value):
        raise problem(f"{shown(value)} holds a variable, which may stand in target.repo alone: write a name")
    return _repo_id(value)


def target_repo_id(value: str) -> str:
    """Check a repo id to publish to, with no variable in it.

    Raises:
        PydanticCustomError: It is no repo id, or has no owner.
    """
    _repo_id(value)
    if "/" not in value:
        raise problem(f"{shown(value)} has no owner; write 'owner/{value}'")
    return value


def _target_template(value: str) -> str:
    filled = VARIABLE.sub("x", value)
    if "$" in filled:
        raise problem(
            f"{shown(value)} holds a '$' that begins no variable; a variable is written ${{NAME}}, "
            "of letters, digits and '_'"
        )
    # A variable may hold both the owner and the name, so without a '/' nothing is known yet.
    if filled == value or "/" in filled:
        target_repo_id(filled)
    else:
        _repo_id(filled)
    return value


def _path(value: str) -> str:
    parts = value.split("/")
    if not value or len(value) > 1024:
        raise problem("is no path" if not value else "is a path of more than 1024 characters")
    if _NOT_IN_A_LINE.search(value):
        raise problem(f"{shown(value)} holds a control character")
    if "\\" in value:
        raise problem(f"{shown(value)} holds a backslash; separate folders with '/'")
    if value.startswith("/") or re.match(r"[A-Za-z]:", value):
        raise problem(
            f"{shown(value)} is absolute; it must be relative to the repo, or to the recipe for an image"
        )
    if ".." in parts:
        raise problem(f"{shown(value)} leaves its folder; '..' is not allowed")
    if "" in parts or "." in parts:
        raise problem(f"{shown(value)} has an empty part; leave out './', '//' and a '/' at the end")
    if parts[0].lower() == ".git":
        raise problem(f"{shown(value)} is inside .git")
    if any(character in value for character in "*?"):
        raise problem(f"{shown(value)} is a pattern; name each file")
    return value


def _model_path(value: str) -> str:
    if not _path(value).endswith(".onnx"):
        raise problem(f"{shown(value)} does not end with .onnx")
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        found = "other characters" if len(value) == 64 else f"{len(value)} characters"
        raise problem(f"{shown(value)} is not a SHA-256: 64 hexadecimal digits, this has {found}")
    return value.lower()


def _revision(value: str) -> str:
    if not value or len(value) > 255 or _NOT_IN_A_REVISION.search(value):
        raise problem(f"{shown(value)} is not a branch, a tag or a commit")
    return value


def _tag(value: str) -> str:
    for found in re.findall(r"\{([^{}]*)\}", value):
        if found not in IN_A_TAG:
            raise problem(
                f"{shown(value)} holds {{{shown(found)[1:-1]}}}; a tag may hold {{source}} and {{key}}"
            )
    name = re.sub(r"\{[^{}]*\}", "0" * 12, value)
    if not name or len(name) > 255 or _NOT_IN_A_TAG.search(name) or _NOT_IN_A_LINE.search(name):
        raise problem(
            f"{shown(value)} is not a name that git has for a tag: no space or any of ~^:?*[\\{{}}, no '..', "
            "'//' or '@{', no '-' or '/' in front, no '.' before or '/', '.' or '.lock' behind a part"
        )
    if name in ("@", "HEAD", "main"):
        raise problem(f"{shown(value)} is what git or the Hub call something else; choose another name")
    if re.fullmatch(r"[0-9a-f]{40}", name):
        raise problem(f"{shown(value)} would be taken for a commit; choose another name")
    return value


def _region(value: str) -> str:
    if not re.fullmatch(NAME, value) or len(value) > 40:
        raise problem(
            f"{shown(value)} is not a name such as 'notes': at most 40 lower-case letters and digits, with a "
            "single '-' or '_' between them"
        )
    return value


def _line(value: str) -> str:
    if not value.strip():
        raise problem("is empty")
    if _NOT_IN_A_LINE.search(value):
        raise problem(f"{shown(value)} is more than one line, or holds a control character")
    return value


def _prose(value: str) -> str:
    if not value.strip():
        raise problem("is empty; leave the key out")
    if found := _CONTROL.search(value):
        raise problem(f"holds the control character U+{ord(found[0]):04X}")
    return value


def _license(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", value):
        lower = value.lower().replace(" ", "-")
        hint = f"; did you mean '{lower}'?" if re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", lower) else ""
        raise problem(f"{shown(value)} is not a license id of the Hub, such as 'mit' or 'apache-2.0'{hint}")
    return value


def _pipeline_tag(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value):
        raise problem(f"{shown(value)} is not a task of the Hub, such as 'image-segmentation'")
    return value


def _dtype(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", value):
        raise problem(f"{shown(value)} is not a short name, such as 'fp32', 'fp16' or 'q8'")
    return value


# In the file these two may look like numbers: the reader takes the text as it stands.
_ANY_SCALAR: dict[str, JsonValue] = {"type": ["string", "number"]}

RepoId = Annotated[str, AfterValidator(_fixed_repo_id)]
TargetRepo = Annotated[str, AfterValidator(_target_template)]
RelativePath = Annotated[str, AfterValidator(_path)]
ModelPath = Annotated[str, AfterValidator(_model_path), Field(json_schema_extra={"pattern": r"\.onnx$"})]
Sha256 = Annotated[
    str, AfterValidator(_sha256), Field(json_schema_extra={"pattern": "^[0-9a-fA-F]{64}$", **_ANY_SCALAR})
]
Revision = Annotated[str, AfterValidator(_revision), Field(json_schema_extra=_ANY_SCALAR)]
TagTemplate = Annotated[str, AfterValidator(_tag), Field(json_schema_extra=_ANY_SCALAR)]
RegionName = Annotated[
    str, AfterValidator(_region), Field(json_schema_extra={"pattern": f"^{NAME}$", "maxLength": 40})
]
Line = Annotated[str, AfterValidator(_line)]
Prose = Annotated[str, AfterValidator(_prose)]
License = Annotated[str, AfterValidator(_license)]
PipelineTag = Annotated[str, AfterValidator(_pipeline_tag)]
Dtype = Annotated[str, AfterValidator(_dtype)]
