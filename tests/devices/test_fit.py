from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from hubpublish.devices import PROFILES, Fit, measure_fit, read_runtime
from hubpublish.devices.fit import NodeWidth, node_widths

MIN = PROFILES["webgpu-min"]


def model(text: str, *, opset: int = 21, imports: str = "") -> ir.Model:
    head = f'<ir_version: 10, opset_import: ["": {opset}{imports}]>'
    return ir.from_proto(onnx.parser.parse_model(f"{head}\n{text}"))


def widths(text: str, **options: object) -> dict[str, int]:
    return {each.node: each.slots for each in node_widths(model(text, **options))}  # type: ignore[arg-type]


class TestSlots:
    @pytest.mark.parametrize(
        ("node", "slots"),
        [
            ("Add (x, x)", 3),  # one for each use: a shader binds it twice
            ("Relu (x)", 2),
            ("Reshape (x, n)", None),
            ("Slice (x, n, n, n)", 2),
            ("Expand (x, n)", 2),
            ("Tile (x, n)", 2),
            ("Clip (x, s, s)", 2),
            ("Clip (x, , s)", 2),
            ("Pad (x, n, s)", 2),
            ("Resize (x, , s)", 2),
            ("ReduceSum (x, n)", 2),
            ("Where (b, x, x)", 4),
            ("Gather (x, n)", 3),
            ("Concat <axis = 0> (x, x, x)", 4),
            ("Identity (x)", None),
            ("Shape (x)", None),
            ("Sum (x, x, x)", None),
            ("Constant <value = float[1] {1}> ()", None),
            ("Squeeze (x, n)", None),
        ],
    )
    def test_of_inputs_on_the_gpu_and_of_outputs(self, node: str, slots: int | None) -> None:
        text = f"g (float[4] x, int64[1] n, float[1] s, bool[4] b) => (float[4] y) {{ [it] y = {node} }}"
        assert widths(text).get("it") == slots

    def test_of_a_split_do_not_count_its_sizes(self) -> None:
        assert widths("g (float[4] x, int64[2] n) => (float a) { [it] a, b = Split (x, n) }") == {"it": 3}

    def test_of_omitted_outputs_do_not_count(self) -> None:
        assert widths('g (float[4] x, int64[4] n) => (float a) { [it] a, "", "", d = Split (x, n) }') == {
            "it": 3
        }

    def test_of_omitted_inputs_do_not_count(self) -> None:
        text = "g (float[3,1,2] x, float[1,8,2] w, float[1,8,2] r) => (float y) "
        text += "{ [it] y = LSTM <hidden_size = 2> (x, w, r, , , x) }"
        assert widths(text) == {"it": 5}

    def test_of_custom_operators_are_not_known(self) -> None:
        text = "g (float[4] x) => (float[4] y) { a = my.Wide (x, x, x, x, x, x, x, x, x) y = Relu (a) }"
        assert list(widths(text, imports=', "my": 1').values()) == [2]

    def test_of_the_runtimes_own_operators_count(self) -> None:
        text = "g (float[4] x) => (float[4] y) { [it] y = com.microsoft.FusedMatMul (x, x) }"
        assert widths(text, imports=', "com.microsoft": 1') == {"it": 3}

    def test_are_counted_in_subgraphs(self) -> None:
        text = """g (bool b, float[4] x) => (float[4] y) {
          [if] y = If (b) <
            then_branch = t () => (float[4] p) { [inner] p = Add (x, x) },
            else_branch = e () => (float[4] q) { [other] q = Relu (x) }>
        }"""
        found = {(each.scope, each.node): each.slots for each in node_widths(model(text))}
        assert found == {("main/if.then_branch", "inner"): 3, ("main/if.else_branch", "other"): 2}

    def test_are_counted_in_functions(self) -> None:
        text = """g (float[4] x) => (float[4] y) { y = my.f (x) }
        <domain: "my", opset_import: ["": 21]> f (a) => (b) { [inner] b = Concat <axis = 0> (a, a, a, a) }"""
        found = node_widths(model(text, imports=', "my": 1'))
        assert [(each.node, each.slots) for each in found] == [("inner", 5)]
        assert "f" in found[0].scope

    def test_of_a_node_without_a_name_go_by_its_output(self) -> None:
        assert widths("g (float[4] x) => (float[4] y) { y = Relu (x) }") == {"y": 2}


class TestFit:
    def test_is_true_if_nothing_is_too_wide(self) -> None:
        fit = measure_fit(
            model("g (float[4] x) => (float[4] y) { [a] b = Relu (x) [c] y = Add (b, x) }"), MIN
        )
        assert fit
        assert (fit.profile, fit.limit) == ("webgpu-min", 8)
        assert fit.widest == NodeWidth(node="c", op="Add", scope="main", slots=3, narrowed_by=None, limit=8)
        assert fit.widest_by_op == ()

    @pytest.mark.parametrize(("inputs", "fits"), [(7, True), (8, False)])
    def test_is_decided_at_the_limit(self, inputs: int, fits: bool) -> None:
        text = f"g (float[4] x) => (float y) {{ [c] y = Concat <axis = 0> ({', '.join(['x'] * inputs)}) }}"
        fit = measure_fit(model(text), MIN)
        assert bool(fit) is fits
        assert [each.slots for each in fit.too_wide] == ([] if fits else [9])
        assert measure_fit(model(text), PROFILES["webgpu-chromium"])

    def test_names_which_pass_would_help(self) -> None:
        nine = ", ".join(["x"] * 9)
        parts = ", ".join(f"p{number}" for number in range(9))
        text = f"g (float[9] x) => (float y) {{ [s] {parts} = Split (x) [c] y = Concat <axis = 0> ({nine}) }}"
        fit = measure_fit(model(text, opset=13), MIN)
        assert {each.node: each.narrowed_by for each in fit.too_wide} == {
            "s": "split_tree",
            "c": "concat_tree",
        }
        assert fit.cannot_run == ()

    def test_holds_although_no_pass_can_help(self) -> None:
        text = "g (float[4] x) => (float y) { [m] y = Max (x, x, x, x, x, x, x, x, x) }"
        fit = measure_fit(model(text), MIN)
        assert fit
        assert [(each.node, each.op, each.slots) for each in fit.cannot_run] == [("m", "Max", 10)]
        assert [each.op for each in fit.widest_by_op] == ["Max"]

    def test_takes_the_first_of_the_widest(self) -> None:
        text = "g (float[4] x) => (float[4] y) { [a] b = Add (x, x) [c] y = Add (b, x) }"
        fit = measure_fit(model(text), MIN)
        assert fit.widest is not None
        assert fit.widest.node == "a"

    def test_of_nothing(self) -> None:
        fit = measure_fit(model("g (float[4] x) => (float[4] y) { y = Identity (x) }"), MIN)
        assert fit
        assert fit.widest is None

    def test_is_the_same_however_often(self) -> None:
        text = "g (float[4] x) => (float[4] y) { b = Add (x, x) y = Add (b, x) }"
        assert measure_fit(model(text), MIN) == measure_fit(model(text), MIN)

    @pytest.mark.parametrize(
        ("device", "runtime", "limit"),
        [
            ("webgpu-chromium", "web-1.22", 8),
            ("webgpu-chromium", "web-1.23", 8),
            ("webgpu-chromium", None, 8),
            ("webgpu-desktop", "web-1.22", 8),
            ("webgpu-chromium", "web-1.24", None),
            ("webgpu-chromium", "native-0.4.0", None),
        ],
    )
    def test_of_an_operator_is_what_the_runtime_leaves_of_the_profile(
        self, device: str, runtime: str | None, limit: int | None
    ) -> None:
        parts = ", ".join(f"p{number}" for number in range(8))
        split = model(f"g (float[8] x) => (float p0) {{ [s] {parts} = Split (x) }}", opset=13)
        fit = measure_fit(split, PROFILES[device], read_runtime(runtime) if runtime else None)
        assert [(each.node, each.slots, each.limit) for each in fit.too_wide] == (
            [("s", 9, limit)] if limit else []
        )
        assert fit.granted_by == (f"{device} or the runtime" if limit else device)

    def test_of_an_operator_that_the_runtime_splits_up_or_has_not_is_not_asked(self) -> None:
        text = f"g (float[4] x) => (float y) {{ y = Concat <axis = 0> ({', '.join(['x'] * 9)}) z = Foo (y) }}"
        assert measure_fit(model(text), MIN, read_runtime("web-1.30")).widest is None
        assert [each.op for each in measure_fit(model(text), MIN).too_wide] == ["Concat"]

    def test_of_a_report_without_limits_of_nodes_still_loads(self) -> None:
        width = {"node": "c", "op": "Concat", "scope": "main", "slots": 9, "narrowed_by": "concat_tree"}
        old = {"profile": "webgpu-min", "limit": 8, "widest": width, "cannot_run": [], "too_wide": [width]}
        fit = Fit.model_validate({**old, "widest_by_op": [width]})
        assert fit.too_wide[0].exceeds(fit.limit)
        assert not fit.too_wide[0].exceeds(9)
        assert fit.granted_by == "webgpu-min"
