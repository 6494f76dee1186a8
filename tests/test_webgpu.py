from __future__ import annotations

import json

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
        "failsOn": [],
        "onCpu": {},
        "undecided": 0,
        "downloadBytes": both[0].output[0].size,
    }
    assert document["files"]["onnx/model_fp16.onnx"]["requiredFeatures"] == ["shader-f16"]


def test_leaves_out_a_limit_that_is_not_known() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }'
    needs = json.loads(render(report_of(variant_report(text=text))))["files"]["onnx/model.onnx"]
    assert needs["requiredLimits"] == {"maxStorageBuffersPerShaderStage": 2}
    assert needs["unknownSizes"] == 2
