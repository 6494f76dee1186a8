from __future__ import annotations

import json
from importlib.resources import files

import onnx

from hubpublish.devices import PROFILES


def test_profiles_have_a_name_and_limits() -> None:
    assert next(iter(PROFILES)) == "webgpu-min"
    for name, profile in PROFILES.items():
        assert profile.name == name
        assert profile.summary
        assert profile.storage_buffers >= 8
        assert profile.max_buffer_bytes >= profile.max_binding_bytes


def test_the_least_is_that_of_the_specification() -> None:
    least = PROFILES["webgpu-min"]
    assert (least.storage_buffers, least.max_binding_bytes, least.max_buffer_bytes) == (8, 2**27, 2**28)
    assert not least.shader_f16


def test_the_table_names_operators_that_exist() -> None:
    data = json.loads(files("hubpublish.devices").joinpath("operators.json").read_text("utf-8"))
    known = {schema.name: schema for schema in onnx.defs.get_all_schemas()}
    assert set(data["without_shader"]) <= known.keys()
    for op, indices in data["host_inputs"].items():
        assert max(indices) < known[op].max_input, op
