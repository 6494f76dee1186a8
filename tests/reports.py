"""Reports for tests, made of real rewrites and of figures that were made up."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from hubpublish import recipe as recipes
from hubpublish.devices import PROFILES, Device
from hubpublish.model import sha256_of
from hubpublish.recipe import CardSpec, Recipe
from hubpublish.recipe.writer import plain
from hubpublish.report import FileRecord, Report, SourceReport, VariantReport
from hubpublish.rewrite import rewrite
from hubpublish.source import FetchedVariant, SourceFile
from hubpublish.verify import (
    Distance,
    InputResult,
    InputSummary,
    OutputComparison,
    Verification,
)
from hubpublish.verify.result import LevelResult, TensorSummary
from hubpublish.verify.webgpu.result import Adapter, WebGpuRun, WebGpuVerification
from tests.publication import SOURCE, TARGET, model_bytes, recipe_data

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def distance(differing: int = 0, max_abs: float = 0.0) -> Distance:
    return Distance(elements=1500, differing=differing, max_abs=max_abs, mean_abs=max_abs / 2)


def verification(
    *, held: str = "exact", gate: Any = "exact", default: Distance | None = None, own: Distance | None = None
) -> Verification:
    """One that passed, on one input with one output."""

    def level(name: str, found: Distance, own: Distance | None = None) -> LevelResult:
        output = OutputComparison(
            name="y", dtype="float32", shape=(1500,), identical=found.identical, distance=found, own=own
        )
        result = InputResult(label="noise 0", status="compared", outputs=(output,))
        return LevelResult(level=name, inputs=(result,))  # type: ignore[arg-type]

    tensor = TensorSummary(name="x", dtype="float32", shape=(2, 18), sha256="a" * 64)
    return Verification(
        gate=gate,
        passed=True,
        held=held,  # type: ignore[arg-type]
        runtime="onnxruntime 1.99.0",
        provider="CPUExecutionProvider",
        threads=1,
        levels=(level("disabled", distance()), level("default", default or distance(), own)),
        inputs=(InputSummary(label="noise 0", tensors=(tensor,)),),
        depends_on_input=True,
    )


def on_webgpu(**changes: Any) -> WebGpuVerification:
    """One that passed: the original fails, the rewritten model runs."""
    wrong = "[ONNXRuntimeError] Too many storage buffers in shader. Current: 10, Max is 8"
    output = OutputComparison(
        name="y", dtype="float32", shape=(1500,), identical=False, distance=distance(7, 4.6e-4)
    )
    fields: dict[str, Any] = {
        "passed": True,
        "adapter": Adapter(
            names=("llvmpipe",), runtime="onnxruntime 1.99.0 with a plugin", storage_buffers=8, asked=8
        ),
        "input": "noise 0",
        "runs": (
            WebGpuRun(model="original", status="fails", error=wrong),
            WebGpuRun(model="rewritten", status="ok", on_gpu=12, on_cpu={"Round": 1}, outputs=(output,)),
        ),
    }
    return WebGpuVerification(**{**fields, **changes})


def variant_report(
    path: str = "onnx/model.onnx",
    dtype: str = "fp32",
    *,
    text: str | None = None,
    passes: tuple[str, ...] = ("concat_tree", "split_tree", "sum_to_add"),
    proof: Verification | None = None,
    webgpu: WebGpuVerification | None = None,
) -> VariantReport:
    """A variant whose graph was rewritten for real."""
    recipe = recipe_of(passes=list(passes))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        source.write_bytes(model_bytes(text) if text else model_bytes())
        variant = recipe.variants[0].model_copy(update={"path": path, "dtype": dtype})
        done = rewrite(source, target, recipe.build_passes(variant), Device(PROFILES["webgpu-min"]))
        file = SourceFile(path, source, sha256_of(source), source.stat().st_size)
        fetched = FetchedVariant(variant, file, (), Path(folder))
        output = (FileRecord.of(path, target),)
    return VariantReport.of(fetched, output, done, proof or verification(), webgpu)


def recipe_of(**changes: Any) -> Recipe:
    data = recipe_data({"onnx/model.onnx": model_bytes()}, **changes)
    return recipes.loads(yaml.safe_dump(data), "recipe.yaml")


def card_spec(**changes: Any) -> CardSpec:
    return recipe_of(card=changes).card


def report_of(*variants: VariantReport, **changes: Any) -> Report:
    """A report on these variants; without any, on the plain one."""
    fields: dict[str, Any] = {
        "key": "b" * 64,
        "content_key": "c" * 64,
        "versions": {"hubpublish": "9.8.7", "onnxruntime": "1.99.0"},
        "target": TARGET,
        "source": SourceReport(repo=SOURCE, commit=COMMIT, license="mit"),
        "device": PROFILES["webgpu-min"],
        "recipe": plain(recipe_of()),
        "copied": (FileRecord(path="config.json", sha256="c" * 64, size=25),),
        "variants": variants or (variant_report(),),
        **changes,
    }
    return Report(**fields)
