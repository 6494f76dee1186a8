from __future__ import annotations

from typing import Any

import pytest

from hubpublish.recipe import Tolerance
from hubpublish.verify import gate
from hubpublish.verify.result import Distance, InputResult, LevelResult, OutputComparison


def out(differing: int = 0, own: Distance | None = None, **figures: Any) -> OutputComparison:
    distance = Distance(elements=10, differing=differing, **figures)
    return OutputComparison(
        name="y", dtype="float32", shape=(10,), identical=differing == 0, distance=distance, own=own
    )


def far(differing: int = 1, **figures: Any) -> Distance:
    return Distance(elements=10, differing=differing, **figures)


SAME = out()
OTHER_SHAPE = OutputComparison(name="y", dtype="float32", shape=(1,), identical=False, mismatch="shape [2]")


@pytest.mark.parametrize("level", ["disabled", "default"])
def test_exact_allows_nothing(level: Any) -> None:
    assert gate.violation("exact", level, [SAME]) is None
    reason = gate.violation("exact", level, [SAME, out(3, max_abs=0.25, own=far(max_abs=9))])
    assert reason == "output 'y' differs in 3 of 10 values, by 0.25 at most"
    assert "another shape [2]" in str(gate.violation("exact", level, [OTHER_SHAPE]))


@pytest.mark.parametrize(
    ("output", "passes"),
    [
        (SAME, True),
        (out(5, max_abs=0.5, own=far(max_abs=0.5)), True),
        (out(5, max_abs=0.5001, own=far(max_abs=0.5)), False),
        (out(5, max_abs=0.5), False),
        (out(5, max_abs=0.1, nonfinite_differing=1, own=far(max_abs=0.5)), False),
        (out(5, max_abs=0.1, nonfinite_differing=1, own=far(max_abs=0.5, nonfinite_differing=1)), True),
        (out(1, own=far(1)), True),
        (out(2, own=far(1)), False),
        (OTHER_SHAPE, False),
    ],
)
def test_at_the_default_level_no_further_apart_than_its_own_levels(
    output: OutputComparison, passes: bool
) -> None:
    assert (gate.violation("exact_unoptimized", "default", [output]) is None) is passes
    assert (gate.violation("exact_unoptimized", "disabled", [output]) is None) is output.identical


@pytest.mark.parametrize(
    ("bounds", "output", "passes"),
    [
        ({"max_abs": 0.5}, out(1, max_abs=0.5), True),
        ({"max_abs": 0.5}, out(1, max_abs=0.6), False),
        ({"max_abs": 0.5, "mean_abs": 0.1}, out(1, max_abs=0.4, mean_abs=0.2), False),
        ({"max_abs": 0.5}, out(1, max_abs=0.1, nonfinite_differing=1), False),
        ({"mean_sigmoid": 0.5}, out(1, max_abs=3.0), False),  # an integer output has no sigmoid
        ({"mean_sigmoid": 0.5}, SAME, True),
        ({"max_abs": 0.0}, out(1, max_abs=0.0), True),
        ({"max_abs": 1.0}, OTHER_SHAPE, False),
    ],
)
def test_tolerances(bounds: dict[str, float], output: OutputComparison, passes: bool) -> None:
    for level in ("disabled", "default"):
        assert (gate.violation(Tolerance(**bounds), level, [output]) is None) is passes  # type: ignore[arg-type]


def test_the_strongest_gate_that_holds() -> None:
    def levels(default: OutputComparison, disabled: OutputComparison = SAME) -> list[LevelResult]:
        return [
            LevelResult(level=level, inputs=(InputResult(label="", status="compared", outputs=(output,)),))  # type: ignore[arg-type]
            for level, output in (("disabled", disabled), ("default", default))
        ]

    near = out(1, max_abs=0.1, own=far(max_abs=0.2))
    tolerance = Tolerance(max_abs=0.5)
    assert gate.held(tolerance, levels(SAME)) == "exact"
    assert gate.held(tolerance, levels(near)) == "exact_unoptimized"
    assert gate.held(tolerance, levels(near, disabled=out(1, max_abs=0.1))) == "tolerance"
    assert gate.held("exact", levels(out(1, max_abs=0.1))) is None
