"""Models for the tests of what runs where, and what the native plugin says of them, where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from hubpublish.devices.loaded import load_like_a_runtime
from hubpublish.devices.placement import Placement, Side, place
from hubpublish.devices.runtimes import read_runtime
from hubpublish.model.statistics import op_name

NATIVE = "native-0.4.0"

PROGRAM = """
import json, sys
import onnx, onnxruntime, onnxruntime_ep_webgpu as plugin
onnxruntime.set_default_logger_severity(4)
onnxruntime.register_execution_provider_library("webgpu", plugin.get_library_path())
found = [each for each in onnxruntime.get_ep_devices() if each.ep_name == plugin.get_ep_name()]
if not found:
    sys.exit(77)
for path in sys.argv[1:]:
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(found[:1], {})
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.optimized_model_filepath = path + ".optimized"
    session = onnxruntime.InferenceSession(path, options)
    on_cpu = [n.op_type for each in session.get_provider_graph_assignment_info()
              if each.ep_name == "CPUExecutionProvider" for n in each.get_nodes()]
    graphs, copies = [onnx.load(path + ".optimized", load_external_data=False).graph], []
    while graphs:
        nodes = graphs.pop().node
        copies += [n.op_type for n in nodes if n.op_type.startswith("Memcpy")]
        graphs += [a.g for n in nodes for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    print(json.dumps({"on_cpu": sorted(on_cpu), "copies": sorted(copies)}))
"""

CASES = {
    "nothing on the CPU": "g (float[4] x) => (float y) { a = Relu (x) y = Sin (a) }",
    "no kernel": "g (float[4] x) => (float y) { a = Relu (x) b = Sum (a, a) y = Sin (b) }",
    "no kernel for the type": """g (float[4] x) => (float y) {
        i = Cast <to = 7> (x) j = Add (i, i) k = Cast <to = 1> (j) y = Relu (k) }""",
    "int32 has one": """g (float[4] x) => (float y) {
        i = Cast <to = 6> (x) j = Add (i, i) k = Cast <to = 1> (j) y = Relu (k) }""",
    "one copy for two readers": """g (float[4] x) => (float y) {
        a = Relu (x) b = Sum (a, a) c = Sum (a, b) d = Sin (b) e = Cos (b) f = Add (d, e) y = Mul (f, c) }""",
    "an input for both": "g (float[4] x) => (float y) { a = Sum (x, x) b = Relu (x) y = Mul (a, b) }",
    "an output for the CPU too": "g (float[4] x) => (float y, float z) { z = Relu (x) y = Sum (z, z) }",
    "constants fold": """g (float[4] x) => (float y) {
        a = Constant <value = int64[1] {4}> () b = Add (a, a) c = Div (b, a) d = Mul (c, a)
        e = Reshape (x, d) y = Relu (e) }""",
    "a constant for both": """g (float[4] x) => (float y) {
        w = Constant <value = float[4] {1, 2, 3, 4}> () a = Relu (x) b = Sum (a, w) c = Mul (a, w)
        y = Add (b, c) }""",
    "the shape of a tensor folds": """g (float[4] x) => (float y) {
        a = Relu (x) s = Shape (a) t = Add (s, s) u = Div (t, s) v = Tile (a, u) y = Sin (v) }""",
    "a shape that is not fixed": """g (float[N,4] x) => (float y) {
        z = Constant <value = int64 {0}> () m = Constant <value = int64[1] {-1}> ()
        s = Shape (x) a = Gather (s, z) b = Unsqueeze (a, m) c = Concat <axis = 0> (b, m)
        y = Reshape (x, c) }""",
    "numbers from a shape": """g (float[N,4] x) => (float y) {
        s = Shape (x) f = Cast <to = 1> (s) p = ReduceProd <keepdims = 0> (f) y = Add (x, p) }""",
    "the size of a tensor": """g (float[N,4] x) => (float y) {
        r = Relu (x) s = Size (r) f = Cast <to = 1> (s) y = Add (r, f) }""",
    "equal nodes": """g (float[4] x) => (float y) {
        s = Constant <value = int64[2] {2, 2}> () t = Constant <value = int64[2] {2, 2}> ()
        i = Cast <to = 7> (x) a = Reshape (i, s) b = Reshape (i, t) c = Abs (a) d = Neg (b) e = Mul (c, d)
        f = Cast <to = 1> (e) y = Relu (f) }""",
    "nodes that change nothing": """g (float[4] x) => (float y) {
        z = Constant <value = int64[1] {0}> () a = Relu (x) i = Cast <to = 7> (a) j = Add (i, z)
        k = Cast <to = 7> (j) l = Identity (k) y = Gather (a, l) }""",
    "dead nodes": "g (float[4] x) => (float y) { a = Relu (x) d = Sum (a, a) y = Sin (a) }",
    "on the host for a kernel": """g (float[4] x) => (float y) {
        r = Relu (x) i = Cast <to = 7> (r) y = Expand (r, i) }""",
    "half precision": """g (float16[4] x) => (float16 y) { a = Relu (x) b = Sum (a, a) y = Sin (b) }""",
    "largest of a few": """g (float[N,4] x) => (float y) {
        k = Constant <value = int64[1] {2}> () v, i = TopK (x, k) j = Add (i, i) f = Cast <to = 1> (j)
        y = Add (v, f) }""",
    "an If": """g (float[4] x) => (float[4] y) {
        r = Relu (x) m = ReduceMax <keepdims = 0> (r) z = Constant <value = float {0}> ()
        b = Greater (m, z)
        y = If (b) <then_branch = t () => (float[4] p) { p = Sum (r, r) },
                    else_branch = e () => (float[4] q) { q = Sin (r) }> }""",
    "a type out of an If": """g (bool c, float[4] x) => (float y) {
        a = If (c) <then_branch = t () => (int64[4] p) { p = Cast <to = 7> (x) },
                    else_branch = e () => (int64[4] q) { r = Sin (x) q = Cast <to = 7> (r) }>
        b = Add (a, a) d = Cast <to = 1> (b) y = Relu (d) }""",
    "a Loop": """g (float[4] x) => (float[4] y) {
        r = Relu (x) n = Constant <value = int64 {3}> () c = Constant <value_int = 1> () b = Cast <to = 9> (c)
        y = Loop (n, b, r) <body = l (int64 i, bool ci, float[4] v) => (bool co, float[4] w) {
            co = Identity (ci) w = Sin (v) }> }""",
    "a pool of a later opset": "g (float[1,4,8,8] x) => (float y) { a = Relu (x) y = GlobalAveragePool (a) }",
}
OPSETS = {"a pool of a later opset": 22}


def case(name: str) -> onnx.ModelProto:
    """A model of `CASES`."""
    head = f'<ir_version: 9, opset_import: ["": {OPSETS.get(name, 17)}]>'
    return onnx.parser.parse_model(f"{head}\n{CASES[name]}")


def placed(proto: onnx.ModelProto, runtime: str = NATIVE) -> Placement:
    """Where its nodes run."""
    return place(load_like_a_runtime(ir.from_proto(proto)), [read_runtime(runtime)])


def predicted(placement: Placement) -> dict[str, Any]:
    """In the form of what the plugin says."""
    names = {True: "MemcpyToHost", False: "MemcpyFromHost"}
    return {
        "on_cpu": sorted(op_name(node) for node, _ in placement.on(Side.CPU)),
        "copies": sorted(names[copy.to_host] for copy in placement.copies),
    }


def measured(paths: list[Path]) -> list[dict[str, Any]]:
    """What the plugin does with models; the test is skipped where it or a device is missing."""
    pytest.importorskip("onnxruntime_ep_webgpu")
    environment = {"ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1", "XDG_RUNTIME_DIR": "/tmp", **os.environ}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, paths)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode == 77:
        pytest.skip("there is no WebGPU device")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def sides(placement: Placement) -> dict[Side, Counter[str]]:
    """Operators by side."""
    return {side: Counter(op_name(node) for node, _ in placement.on(side)) for side in Side}
