from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from hubpublish.model import FreshNames, Scope, load, save
from hubpublish.passes import PassOutcome, RewritePass
from hubpublish.passes.base import NodeMaker, Replacement, Skip
from hubpublish.passes.sum_to_add import SumToAdd
from hubpublish.recipe import InputSpec, VerifySpec
from hubpublish.verify import verify
from hubpublish.verify.bisect import Culprit, bisect, builder

from .conftest import OnnxFile


class NegToSub(RewritePass[Any]):
    """Neg(x) as Sub(0, x), but as Sub(0.001, x) for the node called in ``broken``."""

    name = "neg_to_sub"
    exact = True
    op_types = frozenset({"Neg"})
    broken = "n5"

    def concerns(self, node: ir.Node) -> bool:
        return True

    def replace(self, node: ir.Node, scope: Scope, names: FreshNames) -> Replacement | Skip:
        make = NodeMaker(node, names)
        offset = 1e-3 if node.name == self.broken else -0.0
        (zero,) = make("Constant", [], [ir.AttrTensor("value", ir.Tensor(np.array(offset, np.float32)))])
        outputs = make("Sub", [zero, node.inputs[0]])
        return Replacement(make.nodes, outputs)


CHAIN = (
    "g (float[3] x) => (float[3] y) { s = Sum(x, x, w) t0 = Identity(s)"
    + "".join(f" [n{i}] t{i + 1} = Neg(t{i})" for i in range(9))
    + " y = Mul(t9, w) }"
)

Find = Callable[..., Culprit | None]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Runs the passes, verifies, bisects."""

    def run(original: Path, passes: list[RewritePass[Any]], gate: Any = "exact", **inputs: Any) -> Any:
        model = load(original)
        outcomes: list[PassOutcome] = [each(model) for each in passes]  # type: ignore[misc]
        rewritten = save(model, tmp_path / "rewritten" / "model.onnx").path
        spec = VerifySpec(gate=gate, inputs=InputSpec(**{"noise": 1, **inputs}))
        result = verify(original, rewritten, spec=spec, base_dir=tmp_path)
        return bisect(
            result,
            original,
            builder(original, passes, tmp_path / "between"),
            outcomes,
            spec=spec,
            base_dir=tmp_path,
            out=tmp_path / "out",
        )

    return run


def outputs(path: Path, inputs: Path) -> list[np.ndarray]:
    with np.load(inputs) as feeds:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run(None, dict(feeds))


def test_the_pass_the_node_and_a_minimal_model(onnx_file: OnnxFile, find: Find) -> None:
    original = onnx_file(CHAIN, w=np.ones(3, np.float32))
    culprit = find(original, [SumToAdd(), NegToSub()])
    assert culprit is not None
    assert (culprit.pass_name, culprit.node, culprit.op, culprit.scope) == ("neg_to_sub", "n5", "Neg", "main")
    assert culprit.minimal
    assert [node.name for node in onnx.load(culprit.before).graph.node] == ["n5"]
    assert [node.op_type for node in onnx.load(culprit.after).graph.node] == ["Constant", "Sub"]
    before, after = (outputs(path, culprit.inputs)[0] for path in (culprit.before, culprit.after))
    assert np.allclose(after - before, 1e-3, atol=1e-6)
    onnx.checker.check_model(onnx.load(culprit.before), full_check=True)
    assert str(culprit) == "pass neg_to_sub, its rewrite of Neg n5 in main"


def test_a_node_inside_a_branch_shows_as_the_node_around_it(onnx_file: OnnxFile, find: Find) -> None:
    original = onnx_file("""g (bool c, float[3] x) => (float[3] y) {
      [outer] a = Neg(x)
      [choice] y = If(c) <
        then_branch = t () => (float[3] p) { [n5] p = Neg(a) },
        else_branch = e () => (float[3] q) { [n6] q = Neg(a) }
      >
    }""")
    culprit = find(original, [NegToSub()])
    assert culprit is not None
    assert (culprit.node, culprit.minimal) == ("n5", True)
    assert str(culprit.scope).startswith("main/choice.")
    small = onnx.load(culprit.before).graph
    assert [node.name for node in small.node] == ["choice"]
    assert {value.name for value in small.input} == {"a", "c"}


def test_a_node_inside_a_function_shows_as_its_calls(tmp_path: Path, find: Find) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "local": 1]>
      g (float[3] x) => (float[3] y) { a = Abs(x) [call] b = local.Flip(a) y = Sqrt(b) }
      <domain: "local", opset_import: ["": 21]> Flip (p) => (q) { [n4] r = Neg(p) [n5] q = Neg(r) }
    """)
    onnx.save(model, tmp_path / "function.onnx")
    culprit = find(tmp_path / "function.onnx", [NegToSub()])
    assert culprit is not None
    assert (culprit.node, culprit.minimal) == ("n5", True)
    assert [node.op_type for node in onnx.load(culprit.after).graph.node] == ["Flip"]


def test_a_difference_that_takes_neighbours_to_show(onnx_file: OnnxFile, find: Find) -> None:
    from .test_verifier import conv

    text, weights = conv("Sum")
    culprit = find(onnx_file(text, **weights), [SumToAdd()])
    assert culprit is not None
    assert (culprit.op, culprit.minimal) == ("Sum", True)
    assert "Conv" in {node.op_type for node in onnx.load(culprit.before).graph.node}


def test_whole_models_where_nothing_smaller_can_be_cut(onnx_file: OnnxFile, find: Find) -> None:
    # What enters the node is a sequence, and so is all that comes before it, far up.
    far = " ".join(f"s{i + 1} = Identity(s{i})" for i in range(5))
    original = onnx_file(f"""g (float[3] x) => (float[3] y) {{
      s0 = SequenceConstruct(x, x) {far}
      u = SequenceMap(s5) <body = b (float[3] e) => (float[3] f) {{ [n5] f = Neg(e) }}>
      i = Constant<value_int = 0>()
      y = SequenceAt(u, i)
    }}""")
    culprit = find(original, [NegToSub()])
    assert culprit is not None
    assert (culprit.node, culprit.minimal) == ("n5", False)
    before, after = (outputs(path, culprit.inputs)[0] for path in (culprit.before, culprit.after))
    assert np.allclose(after - before, 1e-3, atol=1e-6)


def test_external_data_travels_with_whole_and_with_small_models(
    onnx_file: OnnxFile, find: Find, tmp_path: Path
) -> None:
    inline = onnx_file(
        "g (float[900] x) => (float[900] y) { a = Add(x, w) [n5] b = Neg(a) y = Add(b, w) }", w=W
    )
    folder = tmp_path / "external"
    folder.mkdir()
    model = onnx.load(inline)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.onnx_data", size_threshold=1)
    culprit = find(folder / "m.onnx", [NegToSub()])
    assert culprit is not None
    assert culprit.minimal
    shutil.rmtree(folder)
    assert outputs(culprit.before, culprit.inputs)[0].shape == (900,)


W = np.ones(900, np.float32)


def test_what_is_not_the_rewrites_fault(onnx_file: OnnxFile, find: Find) -> None:
    assert find(onnx_file("g (float[3] x) => (float[3] y) { [n1] y = Neg(x) }"), [NegToSub()]) is None
    dead = onnx_file("g (float[3] x) => (float[3] y) { [n5] z = Neg(x) y = Sub(z, z) }")
    assert find(dead, [NegToSub()]) is None
