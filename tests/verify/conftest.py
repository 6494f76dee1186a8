"""Models as ONNX text, runs and comparisons of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from hubpublish.recipe import InputSpec, VerifySpec
from hubpublish.verify import RunLimits, Verification, verify

OnnxFile = Callable[..., Path]
Verify = Callable[..., Verification]


@pytest.fixture
def onnx_file(tmp_path: Path) -> OnnxFile:
    """Writes a model: ``onnx_file("g (float[2] x) => (float[2] y) { y = Abs(x) }", w=array)``."""
    count = 0

    def write(text: str, *, opset: int = 21, ir: int = 10, name: str | None = None, **weights: Any) -> Path:
        nonlocal count
        count += 1
        model = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]> {text}')
        for key, array in weights.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), key))
        path = tmp_path / (name or f"model{count}.onnx")
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def check(tmp_path: Path) -> Verify:
    """``verify`` on one noise input, with the parts of the specification as keywords."""

    def run(
        original: Path,
        rewritten: Path,
        *,
        gate: Any = "exact",
        limits: RunLimits | None = None,
        cache: Path | None = None,
        given: Mapping[str, Any] | None = None,
        **inputs: Any,
    ) -> Verification:
        spec = VerifySpec(gate=gate, inputs=InputSpec(**{"noise": 1, **inputs}))
        return verify(
            original, rewritten, spec=spec, base_dir=tmp_path, limits=limits, cache=cache, given=given
        )

    return run


# A trip count that no machine reaches, so that only a limit ends it.
ENDLESS = """g (float[1] x, int64[1] n) => (float[1] y) {
  always = Constant<value: tensor = bool {1}>()
  trips = Constant<value: tensor = int64 {9000000000000000000}>()
  y = Loop(trips, always, x) <body = b (int64 i, bool c, float[1] before) => (bool d, float[1] after) {
    d = Identity(c)
    after = Cos(before)
  }>
}"""

# Legal, and ONNX Runtime 1.32 dies of the omitted outputs.
CRASHING = """g (float[20] x) => (float[1] o1) {
  "", o1, "", o3, "", o5, "", o7, "", o9, "", o11, "", o13, "", o15, "", o17, "", o19 = Split(x, sizes)
}"""
CRASHING_SIZES = np.ones(20, np.int64)
