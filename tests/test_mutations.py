"""No model makes hubpublish fail by itself: whatever is wrong with one is said in words, or left alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from hubpublish.devices import PROFILES, Device
from hubpublish.errors import HubpublishError, UnsupportedModelError
from hubpublish.inspection import Auto, inspect
from hubpublish.model import load
from hubpublish.passes import PASSES
from hubpublish.rewrite import rewrite
from tests.models.build import parse

SEED, MUTATIONS = 20261, 400
MIN = PROFILES["webgpu-min"]

Graphs = list[Any]  # graphs and functions: all have nodes


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def model(text: str, opset: int = 17, imports: str = "", **initializers: Any) -> onnx.ModelProto:
    made = parse(f'<ir_version: 8, opset_import: ["": {opset}{imports}]>\n{text}')
    made.graph.initializer.extend(numpy_helper.from_array(array, n) for n, array in initializers.items())
    return made


def models() -> list[onnx.ModelProto]:
    one, scalar = np.array(1, np.int64), np.array(1, np.float32)
    wide = model("""g (float[2,32] x) => (float[16,4] y) {
        a,b,c,d,e,f,g,h = Split<axis=1>(x) y = Concat<axis=0>(a,b,c,d,e,f,g,h) z = Sum(y,y)
        s = Shape(y) q = Reshape(z,s) }""")
    gather = model(
        """g (float[1,3,6,8] im, float[1,1,5,2] p) => (float[1,1,5,3] y) {
        xp = Pad(im, pads) t = Unsqueeze(xp, z0) d0 = Transpose<perm=[0,1,3,4,2]>(t)
        fl = Floor(p) q = Cast<to=7>(fl) ty = Slice(q, z0, e1, ax3) lx = Slice(q, e1, e2, ax3)
        ty1 = Add(ty, one) yy = Clip(ty1, lo, hy) xx = Clip(lx, lo, hy)
        idx = Concat<axis=-1>(yy,xx) y = GatherND<batch_dims=2>(d0, idx) }""",
        pads=ints(0, 0, 1, 1, 0, 0, 1, 1),
        z0=ints(0),
        e1=ints(1),
        e2=ints(2),
        ax3=ints(3),
        one=one,
        lo=one * 0,
        hy=one * 7,
    )
    bodies = model("""g (bool c, int64 n, float[4] x) => (float[4] y, float[?,4] l) {
        k = Constant<value = float[4] {1,2,3,4}>() s = Sum(x,k,x)
        y = If(c) <then_branch = a () => (float[4] p) {
                w = Constant<value = float[4] {1,2,3,4}>() p = Sum(s,w,k) },
            else_branch = b () => (float[4] q) { q = Relu(s) }>
        l = Loop(n, c) <body = bb (int64 i, bool ci) => (bool co, float[4] o) {
            co = Identity(ci) o = Sum(s,s) }> }""")
    function = model(
        """g (float[2,6] x) => (float[2,6] y, float[2,6] z, float[2,6] zz) {
        y = f.F(x) z = ScatterND(x,i,u) zz = Resize(x,,sc) m,mi = MaxPool<kernel_shape=[1]>(x)
        ge = Greater(x,x) w = Where(ge,x,y) dq = DequantizeLinear(q8, scl) }
        <opset_import: ["": 17], domain: "f"> F (a) => (b) {
            c1 = Constant<value_float=2.0>() t = Sum(a,c1,a) b = Identity(t) }""",
        imports=', "f": 1',
        i=np.zeros((0, 1), np.int64),
        u=np.zeros((0, 6), np.float32),
        scl=scalar,
        sc=np.ones(2, np.float32),
        q8=np.zeros(4, np.int8),
    )
    rows = np.broadcast_to(np.arange(256, dtype=np.float32)[:, None], (256, 256)).copy()
    old = model(
        """g (float[2,8] x) => (float[8,2] y) {
        a,b = Split<axis=1,split=[4,4]>(x) s1 = Slice(x,s0,s4,ax) u = Unsqueeze<axes=[0]>(a)
        v = Squeeze<axes=[0]>(u) c = Concat<axis=0>(v,b) t = Transpose<perm=[1,0]>(c)
        r = ReduceSum<axes=[0]>(c) y = Identity(x) w = ConstantOfShape(ax) g = Gather<axis=0>(big, ax)
        m = Mul(ax, s4) h = Reshape(big, m) }""",
        opset=12,
        s0=ints(0),
        s4=ints(4),
        ax=ints(1),
        big=rows,
    )
    return [wide, gather, bodies, function, old]


def mutated(source: onnx.ModelProto, chance: random.Random) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(source)
    inner = [each.g for node in made.graph.node for each in node.attribute if each.HasField("g")]
    graphs: Graphs = [made.graph, *inner, *made.functions]
    for _ in range(chance.randint(1, 3)):
        graph = chance.choice([each for each in graphs if each.node])
        change = chance.choice(
            [change_inputs, change_outputs, change_attributes, change_operator, change_rest]
        )
        change(made, chance.choice(graph.node), chance)
    return made


def change_inputs(made: onnx.ModelProto, node: onnx.NodeProto, chance: random.Random) -> None:
    names = [name for each in made.graph.node for name in each.output]
    names += [*(each.name for each in made.graph.initializer), "x", "nowhere", ""]
    match chance.randint(0, 2):
        case 0 if node.input:
            node.input[chance.randrange(len(node.input))] = chance.choice(names)
        case 1 if node.input:
            del node.input[chance.randrange(len(node.input))]
        case _:
            node.input.append(chance.choice(names))


def change_outputs(made: onnx.ModelProto, node: onnx.NodeProto, chance: random.Random) -> None:
    match chance.randint(0, 2):
        case 0 if node.output:
            node.output[chance.randrange(len(node.output))] = ""
        case 1 if node.output:
            del node.output[-1]
        case _:
            node.output.append(f"extra{chance.randint(0, 9**6)}")


def change_attributes(made: onnx.ModelProto, node: onnx.NodeProto, chance: random.Random) -> None:
    if not node.attribute:
        node.attribute.append(helper.make_attribute(chance.choice(["axis", "value", "to"]), 1))
        return
    attribute = chance.choice(node.attribute)
    if chance.random() < 0.5:
        name = attribute.name
        node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute(name, chance.choice([1.5, "s", [1.0], 3, [1, 2]])))
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = chance.choice([-9, -1, 0, 5, 7, 10, 99, 2**62])
    elif attribute.type == onnx.AttributeProto.INTS:
        attribute.ints[:] = [chance.choice([-3, 0, 1, 7, 99]) for _ in range(chance.randint(0, 4))]
    else:
        del node.attribute[:]


OPERATORS = """
    Cast Clip Concat Constant Einsum Expand Foo Gather GatherND Identity If LSTM Loop MaxPool
    OptionalGetElement Pad Reshape Resize ScatterND SequenceEmpty Shape Size Slice Split Squeeze Sum TopK
    Transpose Unsqueeze Where
""".split()  # noqa: SIM905


def change_operator(made: onnx.ModelProto, node: onnx.NodeProto, chance: random.Random) -> None:
    if chance.random() < 0.8:
        node.op_type = chance.choice(OPERATORS)
    else:
        node.domain = chance.choice(["com.microsoft", "zz", "ai.onnx", "f"])


def change_rest(made: onnx.ModelProto, node: onnx.NodeProto, chance: random.Random) -> None:
    match chance.randint(0, 3):
        case 0 if made.graph.initializer:
            tensor = chance.choice(made.graph.initializer)
            array = numpy_helper.to_array(tensor)
            with np.errstate(over="ignore"):
                odd = [array.astype(np.float16), array.reshape(-1)[:0], array.reshape(-1)]
            odd += [np.array(["s"], object), np.array(2**62), ints(-1, 0, 5), np.zeros((0, 0), array.dtype)]
            tensor.CopyFrom(numpy_helper.from_array(chance.choice(odd), tensor.name))
        case 1:
            made.opset_import[0].version = chance.choice([7, 9, 11, 13, 18, 21, 24, 25])
        case 2:
            elements = chance.choice([TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64])
            chance.choice(made.graph.input).type.tensor_type.elem_type = elements
        case _:
            chance.choice(made.graph.input).type.tensor_type.ClearField("shape")


def said_in_words(action: Callable[[], object]) -> bool:
    """Whether it works, or fails as it should; whatever else it raises gets through."""
    try:
        action()
    except HubpublishError:
        return False
    return True


def test_mutated_models_are_rewritten_or_refused_in_words(tmp_path: Path) -> None:
    chance, sources = random.Random(SEED), models()
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    costly = [PASSES[name] for name in ("fold_constants", "static_shape")]  # they start a process
    cheap = [each for each in PASSES.values() if each not in costly]
    rewritten = 0
    for number in range(MUTATIONS):
        source.write_bytes(mutated(chance.choice(sources), chance).SerializeToString())
        chosen = [*chance.sample(cheap, 5), *([chance.choice(costly)] if number % 8 == 0 else [])]
        passes = [each() for each in chosen]
        device = Device(MIN) if number % 2 else None
        try:
            rewritten += said_in_words(lambda: rewrite(source, target, passes, device))  # noqa: B023
        except Exception as error:
            error.add_note(f"mutation {number}, passes {[each.name for each in chosen]}")
            raise
    assert rewritten > MUTATIONS / 2  # else it is no test of the passes


@pytest.mark.parametrize(
    "text",
    [
        # A Constant whose attribute is of another type than its name says, also as a shape.
        "g (float[4] x) => (float[?] y) { k = Constant<value = 1.5>() y = Add(x, k) }",
        'g (float[4] x) => (float[?] y) { k = Constant<value_float = "s">() y = Add(x, k) }',
        "g (float[4] x) => (float[?] y) { k = Constant<value_ints = 4>() y = Reshape(x, k) s = Shape(y) }",
        "g (float[4] x) => (float[?] y) { k = Constant<value_int = 4>() y = Reshape(x, k) s = Shape(y) }",
        "g (float[4] x) => (float[?] y) { k, l = Constant<value_int = 4>() m = Mul(x, l) y = Add(m, k) }",
    ],
)
def test_odd_constants(text: str, tmp_path: Path) -> None:
    check_every_pass(model(text), tmp_path)


@pytest.mark.parametrize("node", ["Constant", "Identity", "Sum", "Concat", "Split", "Shape", "Cast", "If"])
def test_nodes_without_outputs(node: str, tmp_path: Path) -> None:
    made = model("g (float[4] x) => (float[?] y) { y = Sum(x, x) z = Concat<axis=0>(y, y) s = Shape(z) }")
    made.graph.node.insert(0, helper.make_node(node, [] if node == "Constant" else ["x", "x"], []))
    if node == "Constant":
        made.graph.node[0].attribute.append(helper.make_attribute("value", numpy_helper.from_array(ints(1))))
    check_every_pass(made, tmp_path)


def test_a_function_that_uses_what_it_has_not(tmp_path: Path) -> None:
    text = """g (float[4] x) => (float[4] y) { y = f.F(x) }
    <opset_import: ["": 17], domain: "f"> F (a) => (b) { b = Identity(t) }"""
    source = tmp_path / "model.onnx"
    source.write_bytes(model(text, imports=', "f": 1').SerializeToString())
    with pytest.raises(UnsupportedModelError, match="in f::F uses the value 't', which nothing gives"):
        load(source)
    # The inspection takes a model as it is given, whoever loaded it.
    assert inspect(ir.load(source), MIN).totals.nodes


def check_every_pass(made: onnx.ModelProto, folder: Path) -> None:
    source = folder / "model.onnx"
    source.write_bytes(made.SerializeToString())
    assert inspect(load(source), MIN).totals.nodes
    for name, each in PASSES.items():
        assert said_in_words(lambda: rewrite(source, folder / "out.onnx", [each()])), name  # noqa: B023
    rewrite(source, folder / "out.onnx", Auto(), Device(MIN))
