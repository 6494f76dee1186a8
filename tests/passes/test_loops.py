"""A Loop that runs zero times gives what the runtime infers of shapes, so that must stay as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from hubpublish.passes.base import RewritePass
from hubpublish.passes.fold_constants import FoldConstants
from hubpublish.passes.folding import child, evaluation
from hubpublish.passes.gather_nd_to_gather import GatherNdToGather
from hubpublish.passes.int32_indices import Int32Indices
from hubpublish.passes.loops import REASON, Loops
from tests.models.build import Failure, Rewrite, assert_runs_same, bits, parse, rewrite, run

LEVELS: Any = ("disabled", "default")
HEAD = '<ir_version: 8, opset_import: ["": 17]>'
WITH = "the runtime may infer more of a shape with it, on which a Loop may depend"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_start", lambda given, response, log: child.main(given, response))


def check(
    model: onnx.ModelProto, each: RewritePass[Any], feeds: dict[str, Any], skips: list[str], done: int
) -> Rewrite:
    """The pass does so much, skips for these reasons, and the model gives the same, for any trips."""
    result = rewrite(model, each)
    assert (len(result.rewritten), sorted({skip.reason for skip in result.skipped})) == (done, skips)
    for trips in (0, 2):
        for level in LEVELS:
            assert_runs_same(model, result.model, {**feeds, "n": np.array(trips)}, level)
    return result


def differs(model: onnx.ModelProto, each: RewritePass[Any], feeds: dict[str, Any]) -> bool:
    result = rewrite(model, each)
    assert result.rewritten
    one, other = (run(which, {**feeds, "n": np.array(0)}, "disabled") for which in (model, result.model))
    assert not isinstance(one, Failure)
    assert not isinstance(other, Failure)
    return [bits(value) for value in one] != [bits(value) for value in other]


TWO = "t2 = Constant<value = int64[1] {2}>()  t3 = Constant<value = int64[1] {3}>()  "
LOOP = "y = Loop(n, c) <body = b (int64 i, bool ci) => (bool co, float[{0}] s) {{ co = Identity(ci)  {1} }}>"
X = {"x": np.arange(6, dtype=np.float32), "c": np.array(True)}


def looping(before: str, inside: str, declared: str = "A,B", infos: str = "") -> onnx.ModelProto:
    body = f"{before}  {LOOP.format(declared, inside)}"
    return parse(f"{HEAD} g (int64 n, bool c, float[6] x) => (float[N,P,Q] y) {infos} {{ {body} }}")


IN = looping("", f"{TWO} [t] t = Concat<axis=0>(t2, t3)  s = Reshape(x, t)")
AROUND = looping(f"{TWO} [t] t = Concat<axis=0>(t2, t3)  w = Reshape(x, t)", "s = Relu(w)")
FURTHER = looping(
    f"{TWO} [t] t = Concat<axis=0>(t2, t3)  d = Identity(t)  o = Mul(d, k)  w = Reshape(x, o)",
    "s = Relu(w)",
    infos="<int64 k>",
)
FURTHER.graph.input.append(onnx.helper.make_tensor_value_info("k", onnx.TensorProto.INT64, []))


@pytest.mark.parametrize("model", [IN, AROUND], ids=["inside", "around"])
def test_constants_of_which_a_shape_is_inferred_stay(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(model, FoldConstants(), X, [WITH], 0)
    monkeypatch.setattr(Loops, "may_see_constant", lambda self, value, shape_of: False)
    assert differs(model, FoldConstants(), X)


def test_constants_from_which_a_shape_is_computed_stay() -> None:
    del FURTHER.graph.value_info[:]
    check(FURTHER, FoldConstants(), {**X, "k": np.array(1)}, [WITH], 0)


@pytest.mark.parametrize(
    "model",
    [
        looping("", f"{TWO} [t] t = Concat<axis=0>(t2, t3)  s = Reshape(x, t)", "2,3"),
        looping("", f"{TWO} [t] t = Add(t2, t3)  f = Cast<to=1>(t)  s = Add(x, f)", "A"),
        looping(
            f"{TWO} [t] t = Concat<axis=0>(t2, t3)  w = Reshape(x, t)", "s = Relu(w)", infos="<float[2,3] w>"
        ),
    ],
    ids=["declared", "no shape", "declared around"],
)
def test_other_constants_are_stored(model: onnx.ModelProto) -> None:
    check(model, FoldConstants(), X, [], 1)


def test_the_same_without_a_loop() -> None:
    model = parse(
        f"{HEAD} g (float[6] x) => (float[P,Q] y) {{ {TWO} t = Concat<axis=0>(t2, t3)  y = Reshape(x, t) }}"
    )
    assert len(rewrite(model, FoldConstants()).rewritten) == 1


FLOOR = """fl = Floor(p)  q = Cast<to=7>(fl)  ty = Slice(q, s0, e1, ax3)  lx = Slice(q, e1, e2, ax3)
ty1 = Add(ty, one)  yy = Clip(ty1, lo, hy)  xx = Clip(lx, lo, hx)
sh = Concat<axis=0>(e1, e1, five, e1)  y1 = Reshape(yy, sh)  x1 = Reshape(xx, sh)
idx = Concat<axis=-1>(y1, x1)  o = GatherND<batch_dims=2>(d0, idx)"""
NUMBERS = {
    "pads": [0, 0, 1, 1, 0, 0, 1, 1],
    "z0": [0], "s0": [0], "e1": [1], "e2": [2], "ax3": [3], "five": [5], "one": 1, "lo": 0, "hy": 7, "hx": 9,
    "shp": [1, 1, 3, 8, 10],
}  # fmt: skip


def gathering(declared: str) -> onnx.ModelProto:
    body = f"""xp = Pad(im, pads)  u = Unsqueeze(xp, z0)  t = Reshape(u, shp)
    d0 = Transpose<perm=[0,1,3,4,2]>(t)
    y = Loop(n, c) <body = b (int64 i, bool ci) => (bool co, float[{declared}] o) {{
        co = Identity(ci)  {FLOOR}
    }}>"""
    inputs = "int64 n, bool c, float[1,3,6,8] im, float[1,1,5,2] p"
    model = parse(f"{HEAD} g ({inputs}) => (float[N,A,B,C,D] y) {{ {body} }}")
    for name, numbers in NUMBERS.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
    return model


IMAGE = {
    "c": np.array(True),
    "im": np.random.default_rng(0).standard_normal((1, 3, 6, 8)).astype(np.float32),
    "p": np.zeros((1, 1, 5, 2), np.float32),
}


@pytest.mark.parametrize("each", [Int32Indices(), GatherNdToGather()], ids=lambda each: str(each.name))
def test_a_gather_of_which_more_is_inferred(each: RewritePass[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = gathering("A,B,C,D")
    check(model, each, IMAGE, [REASON], 0)
    check(gathering("1,1,5,3"), each, IMAGE, [], 1)
    monkeypatch.setattr(Loops, "may_see_more", lambda self, value, shape: False)
    if isinstance(each, Int32Indices):
        assert differs(model, each, IMAGE)
