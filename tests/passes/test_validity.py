from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from hubpublish.errors import UnsupportedModelError
from hubpublish.passes import PASSES
from hubpublish.passes.validity import NEWEST_OPSET, OLDEST_OPSET, require_supported_opsets, why_not_valid
from tests.models.build import parse, rewrite


def model_of(*imports: tuple[str, int], function: tuple[str, int] | None = None) -> ir.Model:
    text = ", ".join(f'"{domain}": {version}' for domain, version in imports)
    more = (
        f'<domain: "l", opset_import: ["{function[0]}": {function[1]}]> F (a) => (b) {{ b = Op(a) }}'
        if function
        else ""
    )
    return ir.from_proto(
        parse(f"<ir_version: 8, opset_import: [{text}]> g (float x) => (float y) {{ y = Op(x) }} {more}")
    )


@pytest.mark.parametrize("opset", range(OLDEST_OPSET, NEWEST_OPSET + 1))
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_supported_opsets(opset: int, domain: str) -> None:
    require_supported_opsets(model_of((domain, opset), function=(domain, opset)))


@pytest.mark.parametrize("opset", [1, 6, 26, 99])
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_other_opsets_are_refused_with_their_number(opset: int, domain: str) -> None:
    for model, owner in (
        (model_of((domain, opset)), "the model"),
        (model_of(("", 13), function=(domain, opset)), "function l::F"),
    ):
        with pytest.raises(
            UnsupportedModelError, match=f"{owner} imports opset {opset}; .* 7 to 25"
        ) as caught:
            require_supported_opsets(model)
        assert caught.value.details == {"opset": opset}
        assert "version_converter" in str(caught.value.hint)


def test_only_onnx_itself_counts() -> None:
    require_supported_opsets(model_of(("custom", 1)))
    require_supported_opsets(model_of(("", 13), ("ai.onnx.ml", 3), ("com.microsoft", 1)))


def test_two_versions_of_the_same_operators_are_refused() -> None:
    require_supported_opsets(model_of(("", 13), ("ai.onnx", 13)))
    with pytest.raises(UnsupportedModelError, match=r"opset 13 as '' and 12 as 'ai\.onnx'"):
        require_supported_opsets(model_of(("", 13), ("ai.onnx", 12)))


@pytest.mark.parametrize("name", sorted(PASSES))
def test_every_pass_checks_the_opset(name: str) -> None:
    with pytest.raises(UnsupportedModelError):
        PASSES[name]()(model_of(("", 6)))


@pytest.mark.parametrize(
    ("node", "opset", "reason"),
    [
        (helper.make_node("Concat", ["a", "b"], ["c"], axis=0), 13, None),
        (helper.make_node("Concat", ["a", "b"], ["c"], axis=0, __mark=1), 13, None),
        (helper.make_node("Split", ["a", ""], ["c"], axis=0), 13, None),
        (helper.make_node("Concat", ["a", "b"], ["c"]), 13, "has no attribute 'axis'"),
        (helper.make_node("Concat", ["a"], ["c"], axis=0, dim=1), 13, "has an attribute 'dim'"),
        (helper.make_node("Concat", ["a"], ["c"], axis="0"), 13, "'axis' is of type STRING"),
        (helper.make_node("Concat", [], ["c"], axis=0), 13, "has 0 inputs"),
        (helper.make_node("Concat", ["a"], ["c", "d"], axis=0), 13, "has 2 outputs"),
        (helper.make_node("GatherND", ["a", "b"], ["c"]), 10, "opset 10 has no operator GatherND"),
        (helper.make_node("Sum", ["a", "int"], ["c"]), 13, "input 'int' is of type int64"),
        (helper.make_node("Sum", ["a", "b"], ["c"]), 7, None),
        (helper.make_node("Relu", ["sequence"], ["c"]), 13, None),  # not a tensor: left to the runtime
    ],
)
def test_a_node_is_held_against_its_definition(node: onnx.NodeProto, opset: int, reason: str | None) -> None:
    types = {
        "int": helper.make_tensor_type_proto(onnx.TensorProto.INT64, None),
        "sequence": helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)),
    }
    inputs = [
        helper.make_value_info(
            name, types.get(name) or helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        )
        for name in node.input
        if name
    ]
    graph = ir.from_proto(helper.make_graph([node], "g", inputs, []))
    found = why_not_valid(graph[0], opset)
    assert (found is None) if reason is None else (reason in str(found))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "double", "uint8", "string", "bool", "complex64"])
def test_every_type_has_the_name_that_the_schema_uses(dtype: str) -> None:
    nine = ", ".join("x" * 9)
    model = parse(f"""<ir_version: 8, opset_import: ["": 13]> g ({dtype}[N] x) => ({dtype}[M] y)
        {{ y = Concat<axis = 0>({nine}) }}""")
    assert rewrite(model, PASSES["concat_tree"]()).rewritten == ["y"]
