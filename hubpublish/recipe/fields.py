"""What the models say about a key: its type, the keys below it, whether it holds a text."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from hubpublish.recipe.models import CopiedFile, DeviceSpec


def key_types(model: type[BaseModel]) -> dict[str, Any]:
    """The keys that a mapping for this model may have, as a file spells them, with their types."""
    return {str(info.validation_alias or name): info.annotation for name, info in model.model_fields.items()}


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The model that a mapping for this type is read as, if it is one."""
    models = [each for each in _members(annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if models else None


def item_type(annotation: Any) -> Any:
    """The type of a tuple's items, or of a dict's values; None if it is neither."""
    for each in _members(annotation):
        arguments = get_args(each)
        if get_origin(each) is tuple:
            return arguments[0]
        if get_origin(each) is dict:
            return arguments[1]
    return None


def holds_text(annotation: Any) -> bool:
    """Whether a scalar stands here for its text, whatever it looks like."""
    # These two models stand for the text of their first field.
    return any(each in {str, CopiedFile, DeviceSpec} for each in _members(annotation))


def _members(annotation: Any) -> list[Any]:
    """The types of a union, or the one type, without their annotations."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        members = [member for each in get_args(annotation) for member in _members(each)]
        return [member for member in members if member is not NoneType]
    return [annotation]
