"""What ONNX Runtime fuses or merges by default decides about bits, and passes must not change what it does.

Each model here is such that the rewrite in question, done all the same, changes bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from hubpublish.passes import fold_constants
from hubpublish.passes.alike import shared
from hubpublish.passes.base import RewritePass
from hubpublish.passes.compress_constants import CompressConstants, CompressConstantsOptions
from hubpublish.passes.dedupe_initializers import DedupeInitializers
from hubpublish.passes.drop_empty_scatter import DropEmptyScatter
from hubpublish.passes.fold_constants import MERGED, FoldConstants
from hubpublish.passes.folding import child, evaluation
from hubpublish.passes.folding.measured import STUCK
from hubpublish.passes.fusing import Fusing
from hubpublish.passes.merging import Merging
from hubpublish.passes.packing import Packing
from hubpublish.passes.patch_grid import PatchGrid
from hubpublish.passes.remove_unused import RemoveUnused
from tests.models.build import (
    Array,
    Failure,
    Level,
    Rewrite,
    assert_runs_same,
    bits,
    nodes,
    op_counts,
    parse,
    rewrite,
    run,
)

LEVELS: Any = ("disabled", "default")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((17, 300)).astype(np.float32)
W = RNG.standard_normal((300, 64)).astype(np.float32)
B = RNG.standard_normal(64).astype(np.float32)
ONE = "keeps others from being fused, which would round otherwise"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a child process, which takes half a second to start."""
    monkeypatch.setattr(evaluation, "_start", lambda given, response, log: child.main(given, response))


def model_of(
    body: str, outputs: str = "float[A,B] y", inputs: str = "float[17,300] x", **constants: Any
) -> Any:
    imports = 'opset_import: ["": 17, "com.microsoft": 1]'
    text = f"<ir_version: 8, {imports}> g ({inputs}) => ({outputs}) {{ {body} }}"
    model = parse(text)
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return model


def left_alone(
    model: onnx.ModelProto,
    each: RewritePass[Any],
    skips: dict[str, str],
    done: Sequence[str] = (),
    x: Array = X,
) -> Rewrite:
    """The pass does only ``done`` and skips ``skips``, and the model computes the same at both levels."""
    result = rewrite(model, each)
    assert result.rewritten == [*done]
    assert {skip.node: skip.reason for skip in result.skipped} == skips
    for level in LEVELS:
        assert_runs_same(model, result.model, {"x": x}, level)
    return result


def differs(model: onnx.ModelProto, each: RewritePass[Any], x: Array = X, level: Level = "default") -> bool:
    """Whether the pass changes bits now that it does not ask."""
    result = rewrite(model, each)
    assert result.rewritten
    one, other = (run(which, {"x": x}, level) for which in (model, result.model))
    assert not isinstance(one, Failure)
    assert not isinstance(other, Failure)
    return [bits(value) for value in one] != [bits(value) for value in other]


# What is fused


SCATTERED = "c = MatMul(x, w)  {}  y = Add({}, b)"
EMPTY = {"i": np.zeros((0, 1), np.int64), "u": np.zeros((0, 64), np.float32)}


def scattered(moved: str = "[s] s = ScatterND(c, i, u)", last: str = "s") -> Any:
    return model_of(SCATTERED.format(moved, last), w=W, b=B, **EMPTY)


@pytest.mark.parametrize(
    ("moved", "last"),
    [
        ("[s] s = ScatterND(c, i, u)", "s"),
        ("d = Identity(c)  [s] s = ScatterND(d, i, u)  e = Identity(s)", "e"),
    ],
)
def test_a_scatter_between_what_would_be_fused(
    moved: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scattered(moved, last)
    left_alone(model, DropEmptyScatter(), {"s": ONE})
    monkeypatch.setattr(Fusing, "allows_none", lambda self, node: True)
    assert differs(model, DropEmptyScatter())


def test_scatters_of_one_another() -> None:
    body = "[s] s = ScatterND(c, i, u)  [t] t = ScatterND(s, i, u)"
    left_alone(scattered(body, "t"), DropEmptyScatter(), {"s": ONE, "t": ONE})


def test_a_scatter_of_a_constant_that_is_then_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "[s] s = ScatterND(w, i, u)  y = MatMul(x, s)"
    model = model_of(body, inputs="float[17,300] x, int64[0,1] i, float[0,64] u", w=W)
    feeds = {"x": X, **EMPTY}
    result = rewrite(model, DropEmptyScatter())
    assert [skip.reason for skip in result.skipped] == [ONE]
    for level in LEVELS:
        assert_runs_same(model, result.model, feeds, level)


@pytest.mark.parametrize(
    "body",
    [
        "[s] s = ScatterND(x, i, u)  y = Add(s, s)",
        "c = Sin(x)  [s] s = ScatterND(c, i, u)  y = Relu(s)",
        "c = MatMul(x, w)  [s] s = ScatterND(c, i, u)  y = Identity(s)",
        "c = MatMul(x, w)  [s] s = ScatterND(c, i, u)  y = Gather(s, j)",
        "c = Constant<value = float[1,1] {3}>()  [s] s = ScatterND(c, i, u)  y = Add(x, s)",
    ],
)
def test_a_scatter_that_keeps_nothing_apart(body: str) -> None:
    width = 1 if "Constant" in body else 64 if "MatMul" in body else 300
    constants: dict[str, Any] = {**EMPTY, "u": np.zeros((0, width), np.float32)}
    constants |= {"w": W} if "MatMul" in body else {}
    constants |= {"j": np.array([1, 0], np.int64)} if "Gather" in body else {}
    left_alone(model_of(body, **constants), DropEmptyScatter(), {}, ["s"])


def test_an_unused_node_that_keeps_others_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("c = MatMul(x, w)  [z] z = Neg(c)  y = Add(c, b)  [v] v = Neg(x)", w=W, b=B)
    left_alone(model, RemoveUnused(), {"z": ONE}, ["v"])
    monkeypatch.setattr(Fusing, "needed_among", lambda self, unused: set())
    assert differs(model, RemoveUnused())


def test_all_that_is_unused_behind_such_a_node_stays() -> None:
    """The runtime leaves out an Identity, so that what is behind it keeps others apart as well."""
    body = "c = MatMul(x, w)  [i] i = Identity(c)  [z] z = Neg(i)  y = Add(c, b)"
    left_alone(model_of(body, w=W, b=B), RemoveUnused(), {"z": ONE})


@pytest.mark.parametrize("producer", ["Sin(x)", "Neg(x)", "Gather(x, j)"])
def test_an_unused_node_of_what_is_never_fused_goes(producer: str) -> None:
    constants: dict[str, Any] = {"j": np.array([1, 0], np.int64)} if "Gather" in producer else {}
    body = f"c = {producer}  [z] z = Neg(c)  [a] a = Neg(z)  y = Abs(c)"
    assert op_counts(left_alone(model_of(body, **constants), RemoveUnused(), {}, ["a", "z"]).model)[
        "Neg"
    ] == (producer == "Neg(x)")


def test_unused_nodes_that_nothing_live_gives_to_go_together() -> None:
    body = "[m] m = MatMul(x, w)  [s] s = Sub(m, b)  [p] p = Mul(s, s)  [d] d = Div(s, p)  y = Relu(x)"
    left_alone(model_of(body, w=W, b=B), RemoveUnused(), {}, ["d", "p", "s", "m", "w", "b"])


def test_what_is_given_to_a_function_is_computed_where_it_is_called() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "local": 1]> g (float[17,300] x) => (float[A,B] y) {
        c = MatMul(x, w)  y = local.f(c, b)
    } <domain: "local", opset_import: ["": 17]> f (a, b) => (r) { [dead] z = Neg(a)  r = Add(a, b) }"""
    model = parse(text)
    for name, array in (("w", W), ("b", B)):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    left_alone(model, RemoveUnused(), {"dead": ONE})


IMAGE = RNG.standard_normal((1, 3, 32, 32)).astype(np.float32)
SIZES = {
    "a factor of a Conv": (
        "f = Cast<to=1>(s)  c = Conv(x, w)  y = Mul(c, f)",
        {"w": RNG.standard_normal((16, 3, 3, 3)).astype(np.float32)},
        "s = Size(x)  ",
    ),
    "of what is fused": ("c = MatMul(x, w)  s = Size(c)  y1 = Add(c, b)  f = Cast<to=1>(s)  y = Div(y1, f)",
                         {"w": W, "b": B}, ""),
    "of an unused node": (
        "c = MatMul(x, w)  n = Neg(c)  s = Size(n)  y1 = Add(c, b)  f = Cast<to=1>(s)  y = Div(y1, f)",
        {"w": W, "b": B}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SIZES)
def test_sizes_stay(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, constants, before = SIZES[case]
    is_image = "Conv" in body
    x, shape = (IMAGE, "1,3,32,32") if is_image else (X, "17,300")
    model = model_of(before + body, "float[A,B,C,D] y" if is_image else "float[A,B] y",
                     f"float[{shape}] x", **constants)  # fmt: skip
    result = left_alone(model, FoldConstants(), {}, x=x)
    assert op_counts(result.model)["Size"] == 1
    for name in ("cones", "measured", "values"):
        monkeypatch.setattr(f"hubpublish.passes.folding.{name}.MEASURES", frozenset({"Shape", "Size"}))
    monkeypatch.setattr(
        "hubpublish.passes.folding.values._NOT_COMPUTED", frozenset({"Shape", "Size", "Identity"})
    )
    assert differs(model, FoldConstants(), x)


MEASURED = """c = MatMul(x, w)  {}  [s] s = Shape(n)  f = Cast<to=1>(s)  [z] z = Gather(f, one)
y1 = Add(c, b)  y = Div(y1, z)"""


@pytest.mark.parametrize("between", ["n = Neg(c)", "m = Neg(c)  n = Add(m, m)", "n = Identity(c)"])
def test_what_was_only_measured_goes_as_in_the_runtime(between: str) -> None:
    result = left_alone(
        model_of(MEASURED.format(between), w=W, b=B, one=np.int64(1)), FoldConstants(), {}, ["z"]
    )
    assert op_counts(result.model) == {"MatMul": 1, "Add": 1, "Div": 1}


@pytest.mark.parametrize(
    "between", ["n = Gather(c, one)", "n, n2 = Split<axis=1>(c)", "m = Neg(c)  n = Gather(m, j)"]
)
def test_a_shape_stays_where_what_it_measures_may_fail(between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = {"j": np.array([0, 1], np.int64)} if "j)" in between else {}
    model = model_of(MEASURED.format(between).replace("(f, one)", "(f, zero)"), w=W, b=B, one=np.int64(1),
                     zero=np.int64(0), **constants)  # fmt: skip
    left_alone(model, FoldConstants(), {"s": STUCK})
    monkeypatch.setattr(fold_constants.Measured, "stuck", lambda self: [])
    assert differs(model, FoldConstants())


# What is merged


GELU = """[k] k = Cast<to=1>(d)  q = Div(x, k)  e = Erf(q)  a = Add(e, one)  p = Mul(x, a)  y = Mul(p, half)
q2 = Div(x, k2)  z = Sin(q2)"""


def test_a_constant_with_which_two_nodes_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    two = np.float32(1.4142135)
    numbers = {"one": np.float32(1), "half": np.float32(0.5)}
    model = model_of(GELU, "float[A,B] y, float[C,D] z", d=np.float64(two), k2=two, **numbers)
    left_alone(model, FoldConstants(), {"k": MERGED})
    other = model_of(GELU, "float[A,B] y, float[C,D] z", d=np.float64(two), k2=np.float32(3), **numbers)
    left_alone(other, FoldConstants(), {}, ["k"])
    monkeypatch.setattr(Merging, "changes", lambda self, value: False)
    assert differs(model, FoldConstants())


def test_constants_of_which_two_nodes_are_one_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime merges what computes them, and does not compare constants of more than a few elements."""
    computed = "  ".join(f"{name * 90} = Neg(c)  [{name}] {name} = Abs({name * 90})" for name in "kl")
    body = f"""{computed}  q = Mul(x, k)  r = Mul(x, l)  p = MatMul(q, w)  y = Add(p, b)
    o = MatMul(r, w)  z = Sin(o)"""
    column = RNG.standard_normal((17, 1)).astype(np.float32)
    model = model_of(body, "float[A,B] y, float[C,D] z", c=column, w=W, b=B)
    left_alone(model, FoldConstants(), dict.fromkeys(("k", "l", "k" * 90, "l" * 90), MERGED))
    monkeypatch.setattr(Merging, "changes", lambda self, value: False)
    assert differs(model, FoldConstants())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool", "int8"])
@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 4), (9,), (0,)])
def test_the_constants_of_which_the_runtime_makes_one(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    array = np.ones(shape, dtype)
    name, op = {"float32": "float", "float64": "double"}.get(dtype, dtype), "Max"
    if dtype == "bool":
        op = "And"
    sides = ",".join(map(str, shape)) or "1"
    body = f"a = {op}(x, k1)  b = {op}(x, k2)  y = {op}(a, x)  z = {op}(x, b)"
    outputs = f"{name}[{sides}] y, {name}[{sides}] z"
    model = model_of(body, outputs, f"{name}[{sides}] x", k1=array, k2=array)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    merged = op_counts(onnx.load(tmp_path / "optimized.onnx"))[op] == 3
    assert (shared(array) is not None) == merged


COPIES = "y = Add(c, b)  c = MatMul(x, w1)  d = MatMul({}, w2)  z = Sigmoid(d)"
ALIKE = "nodes that are given it would be the same as others, with which the runtime would merge them"


def test_copies_with_which_two_nodes_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = "float[A,B] y, float[C,D] z"
    model = model_of(COPIES.format("x"), outputs, w1=W, w2=W, b=B)
    left_alone(model, DedupeInitializers(), {"w2": ALIKE})
    left_alone(model_of(COPIES.format("x2") + "  x2 = Sin(x)", outputs, w1=W, w2=W, b=B),
               DedupeInitializers(), {}, ["w2"])  # fmt: skip
    monkeypatch.setattr(Merging, "changes", lambda self, value: False)
    assert differs(model, DedupeInitializers())


def test_copies_that_are_given_to_what_is_computed_twice() -> None:
    body = "i = Sin(x)  j = Sin(x)  c = MatMul(i, w1)  d = MatMul(j, w2)  y = Add(c, b)  z = Sigmoid(d)"
    model = model_of(body, "float[A,B] y, float[C,D] z", w1=W, w2=W, b=B)
    left_alone(model, DedupeInitializers(), {"w2": ALIKE})


def test_copies_of_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """a = Add(x, w1)  ra = Reshape(a, sh)  y = Mul(ra, ra)  b = Add(x, w2)  rb = Reshape(b, sh)
    z = Concat<axis=0>(rb, rb)"""
    weight, x = (RNG.standard_normal(shape).astype(np.float16) for shape in ((64,), (4, 64)))
    outputs = "float16[A,B] y, float16[C,D] z"
    model = model_of(body, outputs, "float16[4,64] x", w1=weight, w2=weight, sh=np.array([8, 32], np.int64))
    left_alone(model, DedupeInitializers(), {"w2": ALIKE}, x=x)
    monkeypatch.setattr(Merging, "changes", lambda self, value: False)
    assert differs(model, DedupeInitializers(), x)


def test_compressed_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the nodes that compute them the runtime makes one."""
    body = "q = Add(x, c)  r = Add(x, d)  p = MatMul(q, w)  y = Add(p, b)  o = MatMul(r, w)  z = Sin(o)"
    copy = np.broadcast_to(np.array([[1.5]], np.float32), X.shape).copy()
    model = model_of(body, "float[A,B] y, float[C,D] z", c=copy, d=copy, w=W, b=B)
    each = CompressConstants(CompressConstantsOptions(min_bytes=1024))
    reason = "the runtime would make one of it and its copies, and of what takes them"
    left_alone(model, each, {"c": reason, "d": reason})
    monkeypatch.setattr(Merging, "changes", lambda self, value: False)
    assert differs(model, each)


PIECES = {f"c{n}": np.array([2 * n], np.int64) for n in range(9)}
SLICED = "  ".join(f"s{n} = Slice(x, c{n}, c{n + 1}, ax)" for n in range(8))
JOINED = """[p] p = Concat<axis=1>(a, b, c, d, e, f, g, h)
[q] q = Concat<axis=1>(s0, s1, s2, s3, s4, s5, s6, s7)
mp = MatMul(p, w)  y = Add(mp, bias)  mq = MatMul(q, w)  z = Sin(mq)"""
ONCE = """y = Relu(x)  [q] q = Concat<axis=1>(s0, s1, s2, s3, s4, s5, s6, s7)
mq = MatMul(q, w)  z = Sin(mq)"""
GRID = RNG.standard_normal((16, 300)).astype(np.float32)


def grids(body: str) -> Any:
    return model_of(
        body,
        "float[A,B] y, float[C,D] z",
        "float[16,300] x",
        ax=np.array([0], np.int64),
        w=RNG.standard_normal((2400, 16)).astype(np.float32),
        bias=B[:16],
        **PIECES,
    )


def test_a_grid_in_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    model = grids(f"a, b, c, d, e, f, g, h = Split<axis=0>(x)  {SLICED}  {JOINED}")
    reason = "the runtime would take what replaces it for what others compute, and merge the two"
    left_alone(model, PatchGrid(), {"p": reason, "q": reason}, x=GRID)
    monkeypatch.setattr("hubpublish.passes.grids.site._merged", lambda found, graph: {})
    assert differs(model, PatchGrid(), GRID)


def test_a_grid_twice_in_the_same_way() -> None:
    """The runtime makes one of them before, and after."""
    again = "  ".join(f"t{n} = Slice(x, c{n}, c{n + 1}, ax)" for n in range(8))
    joined = JOINED.replace("a, b, c, d, e, f, g, h", "t0, t1, t2, t3, t4, t5, t6, t7")
    left_alone(grids(f"{SLICED}  {again}  {joined}"), PatchGrid(), {}, ["p", "q"], x=GRID)


def test_a_grid_of_which_a_step_is_there_already() -> None:
    model = grids(f"{SLICED}  {ONCE.replace('y = Relu(x)', 'r = Reshape(x, st)  y = Reshape(r, to)')}")
    made = rewrite(grids(f"{SLICED}  {ONCE}"), PatchGrid()).model
    shape = numpy_helper.to_array(nodes(made, "Constant")[0].attribute[0].t)
    for name, array in (("st", shape), ("to", np.array([16, 300], np.int64))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    reason = "the runtime would take what replaces it for what others compute, and merge the two"
    left_alone(model, PatchGrid(), {"q": reason}, x=GRID)


# Foreign operators


def test_integers_that_a_foreign_operator_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = RNG.integers(0, 256, (64, 8, 16), dtype=np.uint8)
    scales, x = RNG.random(64 * 8).astype(np.float32), RNG.standard_normal((5, 256)).astype(np.float32)
    body = """[q] q = Concat<axis=0>(b1, b2)
    y = com.microsoft.MatMulNBits<K=256, N=64, bits=4, block_size=32, accuracy_level=4>(x, q, s)"""
    model = model_of(body, inputs="float[5,256] x", b1=packed[:10], b2=packed[10:], s=scales)
    reason = "is given to MatMulNBits, which may compute differently with a constant"
    left_alone(model, FoldConstants(), {"q": reason}, x=x)
    monkeypatch.setattr(Packing, "by", lambda self, value: None)
    assert differs(model, FoldConstants(), x, "disabled")


def test_fusing_looks_at_each_value_once() -> None:
    """Also where a chain is longer than Python's stack is deep."""
    body = "c0 = MatMul(x, w)  " + "  ".join(f"c{n + 1} = Identity(c{n})" for n in range(3000))
    model = model_of(f"{body}  [z] z = Neg(c3000)  y = Add(c3000, b)", w=W, b=B)
    result = rewrite(model, RemoveUnused())
    assert not result.rewritten
    assert isinstance(ir.from_proto(model), ir.Model)
