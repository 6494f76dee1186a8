from __future__ import annotations

import json

import pytest

from hubpublish.devices import runtime_names
from hubpublish.inspection import Group
from hubpublish.passes.removes import Problem
from hubpublish.webgpu import render
from tests.reports import report_of, variant_report

HALF = """<ir_version: 8, opset_import: ["": 17]>
g (float16[64] x) => (float16[64] y) { y = Add (x, x) }"""


def test_says_for_each_file_what_to_ask_for() -> None:
    both = variant_report(), variant_report("onnx/model_fp16.onnx", "fp16", text=HALF)
    text = render(report_of(*both))
    assert text.endswith("}\n")
    document = json.loads(text)
    assert list(document) == ["schema", "runtimes", "files"]
    assert document["schema"] == 1
    assert document["runtimes"] == list(both[0].inspection.runtimes)
    sizes = {"maxStorageBufferBindingSize": 144, "maxBufferSize": 144}
    assert document["files"]["onnx/model.onnx"] == {
        "requiredLimits": {"maxStorageBuffersPerShaderStage": 7, **sizes},
        "requiredFeatures": [],
        "peakBytes": 592,
        "unknownSizes": 0,
        "declaredSizes": 0,
        "downloadBytes": both[0].output[0].size,
    }
    assert document["files"]["onnx/model_fp16.onnx"]["requiredFeatures"] == ["shader-f16"]


def test_leaves_out_a_limit_that_is_not_known() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }'
    needs = json.loads(render(report_of(variant_report(text=text))))["files"]["onnx/model.onnx"]
    assert needs["requiredLimits"] == {"maxStorageBuffersPerShaderStage": 2}
    assert needs["unknownSizes"] == 2


def runtimes_of(*groups: Group) -> list[str]:
    variant = variant_report()
    inspection = variant.inspection.model_copy(update={"groups": groups})
    report = report_of(variant_report(), variant.model_copy(update={"inspection": inspection}))
    found: list[str] = json.loads(render(report))["runtimes"]
    return found


@pytest.mark.parametrize(
    ("problem", "op", "leaves"),
    [
        (Problem.STORAGE_BUFFERS, "Split", ["web-1.24"]),  # web-1.22 gives it 8, whatever the device grants
        (Problem.STORAGE_BUFFERS, "LSTM", ["web-1.22", "web-1.24"]),  # as many as are needed are asked for
        (Problem.FAILS, "GatherND", ["web-1.24"]),
        (Problem.EMPTY, "ScatterND", ["web-1.24"]),
        (Problem.NO_KERNEL, "Sum", ["web-1.22", "web-1.24"]),
    ],
)
def test_names_only_runtimes_on_which_that_is_enough(problem: Problem, op: str, leaves: list[str]) -> None:
    given = {"problem": problem, "op": op, "runtimes": ("web-1.22",)}
    words = {"dtype": "", "nodes": 1, "first": "n", "what": "is wrong", "happens": "fails"}
    sizes = {"bytes_from_gpu": 0, "bytes_to_gpu": 0, "passes": (), "believed": False}
    found = runtimes_of(Group.model_validate({**given, **words, **sizes}))
    assert [name for name in found if name in ("web-1.22", "web-1.24")] == leaves


def test_names_every_runtime_where_nothing_is_known_to_fail() -> None:
    assert runtimes_of() == list(runtime_names())
