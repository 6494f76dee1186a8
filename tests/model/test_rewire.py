from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir
import pytest

from hubpublish.model.rewire import NARROW, Rewiring, _replace_inputs, detach, replace_uses

WIDE = NARROW + 3


def graph_of(width: int) -> ir.Graph:
    """y = Concat(n0, ..., x, n0) of so many inputs, and z = Concat(x, n0)."""
    x = ir.Value(name="x")
    parts = [ir.Node("", "Neg", [x], name=f"n{number}") for number in range(width - 2)]
    given = [part.outputs[0] for part in parts]
    y = ir.Node("", "Concat", [*given, x, given[0]], [ir.AttrInt64("axis", 0)], name="y")
    z = ir.Node("", "Concat", [x, given[0]], [ir.AttrInt64("axis", 0)], name="z")
    return ir.Graph([x], [y.outputs[0], z.outputs[0]], nodes=[*parts, y, z], opset_imports={"": 17})


def edges(graph: ir.Graph) -> object:
    values = {value for node in graph for value in (*node.inputs, *node.outputs) if value is not None}
    uses = {value.name: {(use.node.name, use.idx) for use in value.uses()} for value in values}
    return [[value and value.name for value in node.inputs] for node in graph], uses


@pytest.fixture(params=[4, WIDE], ids=["narrow", "wide"])
def graphs(request: pytest.FixtureRequest) -> tuple[ir.Graph, ir.Graph]:
    return graph_of(request.param), graph_of(request.param)


def test_uses_are_replaced_as_onnx_ir_does(graphs: tuple[ir.Graph, ir.Graph]) -> None:
    ours, theirs = graphs
    replace_uses({ours.node(name).outputs[0]: ours.inputs[0] for name in ("n0", "n1")})
    for name in ("n0", "n1"):
        theirs.node(name).outputs[0].replace_all_uses_with(theirs.inputs[0])
    assert edges(ours) == edges(theirs)
    assert not ours.node("n0").outputs[0].uses()


def test_a_detached_node_uses_nothing(graphs: tuple[ir.Graph, ir.Graph]) -> None:
    graph, _ = graphs
    node = graph.node("y")
    given = {value for value in node.inputs if value is not None}
    detach(node)
    assert set(node.inputs) == {None}
    assert all(use.node is not node for value in given for use in value.uses())
    assert graph.node("z") in graph.inputs[0].consumers()


def test_what_a_device_configuration_names_goes_with_the_input() -> None:
    graph = graph_of(WIDE)
    node, value = graph.node("y"), graph.node("n1").outputs[0]
    pair = ir.ModelConfiguration(name="pair", num_devices=2)
    node.shard(value, configuration=pair, axis=0, num_shards=2)
    assert node.device_configurations[0].sharding_specs
    replace_uses({value: graph.inputs[0]})
    assert not node.device_configurations[0].sharding_specs
    assert all(each is not value for each in node.inputs)


def test_outputs_of_a_graph_are_replaced_wherever_they_are_listed() -> None:
    graph, rewiring = graph_of(4), Rewiring()
    y, z, n0 = (graph.node(name).outputs[0] for name in ("y", "z", "n0"))
    graph.outputs.append(y)
    rewiring.replace({y: n0})
    rewiring.replace({n0: z})
    assert [*graph.outputs] == [z, z, z]
    assert not y.is_graph_output()


def test_removed_nodes_leave_their_graphs_at_the_end() -> None:
    graph, rewiring = graph_of(WIDE), Rewiring()
    y, z = graph.node("y"), graph.node("z")
    rewiring.replace({y.outputs[0]: z.outputs[0]})
    rewiring.remove(y)
    assert y.graph is graph
    rewiring.finish()
    assert y.graph is None
    assert y not in graph
    assert not graph.node("n1").outputs[0].uses()


@pytest.mark.parametrize("name", ["n0", "y"])
def test_what_is_used_or_given_is_not_removed(name: str) -> None:
    graph = graph_of(4)
    with pytest.raises(AssertionError):
        Rewiring().remove(graph.node(name))


def state(graph: ir.Graph, others: list[ir.Value]) -> object:
    """All that nodes and values hold, in words that are equal for equal graphs."""
    values = {value for node in graph for value in (*node.inputs, *node.outputs)} | {*graph.inputs, *others}
    objects = [*graph, *sorted(filter(None, values), key=lambda value: str(value.name))]
    return [
        (slot, described(getattr(each, slot)))
        for each in objects
        for kind in type(each).__mro__
        for slot in getattr(kind, "__slots__", ())
    ]


def described(what: object) -> object:
    if isinstance(what, (ir.Node, ir.Value, ir.Graph)):
        return type(what).__name__, what.name
    if isinstance(what, (tuple, list)):
        return type(what).__name__, [described(each) for each in what]
    if isinstance(what, Mapping):
        return type(what).__name__, [(described(key), described(value)) for key, value in what.items()]
    return type(what).__name__, repr(what) if type(what).__repr__ is not object.__repr__ else ""


def one_by_one(node: ir.Node, new: Mapping[int, ir.Value | None]) -> None:
    for index, value in new.items():
        node.replace_input_with(index, value)


def several(node: ir.Node, new: Mapping[int, ir.Value | None]) -> None:
    _replace_inputs(node, new)


@pytest.mark.parametrize(
    "new",
    [
        {0: "x"},  # which another input is, too
        {0: None},  # given twice here, and once to another node
        {WIDE - 1: None, 0: "free"},
        {1: "free", 2: "free", WIDE - 2: "free"},
        {1: "n2", 2: "n1"},
        {3: "n3"},  # as it was
        dict.fromkeys(range(WIDE)),
    ],
    ids=lambda new: str(new)[:40],
)
def test_several_inputs_at_once_leave_what_onnx_ir_leaves(new: dict[int, str | None]) -> None:
    def after(change: Callable[[ir.Node, Mapping[int, ir.Value | None]], None]) -> object:
        graph, free = graph_of(WIDE), ir.Value(name="free")
        found = {node.name: node.outputs[0] for node in graph} | {"x": graph.inputs[0], "free": free}
        change(graph.node("y"), {index: found[name] if name else None for index, name in new.items()})
        return state(graph, [free])

    assert after(several) == after(one_by_one)


def test_what_is_replaced_one_by_one_is_right_at_any_time() -> None:
    ours, theirs, rewiring = graph_of(WIDE), graph_of(WIDE), Rewiring()
    for name, new in (("n0", "n1"), ("n2", "n3"), ("n1", "n2"), ("n3", "n4")):
        rewiring.replace({ours.node(name).outputs[0]: ours.node(new).outputs[0]})
        theirs.node(name).outputs[0].replace_all_uses_with(theirs.node(new).outputs[0])
        assert edges(ours) == edges(theirs)
        rewiring.remove(ours.node(name)) if name == "n0" else None
        theirs.node(name).replace_input_with(0, None) if name == "n0" else None
    ours.node("y").replace_input_with(0, ours.inputs[0])
    theirs.node("y").replace_input_with(0, theirs.inputs[0])
    rewiring.replace({ours.node("n4").outputs[0]: ours.node("n5").outputs[0]})
    theirs.node("n4").outputs[0].replace_all_uses_with(theirs.node("n5").outputs[0])
    rewiring.finish()
    theirs.remove(theirs.node("n0"))
    assert state(ours, []) == state(theirs, [])
    assert isinstance(ours.node("y").inputs, tuple)


def test_a_wide_node_may_be_removed_after_its_inputs_were_replaced() -> None:
    graph, rewiring = graph_of(WIDE), Rewiring()
    y, z = graph.node("y"), graph.node("z")
    rewiring.replace({graph.node("n0").outputs[0]: graph.node("n1").outputs[0]})
    rewiring.replace({y.outputs[0]: z.outputs[0]})
    rewiring.remove(y)
    rewiring.finish()
    assert y.graph is None
    assert [use.node.name for use in graph.node("n1").outputs[0].uses()] == ["z"]
