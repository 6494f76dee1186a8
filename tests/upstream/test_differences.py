"""How two models differ: operators, interface, weights; and what is no difference."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from hubpublish.errors import UnsupportedModelError
from hubpublish.model import load
from hubpublish.upstream import differences
from hubpublish.upstream.differences import ModelDifference, compare, summarize

MODEL = """<ir_version: 8, opset_import: ["": 13]>
g (float[N,4] x) => (float[N,4] y)
<float[4] a = {1, 2, 3, 4}, float[4] b = {5, 6, 7, 8}, int64[2] shape = {-1, 4}>
{
  [first] s = Add (x, a)
  [second] m = Mul (s, b)
  [third] r = Reshape (m, shape)
  [last] y = Relu (r)
}"""


@pytest.fixture
def between(tmp_path: Path) -> Callable[[Any, Any], ModelDifference]:
    """The difference between two models, each as text or as a protobuf."""

    def difference(old: Any, new: Any) -> ModelDifference:
        paths = []
        for name, model in (("old", old), ("new", new)):
            proto = onnx.parser.parse_model(model) if isinstance(model, str) else model
            paths.append(tmp_path / f"{name}.onnx")
            paths[-1].write_bytes(proto.SerializeToString())
        return compare("m.onnx", *map(summarize, paths))

    return difference


Between = Callable[[Any, Any], ModelDifference]


def renamed(text: str) -> onnx.ModelProto:
    """The model with another name for everything inside, its nodes and weights in another order."""
    model = onnx.parser.parse_model(text)
    names = {value.name for value in (*model.graph.input, *model.graph.output)}

    def new(name: str) -> str:
        return name if name in names or not name else f"other_{name}"

    for number, node in enumerate(model.graph.node):
        node.name = f"node_{number}"
        node.doc_string = "says nothing"
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    for tensor in model.graph.initializer:
        tensor.name = new(tensor.name)
    for field in (model.graph.node, model.graph.initializer):
        entries = list(field)[::-1]
        del field[:]
        field.extend(entries)
    model.producer_name = "another exporter"
    return model


class TestEqual:
    def test_the_same_file(self, between: Between) -> None:
        found = between(MODEL, MODEL)
        assert found.equal is True
        assert found.graph_equal is True
        assert found.weights is not None
        assert found.weights.equal
        assert (found.ops_added, found.ops_removed, found.interface) == ({}, {}, ())

    def test_other_names_and_another_order(self, between: Between) -> None:
        found = between(MODEL, renamed(MODEL))
        assert found.equal is True

    def test_weights_held_in_another_field_of_the_file(self, between: Between) -> None:
        packed = onnx.parser.parse_model(MODEL)
        for tensor in packed.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
        assert packed != onnx.parser.parse_model(MODEL)
        assert between(MODEL, packed).equal is True

    def test_weights_in_a_file_of_their_own(self, tmp_path: Path) -> None:
        model = onnx.parser.parse_model(MODEL)
        inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
        inside.write_bytes(model.SerializeToString())
        ir.save(ir.from_proto(model), outside, external_data="outside.onnx_data", size_threshold_bytes=0)
        assert b"outside.onnx_data" in outside.read_bytes()
        assert compare("m.onnx", summarize(inside), summarize(outside)).equal is True


class TestWeights:
    def test_of_which_some_changed(self, between: Between) -> None:
        found = between(MODEL, MODEL.replace("5, 6", "5, 60"))
        assert (found.equal, found.graph_equal) == (False, True)
        assert found.weights is not None
        assert found.weights.model_dump() == {
            "equal": False,
            "added": 1,
            "added_bytes": 16,
            "removed": 1,
            "removed_bytes": 16,
        }
        assert found.new is not None
        assert (found.new.weights, found.new.weight_bytes) == (2, 32)

    def test_that_changed_places(self, between: Between) -> None:
        swapped = MODEL.replace("Add (x, a)", "Add (x, b)").replace("Mul (s, b)", "Mul (s, a)")
        found = between(MODEL, swapped)
        assert found.weights is not None
        assert (found.equal, found.graph_equal, found.weights.equal) == (False, True, True)

    def test_that_are_shared_now(self, between: Between) -> None:
        twice = MODEL.replace("5, 6, 7, 8", "1, 2, 3, 4")
        shared = MODEL.replace("Mul (s, b)", "Mul (s, a)").replace(", float[4] b = {5, 6, 7, 8}", "")
        found = between(twice, shared)
        assert found.weights is not None
        assert (found.weights.added, found.weights.removed) == (0, 1)

    def test_of_another_type(self, between: Between) -> None:
        half = onnx.parser.parse_model(MODEL)
        half.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones(4, np.float16), "a"))
        found = between(MODEL, half)
        assert (found.equal, found.graph_equal) == (False, False)

    def test_in_constants_count_like_initializers(self, between: Between) -> None:
        constant = MODEL.replace("float[4] a = {1, 2, 3, 4}, ", "").replace(
            "[first]", "[made] a = Constant <value = float[4] {1, 2, 3, 4}> ()\n[first]"
        )
        found = between(MODEL, constant)
        assert found.weights is not None
        assert (found.weights.equal, found.graph_equal) == (True, False)
        assert found.ops_added == {"Constant": 1}
        other = between(constant, constant.replace("{1, 2", "{1, 20"))
        assert other.weights is not None
        assert (other.weights.equal, other.graph_equal) == (False, True)

    def test_do_not_include_shapes(self, between: Between) -> None:
        found = between(MODEL, MODEL.replace("{-1, 4}", "{1, 4}"))
        assert found.weights is not None
        assert (found.weights.equal, found.graph_equal) == (True, False)


class TestGraph:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("Relu (r)", "Sigmoid (r)"),
            ("[last] y = Relu (r)", "[last] y = Relu (r)\n[dead] z = Relu (s)"),
            ("Reshape (m", "Reshape <allowzero = 1> (m"),
            ("Mul (s, b)", "Mul (b, s)"),
            ("Mul (s, b)", "Mul (x, b)"),
            ('"": 13', '"": 14'),
            ("float[N,4] x", "float[N,5] x"),
        ],
    )
    def test_that_differs(self, between: Between, old: str, new: str) -> None:
        assert old in MODEL
        found = between(MODEL, MODEL.replace(old, new))
        assert (found.equal, found.graph_equal) == (False, False)
        assert found.weights is not None
        assert found.weights.equal

    def test_counts_operators(self, between: Between) -> None:
        new = MODEL.replace("[last] y = Relu (r)", "q = Neg (r)\np = Neg (q)\no = Neg (p)\ny = Sigmoid (o)")
        found = between(MODEL, new)
        assert found.ops_added == {"Neg": 3, "Sigmoid": 1}
        assert found.ops_removed == {"Relu": 1}
        assert found.old is not None
        assert found.new is not None
        assert (found.old.nodes, found.new.nodes) == (4, 7)

    def test_names_opsets_and_ir_version(self, between: Between) -> None:
        new = MODEL.replace('"": 13', '"": 17, "com.x": 2').replace("ir_version: 8", "ir_version: 9")
        found = between(MODEL, new)
        assert found.old is not None
        assert found.new is not None
        assert (found.old.opsets, found.new.opsets) == ({"": 13}, {"": 17, "com.x": 2})
        assert (found.old.ir_version, found.new.ir_version) == (8, 9)

    def test_names_inputs_and_outputs_that_changed(self, between: Between) -> None:
        new = MODEL.replace("float[N,4] x)", "float16[1,4] x, int64 n)").replace(
            "=> (float[N,4] y)", "=> (float[N,4] z)"
        )
        found = between(MODEL, new.replace("y = Relu", "z = Relu"))
        assert [each.model_dump() for each in found.interface] == [
            {"name": "x", "kind": "input", "old": "float32 [N, 4]", "new": "float16 [1, 4]"},
            {"name": "n", "kind": "input", "old": None, "new": "int64 []"},
            {"name": "y", "kind": "output", "old": "float32 [N, 4]", "new": None},
            {"name": "z", "kind": "output", "old": None, "new": "float32 [N, 4]"},
        ]

    def test_an_initializer_among_the_inputs_is_a_default_and_no_input(self, between: Between) -> None:
        listed = onnx.parser.parse_model(MODEL)
        listed.graph.input.append(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [4]))
        found = between(MODEL, listed)
        assert found.interface == ()
        assert found.graph_equal is False  # a caller may override it now

    @pytest.mark.parametrize(
        ("old", "new", "weights_equal"),
        [
            ("i = Neg (x)", "i = Abs (x)", True),
            ("{1, 2}", "{1, 3}", False),
            ("i = Neg (x)", "i = Neg (c)", True),
        ],
    )
    def test_in_a_body(self, between: Between, old: str, new: str, weights_equal: bool) -> None:
        text = """<ir_version: 8, opset_import: ["": 16]>
        g (float[2] x, bool c0) => (float[2] y) {
          c = Abs (x)
          y = If (c0) <
            then_branch = one () => (float[2] i) { i = Neg (x) },
            else_branch = two () => (float[2] j) <float[2] w = {1, 2}> { j = Add (x, w) }
          >
        }"""
        found = between(text, text.replace(old, new))
        assert found.weights is not None
        assert (found.equal, found.graph_equal) == (False, not weights_equal)
        assert found.weights.equal is weights_equal
        assert between(text, text).equal is True

    @pytest.mark.parametrize(("old", "new"), [("Neg (v)", "Abs (v)"), ("<k: int = 1>", "<k: int = 2>")])
    def test_in_a_function(self, between: Between, old: str, new: str) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "local": 1]>
        g (float[2] x) => (float[2] y) { y = local.block (x) }
        <domain: "local", opset_import: ["": 17]>
        block <k: int = 1> (v) => (o) { i = Neg (v)
          o = Concat <axis: int = @k> (i) }"""
        assert old in text
        assert between(text, text).equal is True
        found = between(text, text.replace(old, new))
        assert found.graph_equal is False

    def test_where_a_value_comes_from_nowhere(self, between: Between) -> None:
        text = MODEL.replace("Add (x, a)", "Add (x, nothing)")
        with pytest.raises(UnsupportedModelError, match="the value 'nothing', which nothing gives"):
            between(text, MODEL)  # a bump says that this model cannot be read, and why


@pytest.mark.parametrize(
    "dtype", ["BFLOAT16", "FLOAT8E4M3FN", "INT4", "UINT4", "STRING", "BOOL", "COMPLEX64"]
)
def test_every_type_of_weight(between: Between, dtype: str) -> None:
    number = getattr(onnx.TensorProto, dtype)

    def model(second: int) -> onnx.ModelProto:
        values: Any = [b"a", b"bc" * second] if dtype == "STRING" else [1, second]
        weight = helper.make_tensor("w", number, [2], values)
        y = helper.make_tensor_value_info("y", number, [2])
        graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [y], [weight])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    assert between(model(1), model(1)).equal is True
    assert between(model(1), model(0)).equal is False


@pytest.mark.parametrize("dtype", ["FLOAT", "BFLOAT16", "INT4"])
def test_external_data_is_read_at_its_offset_and_no_further(tmp_path: Path, dtype: str) -> None:
    number = getattr(onnx.TensorProto, dtype)
    weights = [helper.make_tensor(name, number, [3], [1, 2, n]) for n, name in enumerate("abc")]
    nodes = [helper.make_node("Identity", [name], [f"o{name}"]) for name in "abc"]
    outputs = [helper.make_tensor_value_info(f"o{name}", number, [3]) for name in "abc"]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [], outputs, weights),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    inside.write_bytes(made.SerializeToString())
    model = ir.from_proto(made)
    ir.save(model, outside, external_data="outside.onnx_data", size_threshold_bytes=0)
    assert summarize(outside).weights == summarize(inside).weights
    assert summarize(outside).weights.total() == 3
    data = tmp_path / "outside.onnx_data"
    content = bytearray(data.read_bytes())
    content[0] ^= 1
    data.write_bytes(bytes(content))
    changed = summarize(outside).weights - summarize(inside).weights
    assert changed.total() == 1


def test_a_model_is_out_of_memory_once_it_is_summarized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    loaded: list[weakref.ref[ir.Graph]] = []

    def watched(path: Path) -> ir.Model:
        model = load(path)
        loaded.append(weakref.ref(model.graph))
        return model

    monkeypatch.setattr(differences, "load", watched)
    monkeypatch.setattr(differences, "LARGE", 0)
    gc.disable()  # so that it does not come by chance
    try:
        summary = summarize(path)
        assert loaded[0]() is None
    finally:
        gc.enable()
    assert summary.facts.nodes == 4


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_reordering_and_renaming_is_no_difference(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Random graphs: equal under renaming and any order; not, once one operator is another."""
    names, lines = ["x"], []
    for number in range(data.draw(st.integers(1, 8))):
        op = data.draw(st.sampled_from(["Add", "Mul", "Sub"]))
        one, two = (data.draw(st.sampled_from([*names, "w", "v"])) for _ in range(2))
        lines.append(f"n{number} = {op} ({one}, {two})")
        names.append(f"n{number}")
    head = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) '
    weights = "<float[2] w = {1, 2}, float[2] v = {3, 4}> "
    body = lambda: head + weights + "{ " + "\n".join(lines) + f"\ny = Neg ({names[-1]}) }}"  # noqa: E731
    folder = tmp_path_factory.mktemp("models")
    text = body()
    (folder / "old.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    (folder / "new.onnx").write_bytes(renamed(text).SerializeToString())
    old = summarize(folder / "old.onnx")
    assert compare("m", old, summarize(folder / "new.onnx")).equal is True
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = lines[at].replace("Add", "Div").replace("Mul", "Div").replace("Sub", "Div")
    (folder / "new.onnx").write_bytes(onnx.parser.parse_model(body()).SerializeToString())
    other = compare("m", old, summarize(folder / "new.onnx"))
    assert (other.equal, other.graph_equal, other.ops_added) == (False, False, {"Div": 1})
