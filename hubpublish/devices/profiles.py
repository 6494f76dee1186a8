"""Device profiles, read from ``profiles.json``. To add one, add an entry there."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

from pydantic import BaseModel, ConfigDict


class Profile(BaseModel):
    """The limits that a kind of device grants.

    Attributes:
        storage_buffers: Tensors that one shader can bind (maxStorageBuffersPerShaderStage).
        max_binding_bytes: Bytes of one binding (maxStorageBufferBindingSize).
        max_buffer_bytes: Bytes of one buffer (maxBufferSize).
        shader_f16: Whether shaders can compute in half precision (feature ``shader-f16``).

    The source of the first profile is the table of default limits in the WebGPU specification.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    summary: str
    storage_buffers: int
    max_binding_bytes: int
    max_buffer_bytes: int
    shader_f16: bool


def _read() -> dict[str, Profile]:
    data = json.loads(files("hubpublish.devices").joinpath("profiles.json").read_text("utf-8"))
    return {name: Profile(name=name, **limits) for name, limits in data.items()}


PROFILES: Final[dict[str, Profile]] = _read()
