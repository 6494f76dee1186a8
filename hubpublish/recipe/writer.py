"""From a Recipe to its file, and to the recipe of what was in fact published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel

from hubpublish.errors import RecipeError
from hubpublish.recipe.document import CORE_SCHEMA
from hubpublish.recipe.models import CopiedFile, DeviceSpec, Recipe, Variant
from hubpublish.recipe.pass_spec import PassSpec
from hubpublish.recipe.types import VARIABLE, target_repo_id

_SHORT = 90


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or 1.2 would not read as a text; short lists of scalars on one line."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        # Lists are indented below their key, as people write them.
        super().increase_indent(flow, False)


for _tag, _pattern, _first in CORE_SCHEMA:
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)


class _Document(dict[str, Any]):
    """The whole of a file: never on one line, however short."""


def _represent_document(dumper: yaml.SafeDumper, data: _Document) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)


def _represent_list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=_fits_a_line(data))


def _represent_dict(dumper: yaml.SafeDumper, data: dict[str, Any]) -> yaml.Node:
    flow = not data or (all(not isinstance(value, str) for value in data.values()) and _fits_a_line(data))
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=flow)


def _represent_text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


def _fits_a_line(data: list[Any] | dict[str, Any]) -> bool:
    items = data.values() if isinstance(data, dict) else data
    return not any(isinstance(item, dict) for item in items) and len(str(data)) <= _SHORT


_Dumper.add_representer(_Document, _represent_document)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(dict, _represent_dict)
_Dumper.add_representer(str, _represent_text)


def dumps(recipe: Recipe) -> str:
    """The recipe as YAML, keys in the documented order; `loads` gives an equal recipe.

    Whatever has a value is written, defaults included; options and lists that are not set are not.
    """
    return to_yaml(plain(recipe))


def to_yaml(data: Mapping[str, Any]) -> str:
    """Plain data as YAML in the style of a recipe."""
    return yaml.dump(_Document(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def plain(value: Any) -> Any:
    """A part of a recipe as the lists, mappings and scalars that a file has for it."""
    if isinstance(value, PassSpec):
        return value.model_dump(mode="json")
    if isinstance(value, CopiedFile) and value.sha256 is None:
        return value.path
    if isinstance(value, DeviceSpec) and value == DeviceSpec(profile=value.profile):
        return value.profile
    if isinstance(value, BaseModel):
        fields = ((info, name, getattr(value, name)) for name, info in type(value).model_fields.items())
        return {
            str(info.serialization_alias or name): plain(found)
            for info, name, found in fields
            if not (found in (None, (), {}) and found == info.get_default(call_default_factory=True))
        }
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def target_repo(recipe: Recipe, environ: Mapping[str, str]) -> str:
    """The repo to publish to, with the variables of the environment filled in.

    Raises:
        RecipeError: A variable is unset or empty (kind ``target_unset``), or the outcome is no repo
            id, has no owner, or is the source.
    """
    template = recipe.target.repo
    unset = sorted({name for name in VARIABLE.findall(template) if not environ.get(name)})
    if unset:
        raise RecipeError(
            f"target.repo is '{template}', but {' and '.join(unset)} is not set",
            hint=f"export {unset[0]}=..., or name the repo with --target owner/name",
            kind="target_unset",
            details={"variables": unset},
        )
    repo = VARIABLE.sub(lambda found: environ[found[1]], template)
    return checked_target(recipe, repo)


def checked_target(recipe: Recipe, repo: str) -> str:
    """A repo to publish to, given in place of the recipe's.

    Raises:
        RecipeError: It is no repo id, has no owner, or is the source.
    """
    try:
        target_repo_id(repo)
    except ValueError as error:
        raise RecipeError(f"target.repo: {error}", hint="name a repo such as owner/name") from None
    if repo.lower() == recipe.source.repo.lower():
        raise RecipeError(f"target.repo is the source, '{repo}'", hint="publish to a repo of its own")
    return repo


def with_passes(recipe: Recipe, chosen: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> Recipe:
    """The recipe with the passes that were applied in place of every ``auto``, which may choose others later.

    Args:
        recipe: As it was run.
        chosen: By the path of each variant the passes that were applied to it, as names with options.
    """
    specs = {
        path: tuple(
            PassSpec.model_validate({"name": name, "options": dict(options)}) for name, options in its
        )
        for path, its in chosen.items()
    }
    of_all = [each.path for each in recipe.variants if each.passes is None]
    common = specs[of_all[0]] if recipe.passes == "auto" and of_all else recipe.passes

    def passes_of(variant: Variant) -> tuple[PassSpec, ...] | None:
        asked = recipe.passes if variant.passes is None else variant.passes
        if asked != "auto":
            return variant.passes  # type: ignore[return-value]
        return None if variant.passes is None and specs[variant.path] == common else specs[variant.path]

    variants = tuple(each.model_copy(update={"passes": passes_of(each)}) for each in recipe.variants)
    changed = recipe.model_copy(update={"passes": common, "variants": variants})
    return Recipe.model_validate(changed.model_dump())


def resolved(recipe: Recipe, *, commit: str, target: str, copied: Mapping[str, str]) -> Recipe:
    """The recipe of exactly this publication: nothing in it can move.

    Args:
        recipe: As it was written.
        commit: The commit that the source's revision resolved to.
        target: The repo that is published to.
        copied: SHA-256 of every copied file by path, those that were added to the recipe's included.

    Raises:
        ValueError: A file that the recipe copies is not among ``copied``.
    """
    missing = [each.path for each in recipe.source.copy_files if each.path not in copied]
    if missing:
        raise ValueError(f"no SHA-256 of {', '.join(missing)}")
    order = [each.path for each in recipe.source.copy_files]
    paths = [*order, *(path for path in copied if path not in order)]
    files = tuple(CopiedFile(path=path, sha256=copied[path]) for path in paths)
    changed = recipe.model_copy(
        update={
            "source": recipe.source.model_copy(update={"revision": commit, "copy_files": files}),
            "target": recipe.target.model_copy(update={"repo": target}),
        }
    )
    return Recipe.model_validate(changed.model_dump())
