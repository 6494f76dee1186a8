from __future__ import annotations

import logging
from pathlib import Path

import onnx
import onnxruntime
import pytest

from hubpublish.errors import UnsupportedModelError
from hubpublish.model import load
from tests.errors import error_of

HEAD = '<ir_version: 9, opset_import: ["": 17, "loc": 1]>'
FUNCTION = '<opset_import: ["": 17], domain: "loc"> F (a, k) => (b) { [inner] b = Add (a, %s) }'
IF = """g (float[2] x, bool c) => (float[2] y) {
  [if] y = If (c) <then_branch = t () => (float[2] o) { %s },
    else_branch = e () => (float[2] p) { p = Neg (x) }> %s }"""


def written(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), path)
    return path


def runs(path: Path) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "g (int64[1] i) => (float[1,2] y) { [embed] y = Gather (emb, i) }",
            "Gather embed in main uses the value 'emb', which nothing gives",
        ),
        (
            "g (float[2] x) => (float[2] y) { y = Neg (x) dead = Abs (emb) }",
            "Abs dead in main uses the value 'emb', which nothing gives",
        ),
        (
            "g (float[2] x) => (float[2] y, float[2] q) { y = Neg (x) }",
            "output 'q' of main is a value which nothing gives",
        ),
        (IF % ("o = Neg (emb)", ""), "Neg o in main/if.then_branch uses the value 'emb'"),
        (IF % ("o = Neg (p)", ""), "Neg o in main/if.then_branch uses the value 'p'"),
        (IF % ("", ""), "output 'o' of main/if.then_branch is a value which nothing gives"),
        (
            "g (float[2] x) => (float[2] y) { y = loc.F (x, x) }" + FUNCTION % "emb",
            "Add inner in loc::F uses",
        ),
    ],
)
def test_what_nothing_gives_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    assert not runs(path)
    error = error_of(UnsupportedModelError, lambda: load(path))
    assert said in error.what
    assert (error.exit_code, error.where) == (4, str(path))
    assert "make it an input or an initializer" in str(error.hint)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x) => (float[2] y) { y = Neg (z) z = Neg (x) }",
        IF % ("o = Neg (x)", ""),
        IF % ("o = Neg (late)", "late = Abs (x)"),
        IF.replace("t () => (float[2] o)", "t () => (float[2] o) <float[2] w = {1, 2}>")
        % ("o = Neg (w)", ""),
        "g (float[1,1,4,4] x, float[4] s) => (float y) { y = Resize (x, , s) }",
        "g (float[2] x) => (float[2] y) { y = loc.F (x, x) }" + FUNCTION % "k",
        "g (float[2] x) => (float[2] x) { }",
        "g () => (float[2] w) <float[2] w = {1, 2}> { }",
        "g (float[4] x) => (float[2] b) { , b = Split <axis = 0> (x) }",
    ],
)
def test_what_is_given_somewhere_is_not_refused(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, text)
    assert runs(path)
    with caplog.at_level(logging.WARNING):
        load(path)
    assert not caplog.records


def test_many_are_counted(tmp_path: Path) -> None:
    nodes = " ".join(f"y{number} = Neg (gone{number})" for number in range(7))
    error = error_of(UnsupportedModelError, lambda: load(written(tmp_path, f"g () => (y0) {{ {nodes} }}")))
    assert error.what.endswith("; and 2 more")
    assert len(error.details["found"]) == 7  # type: ignore[arg-type]
