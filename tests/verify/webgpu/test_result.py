from __future__ import annotations

from typing import Any

import pytest

from hubpublish.verify.result import Distance, OutputComparison
from hubpublish.verify.webgpu.result import WebGpuRun


def run_with(**changes: Any) -> WebGpuRun:
    distance = Distance(elements=9, **{"differing": 2, "max_abs": 4.6e-4, **changes})
    output = OutputComparison(name="y", dtype="float32", shape=(9,), identical=False, distance=distance)
    return WebGpuRun(model="rewritten", status="ok", on_gpu=1, outputs=(output,))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "'y' differs from the CPU's by 0.00046 at most"),
        ({"differing": 0}, "'y' equals the CPU's"),
        ({"max_abs": None}, "'y' differs from the CPU's in 2 of 9 values"),
        (
            {"nonfinite_differing": 1},
            "'y' differs from the CPU's by 0.00046 at most, and 1 value is NaN or infinite in only one",
        ),
    ],
)
def test_what_came_out_is_told(changes: dict[str, Any], words: str) -> None:
    told = str(run_with(**changes))
    assert told == f"1 node on the GPU, 0 on the CPU; 0 copies to the GPU and 0 from it in a run; {words}"


def test_another_shape_is_no_distance() -> None:
    output = OutputComparison(name="y", dtype="float32", shape=(9,), identical=False, mismatch="shape [1, 9]")
    run = WebGpuRun(model="rewritten", status="ok", on_gpu=1, outputs=(output,))
    assert str(run).endswith("'y' is not to be compared with the CPU's: another shape [1, 9]")
    assert run.max_abs is None


def test_the_last_words_of_an_error_are_what_is_wrong() -> None:
    error = "[ONNXRuntimeError] : /src/shader_helper.cc:306 limits_ was false. Too many storage buffers"
    assert str(WebGpuRun(model="original", status="fails", error=error)) == "fails: Too many storage buffers"
