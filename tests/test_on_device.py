from __future__ import annotations

from hubpublish.inspection import Requirements
from hubpublish.inspection.requirements import RequiredLimits
from hubpublish.on_device import device_rows, needs_in_words, obstacle_rows, runtimes_in_words
from tests.reports import report_of, variant_report

HEADER = '<ir_version: 8, opset_import: ["": 17]>'


def test_figures_before_and_after() -> None:
    rows = {row.what: (row.before, row.after) for row in device_rows(variant_report())}
    assert rows["of them that do not compile, or fail"] == ("2", "0")
    assert rows["of them on the CPU"] == ("1", "0")
    assert rows["Copies from the GPU in a run"] == ("1 (144 B)", "0")
    assert rows["Copies to the GPU in a run"] == ("2 (288 B)", "0")
    assert rows["Largest tensor"] == ("144 B", "144 B")
    assert rows["Alive at once"][0] == "504 B, 72 B of it weights; below WebAssembly's 4 GiB"


def test_what_is_not_known_is_not_stated_as_a_figure() -> None:
    text = f"{HEADER} g (float[N] x) => (float[N] y) {{ s = Sum (x, x) y = Relu (s) }}"
    variant = variant_report(text=text, passes=("split_tree",))
    rows = {row.what: row.after for row in device_rows(variant)}
    assert rows["Copies to the GPU in a run"] == "1 (of unknown size)"
    assert rows["Largest tensor"] == "unknown"
    assert rows["Alive at once"] == "unknown"
    assert needs_in_words(variant.needs) == "2 storage buffers per shader, 3 tensors of unknown size"


def test_what_is_partly_known_is_at_least_so_much() -> None:
    text = f"""{HEADER} g (float[N] x, float[4] k) => (float[N] y, float[4] z) {{
      s = Sum (x, x) y = Relu (s) z = Relu (k) }}"""
    rows = {row.what: row.after for row in device_rows(variant_report(text=text, passes=("split_tree",)))}
    assert rows["Largest tensor"] == "at least 16 B"
    words = "at least 32 B, 0 B of it weights; unknown whether below WebAssembly's 4 GiB"
    assert rows["Alive at once"] == words


def test_what_is_left_is_named() -> None:
    text = f"{HEADER} g (float[4] x) => (float[4] y) {{ s = Round (x) y = Relu (s) }}"
    (row,) = obstacle_rows(variant_report(text=text, passes=("split_tree",)))
    assert (row.nodes, row.op, row.happens) == (1, "Round", "runs on the CPU")
    assert row.what.startswith("no kernel for Round")
    assert not [*obstacle_rows(variant_report())]


def test_needs_in_words() -> None:
    limits = RequiredLimits(
        maxStorageBuffersPerShaderStage=1, maxStorageBufferBindingSize=2**28, maxBufferSize=2**28
    )
    sizes = {"peakBytes": 0, "unknownSizes": 0, "declaredSizes": 0}
    needs = Requirements(requiredLimits=limits, requiredFeatures=("shader-f16",), **sizes)
    words = "1 storage buffer per shader, tensors of up to 256 MiB, the feature `shader-f16`"
    assert needs_in_words(needs) == words
    failing = needs.model_copy(update={"failsOn": ("web-1.22", "web-1.23")})
    assert needs_in_words(failing) == f"{words}, a runtime other than web-1.22 or web-1.23"


def test_the_runtime_is_named() -> None:
    report = report_of()
    assert runtimes_in_words(report).startswith("the worst of web-1.22, web-1.23, ")
    one = report.variants[0].inspection.model_copy(update={"runtimes": ("web-1.30",)})
    variant = report.variants[0].model_copy(update={"inspection": one})
    assert runtimes_in_words(report_of(variant)) == "web-1.30"
