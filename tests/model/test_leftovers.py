from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from hubpublish.model import FreshNames, load, save
from hubpublish.passes import PASSES
from tests.models.build import assert_runs_same, nodes, parse, random_feeds, rewrite
from tests.models.rich import NOT_SET, fields_of, fields_set, normalized, rich_model


def test_the_rich_model_sets_every_field_there_is() -> None:
    known = set(fields_of(onnx.ModelProto.DESCRIPTOR))
    excepted = {name for name in known if name in NOT_SET or f"{name.split('.')[0]}.*" in NOT_SET}
    assert set(fields_set(rich_model())) == known - excepted


@pytest.mark.parametrize("ir_version", range(8, 14))
def test_saving_what_was_loaded_loses_and_adds_nothing(ir_version: int) -> None:
    model = rich_model(ir_version)
    assert str(normalized(rewrite(model).model)) == str(normalized(model))


def test_nothing_accumulates_from_save_to_save() -> None:
    model = rewrite(rich_model()).model
    assert rewrite(model).model.SerializeToString() == model.SerializeToString()


def test_saving_twice_from_one_load_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "in.onnx").write_bytes(rich_model().SerializeToString())
    model = load(tmp_path / "in.onnx")
    first, second = (save(model, tmp_path / name).path.read_bytes() for name in ("a.onnx", "b.onnx"))
    assert first == second


def test_outputs_left_out_at_the_end_still_count() -> None:
    # Without the last two this would be a Split into two parts of four, and not four of two.
    model = parse("""<ir_version: 8, opset_import: ["": 13]> g (float[8] x) => (float[2] a, float[2] b)
        { a, b, c, d = Split<axis=0>(x) }""")
    (split,) = nodes(model, "Split")
    split.output[2:] = ["", ""]
    (kept,) = nodes(rewrite(model).model, "Split")
    assert list(kept.output) == ["a", "b", "", ""]


def test_outputs_left_out_in_bodies_and_functions_still_count() -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13, "local": 1]>
        g (bool c, float[8] x) => (float[2] y, float[2] z) {
            y = If(c) <then_branch = t () => (float[2] a) { a, b, e, f = Split<axis=0>(x) },
                       else_branch = u () => (float[2] p) { p, q, r, s = Split<axis=0>(x) }>
            z = local.F(x)
        }
        <domain: "local", opset_import: ["": 13]> F (v) => (a) { a, b, e, f = Split<axis=0>(v) }""")
    for split in nodes(model, "Split"):
        split.output[1:] = ["", "", ""]
    assert [len(split.output) for split in nodes(rewrite(model).model, "Split")] == [4, 4, 4]


def test_function_value_info_stays_where_it_is_in_ir_versions_that_do_not_have_it() -> None:
    model = rich_model(8)
    model.functions[0].value_info.add(name="a").type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert str(normalized(rewrite(model).model)) == str(normalized(model))


def test_value_info_for_function_values_in_the_main_graph_is_kept() -> None:
    # The form that exporters used before functions had a value_info of their own.
    model = rich_model(9)
    model.functions[0].ClearField("overload")
    model.graph.node[2].ClearField("overload")
    for name in ("local::Block/b", "local::Block/a/b", "local::Nobody/b"):
        model.graph.value_info.add(name=name).type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert str(normalized(rewrite(model).model)) == str(normalized(model))


@pytest.mark.parametrize("kind", ["value_info", "annotation"])
def test_a_new_value_does_not_take_a_name_that_something_is_declared_of(kind: str, tmp_path: Path) -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y)
        { [s] y = Sum(x, x, x) }""")
    if kind == "value_info":
        stale = model.graph.value_info.add(name="s/Add_output_0")
        stale.type.tensor_type.elem_type = onnx.TensorProto.INT64
    else:
        model.graph.quantization_annotation.add(tensor_name="s/Add_output_0")
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    assert FreshNames(load(tmp_path / "in.onnx")).fresh("s/Add_output") == "s/Add_output_1"


def test_the_declared_interface_survives_a_rewrite() -> None:
    model = parse("""<ir_version: 8, opset_import: ["": 13]>
        g (float[N] x) => (float[M] y, float[N] x, float[K] y) { [s] y = Sum(x, x, x) }""")
    result = rewrite(model, PASSES["sum_to_add"]()).model
    assert list(result.graph.input) == list(model.graph.input)
    assert list(result.graph.output) == list(model.graph.output)
    single = parse("""<ir_version: 8, opset_import: ["": 13]> g (float[N] x) => (float[M] y, float[N] x)
        { [s] y = Sum(x, x, x) }""")
    assert_runs_same(single, rewrite(single, PASSES["sum_to_add"]()).model, random_feeds(single))
