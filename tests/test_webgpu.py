from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hubpublish.webgpu import render
from tests.reports import report_of, variant_report

HALF = """<ir_version: 8, opset_import: ["": 17]>
g (float16[64] x) => (float16[64] y) { y = Add (x, x) }"""
GATHER_ND = """<ir_version: 9, opset_import: ["": 17]>
g (float[1,4,4,4,4] x, int64[1,4,2,2] at) => (float[1,4,2,4] y)
{ a = Relu (x) y = GatherND <batch_dims = 2> (a, at) }"""
NODE = shutil.which("node")


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


def test_says_in_which_runtimes_a_file_fails_or_leaves_nodes_on_the_cpu() -> None:
    needs = json.loads(render(report_of(variant_report(text=GATHER_ND))))["files"]["onnx/model.onnx"]
    assert (needs["failsOn"], needs["onCpu"], needs["undecided"]) == (["web-1.22"], {"web-1.23": 1}, 0)


def test_leaves_out_a_limit_that_is_not_known() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }'
    needs = json.loads(render(report_of(variant_report(text=text))))["files"]["onnx/model.onnx"]
    assert needs["requiredLimits"] == {"maxStorageBuffersPerShaderStage": 2}
    assert needs["unknownSizes"] == 2


@pytest.mark.skipif(not NODE, reason="there is no Node.js")
class TestTheSnippet:
    """README's JavaScript, run as an app would run it."""

    @staticmethod
    def asked(document: object, adapter: object, runtime: str = "web-1.30", gpu: str = "navigator") -> str:
        """The file that the snippet takes; "undefined": none."""
        text = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
        (code,) = (each for each in re.findall(r"```js\n(.*?)```", text, re.DOTALL) if "webgpu.json" in each)
        code = code.replace("'web-1.30'", json.dumps(runtime))
        given = f"""
        const device = {json.dumps(adapter)};
        if (device) device.features = new Set(device.features);
        Object.defineProperty(globalThis, 'navigator', {{ value: {{
          gpu: {"undefined" if gpu == "none" else "{ requestAdapter: async () => device }"} }} }});
        globalThis.fetch = async (url) => {{
          if (!url.endsWith('/resolve/main/webgpu.json')) throw new Error(url);
          return {{ json: async () => ({json.dumps(document)}) }};
        }};
        """
        script = f"{given}\n{code}\nconsole.log(path);"
        command = [NODE or "", "--input-type=module", "-"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @staticmethod
    def document(text: str | None = None) -> dict[str, Any]:
        half = variant_report("onnx/model_fp16.onnx", "fp16", text=HALF)
        found: dict[str, Any] = json.loads(render(report_of(variant_report(text=text), half)))
        return found

    @staticmethod
    def adapter(*features: str, slots: int = 8) -> dict[str, Any]:
        sizes = {"maxStorageBufferBindingSize": 2**27, "maxBufferSize": 2**28}
        return {"limits": {"maxStorageBuffersPerShaderStage": slots, **sizes}, "features": features}

    def test_takes_the_file_that_the_device_runs(self) -> None:
        document = self.document()
        assert self.asked(document, self.adapter()) == "onnx/model.onnx"
        assert self.asked(document, self.adapter("shader-f16")) == "onnx/model_fp16.onnx"
        assert self.asked(document, self.adapter(slots=6)) == "undefined"

    def test_takes_none_where_there_is_no_device(self) -> None:
        assert self.asked(self.document(), None) == "undefined"
        assert self.asked(self.document(), None, gpu="none") == "undefined"

    def test_takes_none_that_fails_in_the_runtime(self) -> None:
        document = self.document(GATHER_ND)
        assert self.asked(document, self.adapter(), "web-1.22") == "undefined"
        assert self.asked(document, self.adapter(), "web-1.30") == "onnx/model.onnx"

    def test_is_not_certain_of_what_is_not_known(self) -> None:
        free = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }'
        assert self.asked(self.document(free), self.adapter()) == "undefined"
        assert self.asked(self.document(), self.adapter(), "web-9.9") == "undefined"
