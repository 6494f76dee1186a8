from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from hubpublish.demo.config import SMALL
from hubpublish.demo.model import build_model
from hubpublish.devices.loaded import load_like_a_runtime
from hubpublish.devices.placement import Placement, Side, place
from hubpublish.devices.runtimes import all_runtimes, read_runtime
from hubpublish.errors import UnsupportedModelError
from hubpublish.passes import PASSES
from tests.devices.models import CASES, case, measured, placed, predicted, sides
from tests.errors import error_of

#: Measured with the native plugin 0.4.0: operators on the CPU, copies from the GPU, copies to it.
EXPECTED = {
    "nothing on the CPU": ([], 0, 0),
    "no kernel": (["Sum"], 1, 1),
    "no kernel for the type": (["Add", "Cast"], 1, 1),
    "int32 has one": ([], 0, 0),
    "one copy for two readers": (["Sum", "Sum"], 1, 2),
    "an input for both": (["Sum"], 0, 2),
    "an output for the CPU too": (["Sum"], 1, 0),
    "constants fold": ([], 0, 0),
    "a constant for both": (["Sum"], 1, 1),
    "the shape of a tensor folds": ([], 0, 0),
    "a shape that is not fixed": (["Concat", "Gather", "Unsqueeze"], 0, 0),
    "numbers from a shape": (["Cast"], 0, 1),
    "the size of a tensor": (["Cast", "Size"], 1, 1),
    "equal nodes": (["Abs", "Cast", "Mul", "Neg", "Reshape"], 1, 1),
    "nodes that change nothing": ([], 0, 0),
    "dead nodes": (["Sum"], 1, 0),
    "on the host for a kernel": ([], 1, 0),
    "half precision": (["Sum"], 1, 1),
    "largest of a few": (["Add", "Cast"], 1, 1),
    "an If": (["Sum"], 1, 0),
    "a type out of an If": (["Add", "Cast"], 1, 1),
    "a Loop": (["Identity", "Loop"], 1, 0),
    "a pool of a later opset": (["GlobalAveragePool"], 1, 0),
}


def counted(placement: Placement) -> tuple[list[str], int, int]:
    found = predicted(placement)
    return found["on_cpu"], found["copies"].count("MemcpyToHost"), found["copies"].count("MemcpyFromHost")


class TestSides:
    @pytest.mark.parametrize("name", CASES)
    def test_are_those_that_were_measured(self, name: str) -> None:
        assert counted(placed(case(name))) == EXPECTED[name]

    def test_are_those_of_the_plugin(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"{number}.onnx" for number in range(len(CASES))]
        for path, name in zip(paths, CASES, strict=True):
            onnx.save(case(name), path)
        for name, real in zip(CASES, measured(paths), strict=True):
            assert predicted(placed(case(name))) == real, name

    def test_shape_arithmetic_stays_on_the_cpu_on_the_web(self) -> None:
        # As GetCpuPreferredNodes goes: the Add reads a result on the host, and a graph input.
        placement = placed(case("numbers from a shape"), "web-1.30")
        assert sides(placement)[Side.CPU] == {"Cast": 1, "ReduceProd": 1, "Add": 1}
        reasons = {node.op_type: its.reason for node, its in placement.places.items()}
        assert reasons["ReduceProd"] == "is computed from a shape"

    def test_a_small_constant_may_take_part_in_shape_arithmetic(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17]> g (float[N,4] x) => (float y) {{
          w = Constant <value = float[2] {{2, 3}}> () a = Relu (x) s = Shape (a) f = Cast <to = 1> (s)
          p = Div ({}) y = Expand (a, s) z = Relu (p) }}"""
        for inputs, on_cpu in (("f, w", {"Cast", "Div", "Relu"}), ("f, a", {"Cast"})):
            placement = placed(onnx.parser.parse_model(text.format(inputs)), "web-1.30")
            assert sides(placement)[Side.CPU].keys() == on_cpu

    def test_are_the_worst_of_several_runtimes(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17]>
        g (float[1,1,4,4] x, float[1,2,2,2] g) => (float y) { y = GridSample (x, g) }"""
        loaded = load_like_a_runtime(ir.from_proto(onnx.parser.parse_model(text)))
        (its,) = place(loaded, all_runtimes()).places.values()
        assert (its.side, its.runtimes) == (Side.CPU, ("web-1.23", "web-1.24"))
        (its,) = place(loaded, [read_runtime("web-1.30")]).places.values()
        assert its.side == Side.GPU

    def test_are_unknown_with_an_unknown_type(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "my": 1]>
        g (float[4] x) => (float y) { a = my.Op (x) b = Slice (a, x, x) y = Sin (x) }"""
        model = onnx.parser.parse_model(text)
        found = sides(placed(model))
        assert found == {Side.GPU: {"Sin": 1}, Side.CPU: {"my::Op": 1}, Side.UNKNOWN: {"Slice": 1}}

    def test_of_functions_are_found_where_they_are_called(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "my": 1]>
        g (float[4] x) => (float y) { a = my.twice (x) y = my.twice (a) }
        <domain: "my", opset_import: ["": 17]> twice (v) => (w) { w = Sum (v, v) }"""
        model = ir.from_proto(onnx.parser.parse_model(text))
        placement = place(load_like_a_runtime(model), [read_runtime("native-0.4.0")])
        assert sides(placement)[Side.CPU] == {"Sum": 2}
        assert [node.op_type for node in model.graph] == ["twice", "twice"]  # the model is as it was

    def test_of_an_unsorted_graph_are_the_same_and_it_stays_as_it_is(self) -> None:
        proto = case("one copy for two readers")
        nodes = list(proto.graph.node)[::-1]
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        model = ir.from_proto(proto)
        placement = place(load_like_a_runtime(model), [read_runtime("native-0.4.0")])
        assert counted(placement) == EXPECTED["one copy for two readers"]
        assert [node.op_type for node in model.graph] == [node.op_type for node in nodes]

    def test_of_a_cycle_are_an_error(self) -> None:
        text = (
            '<ir_version: 9, opset_import: ["": 17]> g (float x) => (float y) { a = Add (x, y) y = Relu (a) }'
        )
        model = ir.from_proto(onnx.parser.parse_model(text))
        assert "cycle" in str(error_of(UnsupportedModelError, lambda: load_like_a_runtime(model)))

    def test_of_microsofts_operators_are_known(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[4] x, double[4] d) => (float y) {
          y = com.microsoft.QuickGelu (x) z = com.microsoft.Gelu (d) }"""
        placement = placed(onnx.parser.parse_model(text))
        assert sides(placement)[Side.GPU] == {"com.microsoft::QuickGelu": 1}
        assert [its.reason for its in placement.places.values() if its.reason] == [
            "no kernel for double com.microsoft::Gelu"
        ]


class TestWhatIsNotInTheFile:
    """Tried with the native plugin 0.4.0: why a node is on the CPU, or undecided."""

    @pytest.mark.parametrize(
        ("opset", "graph", "side", "reason"),
        [
            (6, "(float[4] x) => (y) { y = Relu (x) }", Side.CPU, "no kernels for models of opset 6"),
            (7, "(float[4] x) => (y) { y = Relu (x) }", Side.GPU, ""),
            (17, "(float[4] x, float16[4] t) => (y) { y = CastLike (x, t) }", Side.UNKNOWN, "is replaced by"),
            (17, "(float16[2,4] x) => (y) { y = LogSoftmax (x) }", Side.UNKNOWN, "is replaced by"),
            (17, "(float[2,4] x) => (y) { y = LogSoftmax (x) }", Side.CPU, "no kernel for LogSoftmax"),
            (24, "(float[1,1,4,4] x, float[1,1,3,3] w) => (y) { y = Conv (x, w) }", Side.GPU, ""),
            (
                25,
                "(float[1,1,4,4] x, float[1,1,3,3] w) => (y) { y = Conv (x, w) }",
                Side.UNKNOWN,
                "the Transposes around Conv have no kernel as of opset 25",
            ),
            (
                17,
                "(seq(float[4]) x) => (seq(float[4]) y) { y = Identity (x) }",
                Side.CPU,
                "no kernel for sequence Identity",
            ),
            (17, "(float[2,4] x) => (y) { y = com.microsoft.Gelu (x) }", Side.GPU, ""),
        ],
    )
    def test_sides(self, opset: int, graph: str, side: Side, reason: str) -> None:
        head = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
        (its,) = placed(onnx.parser.parse_model(f"{head} g {graph}")).places.values()
        assert its.side == side
        assert reason in its.reason
        assert bool(reason) == bool(its.reason)

    def test_types_are_followed_through_operators_of_microsoft(self) -> None:
        text = """<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]> g (float[2,4] x) => (y) {
          a = com.microsoft.Gelu (x) y = Slice (a, x, x) }"""
        assert sides(placed(onnx.parser.parse_model(text)))[Side.UNKNOWN] == {}


class TestDemo:
    """The counts for the original and its rewrites were measured with the native plugin 0.4.0."""

    @pytest.mark.parametrize(
        ("passes", "on_cpu", "from_gpu", "to_gpu"),
        [
            ((), 340, 100, 100),
            (("concat_tree", "split_tree", "sum_to_add", "gather_nd_to_gather"), 520, 20, 80),
        ],
    )
    def test_copies(
        self, demo: onnx.ModelProto, passes: tuple[str, ...], on_cpu: int, from_gpu: int, to_gpu: int
    ) -> None:
        model = ir.from_proto(demo)
        for name in passes:
            PASSES[name]()(model)
        placement = place(load_like_a_runtime(model), [read_runtime("native-0.4.0")])
        ops, *copies = counted(placement)
        assert (len(ops), *copies) == (on_cpu, from_gpu, to_gpu)


@pytest.fixture(scope="module")
def demo() -> onnx.ModelProto:
    return build_model(SMALL)
