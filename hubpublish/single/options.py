"""Options of the commands on single files, as the command line has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from hubpublish.devices import PROFILES, Profile
from hubpublish.devices.runtimes import Runtime, read_runtime, runtime_names
from hubpublish.errors import HubpublishError, UsageError
from hubpublish.inspection import Auto
from hubpublish.passes import PASSES, RewritePass
from hubpublish.recipe import PassSpec
from hubpublish.recipe.messages import message
from hubpublish.recipe.types import nearest, shown

_T = TypeVar("_T")


def parse_passes(texts: Sequence[str]) -> tuple[RewritePass[Any], ...] | Auto:
    """What ``--pass``, repeated, asks for.

    Nothing asks for every exact pass but those that tidy or make files smaller, ``auto`` for those that
    remove what stands in the way on the device, and those that make any file smaller.

    Raises:
        UsageError: A pass or an option is unknown, or ``auto`` is not alone.
    """
    if "auto" in texts:
        if len(texts) > 1:
            raise UsageError(
                "auto chooses all passes", where="--pass auto", hint="leave out auto, or all others"
            )
        return Auto()
    if not texts:
        return tuple(each() for each in PASSES.values() if each.exact and each.by_default)
    return tuple(parse_pass(text).build() for text in texts)


def parse_pass(text: str) -> PassSpec:
    """``name`` or ``name:key=value,...`` as a pass with its options; values as in YAML.

    Raises:
        UsageError: The pass or an option is unknown, or a value is not one.
    """
    name, _, rest = text.partition(":")
    options = {}
    for pair in filter(None, _split(rest)):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"{pair!r} is no option of a pass", where=f"--pass {text}", hint="write key=value"
            )
        options[key.strip()] = _scalar(value, f"--pass {text}")
    known = PASSES[name].Options.model_fields if name in PASSES else ()
    return valid(lambda: PassSpec.model_validate({"name": name, "options": options}), f"--pass {text}", known)


def _split(text: str) -> list[str]:
    """At the commas that are not within brackets: an option may be a list or a mapping, as in YAML."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _scalar(text: str, where: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"{text!r} is no value", where=where, hint="write key=value") from None


def parse_gate(text: str) -> str | dict[str, object]:
    """``exact``, ``exact_unoptimized``, or bounds as ``max_abs=1e-3,mean_abs=1e-5``."""
    if "=" not in text:
        return text
    pairs = (pair.partition("=") for pair in text.split(","))
    bounds: dict[str, object] = {}
    for key, _, value in pairs:
        try:
            bounds[key.strip()] = float(value)
        except ValueError:
            raise UsageError(
                f"{value!r} is no number", where=f"--gate {text}", hint="write max_abs=1e-3"
            ) from None
    return bounds


def find_profile(name: str) -> Profile:
    """The device profile of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in PROFILES:
        raise UsageError(f"unknown device {name!r}", where="--device", hint=nearest(name, PROFILES))
    return PROFILES[name]


def find_runtime(name: str) -> Runtime:
    """The runtime of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in runtime_names():
        hint = f"known: {', '.join(runtime_names())}"
        raise UsageError(f"unknown runtime {name!r}", where="--runtime", hint=hint)
    return read_runtime(name)


def valid(make: Callable[[], _T], where: str | None = None, known: Iterable[str] = ()) -> _T:
    """The result of ``make``, its validation errors as errors of usage.

    Args:
        make: Makes a part of a recipe.
        where: The option that it comes from; None: the recipe's name for it.
        known: Keys that may be given.
    """
    try:
        return make()
    except HubpublishError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][-1]) if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            text = f"unknown key {name!r}; {nearest(name, known)}"
        elif first["type"] == "recipe":
            text = first["msg"]
        elif first["type"] == "int_parsing":
            text = f"{name} must be a whole number, not {shown(first['input'])}"
        else:
            text = message(first, (name,) if where else first["loc"][1:])
        place = where or f"--{str(first['loc'][0]).rstrip('s')}"
        see = "see `hubpublish passes`" if place.startswith("--pass") else "see `hubpublish verify --help`"
        raise UsageError(text, where=place, hint=see) from None
