from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from pydantic import ValidationError

from hubpublish.errors import UnsupportedModelError
from hubpublish.passes import PASSES, PassOptions, PassOutcome, RewritePass, Rewritten, Skipped
from tests.models.build import (
    Rewrite,
    assert_runs_same,
    depth_of,
    graphs,
    nodes,
    op_counts,
    parse,
    random_feeds,
    rewrite,
    run,
)


def all_passes() -> list[RewritePass[Any]]:
    return [each() for each in PASSES.values() if each.by_default]


def of_wide(result: Rewrite) -> list[PassOutcome]:
    """What the passes did that `WIDE` is for."""
    return [each for each in result.outcomes if each.name in ("concat_tree", "split_tree", "sum_to_add")]


def model_of(
    graph: str, functions: str = "", *, ir_version: int = 8, opset: int = 13, imports: str = ""
) -> onnx.ModelProto:
    return parse(
        f'<ir_version: {ir_version}, opset_import: ["": {opset}, "l": 1{imports}]> {graph} {functions}'
    )


def everywhere(result: Rewrite) -> bool:
    """Whether no wide node and no Sum is left in any scope."""
    return all(
        len(node.input) <= 6 and len(node.output) <= 5 and node.op_type != "Sum"
        for node in nodes(result.model)
        if node.op_type in ("Concat", "Split", "Sum")
    )


NINE = ", ".join("h" * 9)
PARTS = ", ".join(f"p{number}" for number in range(8))


def wide(source: str, tag: str = "", end: str = "q") -> str:
    """Nodes of all three kinds: a Split of ``source``, float[8], in 8, a Sum, and a Concat of 8."""
    p = [f"{tag}p{number}" for number in range(8)]
    return f"""{", ".join(p)} = Split<axis = 0>({source}) {tag}s = Sum({p[7]}, {p[0]}, {p[3]})
        {end} = Concat<axis = 0>({tag}s, {", ".join(p[1:])})"""


WIDE = wide("h")


# Scopes


def loop(tag: str) -> str:
    """A Loop over c, n and x that gives y, with wide nodes in its body and in both branches inside."""
    return f"""y = Loop(n, c, x) <body = b (int64 {tag}i, bool {tag}c, float[8] {tag}v)
        => (bool {tag}co, float[8] {tag}w) {{
            {tag}co = Identity({tag}c)
            {wide(f"{tag}v", f"{tag}b", f"{tag}b")}
            {tag}w = If({tag}c) <
                then_branch = t () => (float[8] {tag}t) {{ {wide(f"{tag}b", f"{tag}t", f"{tag}t")} }},
                else_branch = e () => (float[8] {tag}e) {{ {wide(f"{tag}v", f"{tag}e", f"{tag}e")} }}>
        }}>"""


LOOP_FEEDS = {"n": np.array(3), "c": np.array(True), "x": np.linspace(-1, 1, 8, dtype=np.float32)}


def test_every_scope_is_rewritten_in_order() -> None:
    model = model_of(
        f"""g (int64 n, bool c, float[8] x) => (float[8] y, float[8] z)
        {{ {loop("m")} a = l.F(n, c, y) z = l.F(n, c, a) }}""",
        f'<domain: "l", opset_import: ["": 13]> F (n, c, x) => (y) {{ {loop("f")} }}',
    )
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    scopes = ["main/y.body", "main/y.body/mw.then_branch", "main/y.body/mw.else_branch"]
    scopes += ["l::F/y.body", "l::F/y.body/fw.then_branch", "l::F/y.body/fw.else_branch"]
    for outcome in of_wide(result):
        assert [each.scope for each in outcome.rewritten] == scopes
    assert_runs_same(model, result.model, LOOP_FEEDS)
    assert_runs_same(model, result.model, LOOP_FEEDS, "default")


def test_scan_bodies() -> None:
    model = model_of(f"""g (float[8] z, float[T,8] x) => (float[8] last, float[T,8] all) {{
        last, all = Scan<num_scan_inputs = 1, body = b (float[8] h0, float[8] x0)
            => (float[8] q, float[8] o) {{ h = Add(h0, x0) {WIDE} o = Relu(q) }}>(z, x) }}""")
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    assert of_wide(result)[0].rewritten[0].scope == "main/last.body"
    assert_runs_same(model, result.model, random_feeds(model, T=4))


def test_lists_of_graphs() -> None:
    model = model_of("g (float[8] h) => (float[8] y) { [op] y = l.Op(h) }")
    body = parse(f'<ir_version: 8, opset_import: ["": 13]> b (float[8] h) => (float[8] q) {{ {WIDE} }}').graph
    model.graph.node[0].attribute.append(helper.make_attribute("bodies", [body, body]))
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    scopes = [each.scope for each in of_wide(result)[0].rewritten]
    assert scopes == ["main/op.bodies[0]", "main/op.bodies[1]"]


def test_a_function_that_is_called_twice_is_rewritten_once() -> None:
    model = model_of(
        "g (float[8] x) => (float[8] y) { a = l.F(x) y = l.F(a) }",
        f'<domain: "l", opset_import: ["": 13]> F (h) => (q) {{ {WIDE} }}',
    )
    result = rewrite(model, *all_passes())
    assert [len(outcome.rewritten) for outcome in of_wide(result)] == [1, 1, 1]
    assert_runs_same(model, result.model, random_feeds(model))


# Order


def reversed_nodes(graph: Any) -> None:
    order = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(graph.node)]
    del graph.node[:]
    graph.node.extend(order)


def test_unsorted_scopes_come_out_sorted() -> None:
    text = f"""g (bool c, float[8] x) => (float[8] y, float[8] z) {{
            h = Relu(x) {WIDE}
            y = If(c) <then_branch = t () => (float[8] b) {{ a = Sum(q, h, s) b = Neg(a) }},
                       else_branch = e () => (float[8] e) {{ d = Sum(s, q) e = Neg(d) }}>
            z = l.F(h)
        }}"""
    function = f'<domain: "l", opset_import: ["": 13]> F (h) => (q) {{ {WIDE} }}'
    model, mixed = model_of(text, function), model_of(text, function)
    for graph in list(graphs(mixed)):
        reversed_nodes(graph)
    result = rewrite(mixed, *all_passes())
    assert everywhere(result)
    onnx.checker.check_model(result.model)
    for condition in (True, False):
        # The runtime sorts the main graph only, so this is compared with the sorted model.
        assert_runs_same(model, result.model, {**random_feeds(model), "c": np.array(condition)})


def test_sorting_alone_is_reported_as_a_change() -> None:
    model = model_of("g (float[8] x) => (float[8] y) { y = Relu(a) a = Neg(x) }")
    outcome = PASSES["concat_tree"]()(ir.from_proto(model))
    assert outcome.modified
    assert not outcome.rewritten
    assert not PASSES["concat_tree"]()(outcome.model).modified


@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_cycle_is_a_clear_error(name: str) -> None:
    model = model_of("g (float[8] x) => (float[8] y) { y = Sum(x, z) z = Relu(y) }")
    with pytest.raises(UnsupportedModelError, match="cycle"):
        rewrite(model, PASSES[name]())


# Names


@pytest.mark.parametrize("name", ["", "twin"])
def test_nodes_without_names_and_with_the_same_names(name: str) -> None:
    text = f"a = Concat<axis=0>({NINE}) b = Concat<axis=0>({NINE})"
    model = model_of(f"g (float[N] h) => (float[A] a, float[B] b) {{ {text} }}")
    named = model_of(f"g (float[N] h) => (float[A] a, float[B] b) {{ {text} }}")
    for node in named.graph.node:
        node.name = name
    result = rewrite(named, PASSES["concat_tree"]())
    assert result.rewritten == ([name, name] if name else ["a", "b"])
    names = [node.name for node in result.model.graph.node]
    assert len(set(names)) == len(names) == 6
    assert_runs_same(model, result.model, random_feeds(model))  # the runtime refuses twins


@pytest.mark.parametrize("branch", ["then", "else", "main"])
def test_a_name_that_another_scope_has_is_not_taken(branch: str) -> None:
    # What the pass would call its own value is a value of another branch, or one outside.
    parts = {side: PARTS.replace("p", side) for side in "te"}
    model = model_of(f"""g (bool c, float[8] h) => (float[A] y) {{
            main = Neg(h)
            y = If(c) <
                then_branch = t () => (float[B] a) {{
                    [sp] {parts["t"]} = Split<axis=0>(h) then = Add(t0, t1) a = Add(then, main) }},
                else_branch = e () => (float[C] b) {{
                    [sp] {parts["e"]} = Split<axis=0>(h) else = Add(e0, e1) b = Add(else, main) }}>
        }}""")
    taken = "sp/Split_output_0"
    for node in nodes(model):
        for names in (node.input, node.output):
            names[:] = [taken if name == branch else name for name in names]
    result = rewrite(model, PASSES["split_tree"]())
    made = [name for node in nodes(result.model) for name in node.output]
    assert made.count(taken) == 1
    assert len(set(made)) == len(made)
    for condition in (True, False):
        assert_runs_same(model, result.model, {**random_feeds(model), "c": np.array(condition)})


def test_a_name_taken_by_an_input_an_initializer_or_a_node_is_not_taken_again() -> None:
    model = model_of(f"""g (float[N] h, float[1] other) => (float[A] a, float[1] z) <float[1] w = {{2}}>
        {{ [c] a = Concat<axis=0>({NINE}) [third] z = Add(other, w) }}""")
    renames = {"other": "c/Concat_output_0", "w": "c/Concat_output_1", "third": "c/Concat_0"}
    model.graph.input[1].name, model.graph.initializer[0].name = renames["other"], renames["w"]
    model.graph.node[1].input[:] = [renames["other"], renames["w"]]
    model.graph.node[1].name = renames["third"]
    result = rewrite(model, PASSES["concat_tree"]())
    assert len({node.name for node in result.model.graph.node}) == len(result.model.graph.node)
    feeds = {"h": np.ones(2, np.float32), "c/Concat_output_0": np.ones(1, np.float32)}
    assert_runs_same(model, result.model, feeds)


def test_names_of_branches_may_be_the_same() -> None:
    model = model_of(f"""g (bool c, float[8] h) => (float[8] y) {{
        y = If(c) <then_branch = t () => (float[8] q) {{ {WIDE} }},
                   else_branch = e () => (float[8] q) {{ {WIDE} }}> }}""")
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    for condition in (True, False):
        assert_runs_same(model, result.model, {**random_feeds(model), "c": np.array(condition)})


def test_an_input_of_a_body_may_hide_a_value_outside() -> None:
    model = model_of("""g (int64 n, bool c, float[8] x) => (float[8] y, float[8] z) {
        z = Sum(x, x, x)
        y = Loop(n, c, x) <body = b (int64 i, bool c, float[8] x) => (bool co, float[8] w) {
            co = Identity(c) w = Sum(x, x, z) }> }""")
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    assert_runs_same(model, result.model, LOOP_FEEDS)


@pytest.mark.parametrize(
    "inner",
    ["<float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> { a = Sum(s, h, s) }", "{ s = Abs(h) a = Sum(s, h, s) }"],
)
def test_a_model_whose_bodies_take_names_from_outside_is_left_alone(inner: str) -> None:
    model = model_of(f"""g (bool c, float[8] h) => (float[8] y) {{
        s = Sum(h, h)
        y = If(c) <then_branch = t () => (float[8] a) {inner},
                   else_branch = e () => (float[8] b) {{ b = Sum(s, h, s) }}> }}""")
    result = rewrite(model, *all_passes())
    assert result.model == model
    assert [skip.node for skip in result.skipped] == ["s", "a", "b"]
    assert all("'s' names" in skip.reason for skip in result.skipped)


# What is not ONNX's own


def test_other_domains_are_left_alone_with_a_reason() -> None:
    model = model_of(f"g (float[N] h) => (float[A] a) {{ [c] a = l.Concat<axis=0>({NINE}) }}")
    result = rewrite(model, *all_passes())
    assert result.model == model
    assert [(skip.node, skip.op, skip.scope) for skip in result.skipped] == [("c", "l::Concat", "main")]
    assert "'l'" in result.skipped[0].reason


@pytest.mark.parametrize("imports", ['"ai.onnx": 13', '"": 13', '"": 13, "ai.onnx": 13'])
@pytest.mark.parametrize("spelled", ["", "ai.onnx"])
def test_the_long_spelling_of_the_domain_is_the_same(imports: str, spelled: str) -> None:
    model = parse(f"<ir_version: 8, opset_import: [{imports}]> g (float[8] h) => (float[8] q) {{ {WIDE} }}")
    for node in model.graph.node:
        node.domain = spelled
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    assert list(result.model.opset_import) == list(model.opset_import)
    assert_runs_same(model, result.model, random_feeds(model))


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("name", ["Concat", "Identity", "Constant", "Split", "Add", "Relu"])
def test_a_model_that_redefines_onnx_operators_is_left_alone(domain: str, name: str) -> None:
    model = model_of(
        f"g (float[8] h) => (float[8] q) {{ {WIDE} }}",
        f'<domain: "{domain}", opset_import: ["": 13]> {name} (a) => (b) {{ b = Neg(a) }}',
    )
    result = rewrite(model, *all_passes())
    assert [node.op_type for node in result.model.graph.node] == ["Split", "Sum", "Concat"]
    assert [skip.op for skip in result.skipped] == ["Concat", "Split", "Sum"]
    assert all("a function of its own" in skip.reason for skip in result.skipped)


def test_a_function_in_the_onnx_domain_that_redefines_nothing_does_no_harm() -> None:
    model = model_of(
        f"g (float[8] h) => (float[8] q) {{ {WIDE} }}",
        '<domain: "", opset_import: ["": 13]> MyOwn (a) => (b) { b = Neg(a) }',
    )
    assert everywhere(rewrite(model, *all_passes()))


def test_a_scope_without_an_opset_is_left_alone() -> None:
    model = parse(f'<ir_version: 8, opset_import: ["l": 1]> g (float[8] h) => (float[8] q) {{ {WIDE} }}')
    result = rewrite(model, *all_passes())
    assert result.model == model
    assert [skip.op for skip in result.skipped] == ["Concat", "Split", "Sum"]
    assert all("imports no version" in skip.reason for skip in result.skipped)


def test_a_node_spread_over_devices_is_left_alone() -> None:
    model = model_of(f"g (float[N] h) => (float[A] a) {{ [c] a = Concat<axis=0>({NINE}) }}", ir_version=11)
    model.configuration.add(name="two", num_devices=2)
    spec = (
        model.graph.node[0]
        .device_configurations.add(configuration_id="two")
        .sharding_spec.add(tensor_name="h")
    )
    spec.device.append(0)
    result = rewrite(model, *all_passes())
    assert result.model == model
    assert "devices" in result.skipped[0].reason


# Inputs and outputs


def test_outputs_of_the_graph_keep_name_type_and_shape() -> None:
    names = ", ".join(f"y{number}" for number in range(8))
    outputs = ", ".join(
        f"float[{'' if number else 'K'}{2 if number else ''}] y{number}" for number in range(8)
    )
    model = model_of(
        f"g (float[16] x) => ({outputs}, float[M] z) {{ {names} = Split<axis=0>(x) z = Sum(x, x) }}"
    )
    for output in model.graph.output:
        output.doc_string = f"about {output.name}"
        output.metadata_props.add(key="k", value=output.name)
    result = rewrite(model, *all_passes())
    assert list(result.model.graph.output) == list(model.graph.output)
    assert list(result.model.graph.input) == list(model.graph.input)
    assert_runs_same(model, result.model, random_feeds(model))


def test_an_output_may_be_used_inside_too() -> None:
    model = model_of("g (float[8] x) => (float[8] y, float[8] z) { y = Sum(x, x, x) z = Sum(y, x) }")
    assert_runs_same(model, rewrite(model, *all_passes()).model, random_feeds(model))


def test_an_output_listed_twice() -> None:
    model = model_of("g (float[8] x) => (float[8] y, float[8] y) { y = Sum(x, x, x) }")
    result = rewrite(model, *all_passes())
    assert op_counts(result.model) == {"Add": 2}
    assert list(result.model.graph.output) == list(model.graph.output)


def test_inputs_and_initializers_may_be_outputs() -> None:
    model = model_of(
        "g (float[8] x) => (float[8] x, float[2] w, float[8] y) <float[2] w = {1, 2}> { y = Sum(x, x, x) }"
    )
    result = rewrite(model, *all_passes())
    assert list(result.model.graph.output) == list(model.graph.output)
    assert_runs_same(model, result.model, random_feeds(model))


def test_the_output_of_a_body_may_be_a_value_outside() -> None:
    # ONNX Runtime refuses it, others do not; the name must still be there.
    model = model_of("""g (bool c, float[8] x) => (float[8] y) {
        s = Sum(x, x, x)
        y = If(c) <then_branch = t () => (float[8] s) {},
                   else_branch = e () => (float[8] b) { b = Neg(s) }> }""")
    result = rewrite(model, *all_passes())
    assert nodes(result.model, "If")[0].attribute[0].g.output[0].name == "s"
    assert "s" in result.model.graph.node[1].output


def test_overridable_initializers_are_values_like_any_other() -> None:
    model = model_of(
        "g (float[8] x, float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}) => (float[8] y) { y = Sum(x, w, w) }"
    )
    result = rewrite(model, *all_passes())
    assert everywhere(result)
    for feeds in (random_feeds(model), {**random_feeds(model), "w": np.zeros(8, np.float32)}):
        assert_runs_same(model, result.model, feeds)


# What is said about a value or a node


def test_what_is_said_about_the_outputs_stays() -> None:
    model = model_of("g (float[8] x) => (float[8] y) { [s] h = Sum(x, x, x) y = Relu(h) }")
    info = model.graph.value_info.add()
    info.CopyFrom(helper.make_tensor_value_info("h", TensorProto.FLOAT, ["N"], "halfway"))
    info.metadata_props.add(key="k", value="v")
    annotation = model.graph.quantization_annotation.add(tensor_name="h")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    result = rewrite(model, *all_passes())
    assert list(result.model.graph.value_info) == [info]
    assert list(result.model.graph.quantization_annotation) == [annotation]
    assert "h" in result.model.graph.node[1].output


def test_metadata_goes_to_all_new_nodes_and_documentation_to_the_last() -> None:
    model = model_of(f"g (float[N] h) => (float[A] a) {{ [c] a = Concat<axis=0>({NINE}) }}")
    model.graph.node[0].doc_string = "joins"
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['decoder']")
    result = rewrite(model, *all_passes()).model.graph.node
    assert [node.doc_string for node in result] == ["", "", "joins"]
    assert all(node.metadata_props[0].value == "['decoder']" for node in result)


@pytest.mark.parametrize("ir_version", range(3, 14))
def test_versions_imports_and_producer_stay(ir_version: int) -> None:
    model = model_of(
        f"g (float[8] h) => (float[8] q) {{ {WIDE} }}", ir_version=ir_version, imports=', "com.microsoft": 1'
    )
    model.producer_name, model.producer_version, model.domain = "torch", "2.9", "org.example"
    model.model_version, model.doc_string = 3, "a model"
    model.metadata_props.add(key="author", value="me")
    model.graph.doc_string = "a graph"
    if ir_version >= 8:
        model.functions.append(
            helper.make_function("l", "F", ["a"], ["b"], [], [helper.make_opsetid("", 12)])
        )
        model.functions[0].node.append(helper.make_node("Relu", ["a"], ["b"]))
    result = rewrite(model, *all_passes()).model
    assert everywhere(Rewrite(result, []))
    without_nodes = [onnx.ModelProto.FromString(each.SerializeToString()) for each in (model, result)]
    for each in without_nodes:
        del each.graph.node[:]
    assert without_nodes[0] == without_nodes[1]
    if ir_version <= 12:
        assert_runs_same(model, result, random_feeds(model))


# The outcome


def test_the_outcome_says_what_was_done() -> None:
    model = model_of(
        f"g (float[N] h) => (float[A] a, float[8] b){{ [c] a = Concat<axis=0>({NINE}) b = l.Concat({NINE}) }}"
    )
    outcome = PASSES["concat_tree"]()(ir.from_proto(model))
    assert outcome.modified
    assert (outcome.name, outcome.options, outcome.exact) == ("concat_tree", {"max_inputs": 6}, True)
    assert outcome.rewritten == [Rewritten(node="c", op="Concat", scope="main", into={"Concat": 3})]
    assert [(skip.node, skip.op) for skip in outcome.skipped] == [("b", "l::Concat")]
    json.dumps([each.model_dump() for each in (*outcome.rewritten, *outcome.skipped)])


def test_what_replaces_a_node_is_counted_by_type() -> None:
    outcome = PASSES["split_tree"]()(ir.from_proto(model_of(f"g (float[8] h) => (float[8] q) {{ {WIDE} }}")))
    assert outcome.rewritten[0].into == {"Constant": 3, "Split": 3}


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 9])
def test_only_the_first_sites_up_to_the_limit_are_rewritten(limit: int) -> None:
    model = model_of(
        "g (float[8] x) => (float[8] y) { [a] p = Sum(x, x) [b] q = Sum(p, x) [c] y = Sum(q, x) }"
    )
    result = rewrite(model, PASSES["sum_to_add"](limit=limit))
    assert result.rewritten == ["a", "b", "c"][:limit]
    assert op_counts(result.model)["Sum"] == max(0, 3 - limit)
    assert_runs_same(model, result.model, random_feeds(model))


def test_nothing_to_do_changes_nothing() -> None:
    model = model_of("g (float[8] x) => (float[8] y) { y = Relu(x) }")
    result = rewrite(model, *all_passes())
    assert result.model == model
    assert not any(outcome.modified or outcome.rewritten or outcome.skipped for outcome in result.outcomes)


@pytest.mark.parametrize("name", sorted(PASSES))
def test_passes_say_what_they_are(name: str) -> None:
    each = PASSES[name]
    assert each.name == name
    assert each.exact is True
    assert each.__doc__
    assert each.Options().model_dump() == each().options.model_dump()
    with pytest.raises(ValidationError):
        each.Options.model_validate({"no_such_option": 1})


def test_options_and_records_are_frozen() -> None:
    for record, field in (
        (PassOptions(), "anything"),
        (Skipped(node="n", op="Sum", scope="main", reason="r"), "reason"),
        (Rewritten(node="n", op="Sum", scope="main", into={}), "node"),
    ):
        with pytest.raises(ValidationError):
            setattr(record, field, "x")


def test_a_concat_of_split_parts_keeps_the_depth_of_both() -> None:
    names = ", ".join(f"p{number}" for number in range(40))
    model = model_of(
        f"g (float[80] x) => (float[80] y) {{ {names} = Split<axis=0>(x) y = Concat<axis=0>({names}) }}"
    )
    result = rewrite(model, *all_passes())
    assert depth_of(result.model.graph, "Split") == depth_of(result.model.graph, "Concat") == 3
    feeds = random_feeds(model)
    assert_runs_same(model, result.model, feeds)
    assert_runs_same(model, result.model, feeds, "default")
    assert run(result.model, feeds)[0].tolist() == feeds["x"].tolist()  # type: ignore[index]
