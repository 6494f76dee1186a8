from __future__ import annotations

import shutil
import subprocess

import pytest

from hubpublish.transformers_js import OF_IMAGES, PIPELINES, SUFFIX_OF_DTYPE
from hubpublish.usage import options_of, usage_of
from hubpublish.verify import InputSummary
from hubpublish.verify.result import TensorSummary
from tests.publication import TARGET
from tests.reports import card_spec, report_of, variant_report, verification

NODE = shutil.which("node")
FIRST = variant_report()


@pytest.mark.parametrize(("dtype", "suffix"), SUFFIX_OF_DTYPE.items())
def test_a_standard_name_is_found_by_its_dtype(dtype: str, suffix: str) -> None:
    variant = FIRST.model_copy(update={"path": f"onnx/model{suffix}.onnx"})
    assert options_of(variant) == {"device": "webgpu", "dtype": dtype}


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("onnx/birefnet.onnx", {"model_file_name": "birefnet", "dtype": "fp32"}),
        ("onnx/decoder_model_fp16.onnx", {"model_file_name": "decoder_model_fp16", "dtype": "fp32"}),
        ("onnx/model_fp16_lite.onnx", {"model_file_name": "model_fp16_lite", "dtype": "fp32"}),
        ("model.onnx", {"dtype": "fp32", "subfolder": ""}),
        ("webgpu/small/model_fp16.onnx", {"dtype": "fp16", "subfolder": "webgpu/small"}),
        ("net.onnx", {"model_file_name": "net", "dtype": "fp32", "subfolder": ""}),
    ],
)
def test_any_other_name_is_spelled_out(path: str, options: dict[str, str]) -> None:
    assert options_of(FIRST.model_copy(update={"path": path})) == {"device": "webgpu", **options}


def test_external_data_is_asked_for() -> None:
    variant = FIRST.model_copy(update={"output": FIRST.output * 2})
    assert options_of(variant)["use_external_data_format"] is True
    assert "use_external_data_format: true," in usage_of(report_of(variant), card_spec())


def test_a_task_is_a_pipeline() -> None:
    text = usage_of(report_of(FIRST), card_spec())
    assert text.startswith("```js\nimport { pipeline } from '@huggingface/transformers';\n")
    assert (
        f"await pipeline('image-segmentation', '{TARGET}', {{\n  device: 'webgpu',\n  dtype: 'fp32',\n}});"
        in text
    )
    assert "await run(image);  // its URL" in text


def test_what_is_no_image_is_not_called_one() -> None:
    text = usage_of(report_of(FIRST), card_spec(pipeline_tag="zero-shot-image-classification"))
    assert "await run(inputs);" in text
    assert OF_IMAGES < PIPELINES


def test_no_line_of_code_is_too_long_for_the_hubs_page() -> None:
    variant = FIRST.model_copy(update={"path": "onnx/decoder_model_fp16.onnx", "output": FIRST.output * 2})
    assert max(map(len, usage_of(report_of(variant), card_spec()).splitlines())) <= 100


@pytest.mark.parametrize("task", [None, "image-text-to-text", "robotics"])
def test_without_one_the_model_is_loaded_itself(task: str | None) -> None:
    text = usage_of(report_of(FIRST), card_spec(pipeline_tag=task))
    assert "import { AutoModel }" in text
    assert (
        f"await AutoModel.from_pretrained('{TARGET}', {{\n  device: 'webgpu',\n  dtype: 'fp32',\n}});" in text
    )


class TestWithoutConfig:
    """Transformers.js loads no model then."""

    def test_the_example_is_a_session(self) -> None:
        text = usage_of(report_of(FIRST, copied=()), card_spec())
        assert "from_pretrained" not in text
        assert "@huggingface/transformers" not in text
        assert "import * as ort from 'onnxruntime-web/webgpu';" in text
        assert f"const repo = 'https://huggingface.co/{TARGET}/resolve/main';" in text
        assert "ort.InferenceSession.create(`${repo}/onnx/model.onnx`, {" in text
        assert "  'x': new ort.Tensor('float32', data, [2, 18]),\n" in text

    def test_external_data_is_named(self) -> None:
        data = FIRST.output[0].model_copy(update={"path": "onnx/model.onnx_data"})
        variant = FIRST.model_copy(update={"output": (*FIRST.output, data)})
        text = usage_of(report_of(variant, copied=()), card_spec())
        assert "{ path: 'model.onnx_data', data: `${repo}/onnx/model.onnx_data` }," in text

    def test_every_input_has_its_data(self) -> None:
        names = ("ids", "it's")
        tensors = tuple(
            TensorSummary(name=each, dtype="int64", shape=(1, 7), sha256="a" * 64) for each in names
        )
        proof = verification().model_copy(
            update={"inputs": (InputSummary(label="noise 0", tensors=tensors),)}
        )
        text = usage_of(report_of(variant_report(proof=proof), copied=()), card_spec())
        assert (
            "'ids': new ort.Tensor('int64', data1, [1, 7]),\n  'it\\'s': new ort.Tensor('int64', data2"
            in text
        )

    @pytest.mark.skipif(not NODE, reason="there is no Node.js")
    def test_it_is_javascript(self) -> None:
        other = FIRST.model_copy(update={"path": "onnx/it's `a` ${b}.onnx"})
        for report in (report_of(other, copied=()), report_of(other)):
            code = usage_of(report, card_spec()).partition("```js\n")[2].partition("```")[0]
            check = [NODE or "", "--input-type=module", "--check", "-"]
            done = subprocess.run(check, input=code, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_every_other_file_has_its_options() -> None:
    other = FIRST.model_copy(update={"path": "onnx/model_fp16.onnx"})
    text = usage_of(report_of(FIRST, other), card_spec())
    assert "For `onnx/model_fp16.onnx` the options are `{ device: 'webgpu', dtype: 'fp16' }`." in text


def test_a_name_cannot_end_the_string() -> None:
    variant = FIRST.model_copy(update={"path": "onnx/it's.onnx"})
    assert "model_file_name: 'it\\'s'" in usage_of(report_of(variant), card_spec())


def test_the_recipes_own_words_come_first() -> None:
    assert usage_of(report_of(FIRST), card_spec(usage="Ask me.")) == "Ask me."
