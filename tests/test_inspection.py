from __future__ import annotations

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubpublish.demo.config import SMALL
from hubpublish.demo.model import build_model
from hubpublish.devices import PROFILES
from hubpublish.devices.runtimes import read_runtime, runtime_names
from hubpublish.inspection import Auto, Finding, Inspection, inspect, webgpu_requirements
from hubpublish.passes import PASSES
from hubpublish.passes.removes import Problem, Removes, removed_by

WEB = "web-1.30"


def inspected(
    body: str, profile: str = "webgpu-min", runtime: str | None = WEB, *, opset: int = 17
) -> Inspection:
    text = f'<ir_version: 9, opset_import: ["": {opset}]>\n{body}'
    model = ir.from_proto(onnx.parser.parse_model(text))
    return inspect(model, PROFILES[profile], read_runtime(runtime) if runtime else None)


def the_finding(body: str, *arguments: str | None, opset: int = 17) -> Finding:
    (finding,) = inspected(body, *arguments, opset=opset).findings  # type: ignore[arg-type]
    return finding


def parts(count: int) -> str:
    return ", ".join(f"p{number}" for number in range(count))


class TestFindings:
    def test_of_a_model_that_fits_there_are_none(self) -> None:
        found = inspected("g (float[4] x) => (float y) { y = Relu (x) }", runtime=None)
        assert found
        assert (found.findings, found.groups, found.passes) == ((), (), ())

    def test_name_a_node_that_binds_too_many(self) -> None:
        finding = the_finding(f"g (float[16] x) => (float p0) {{ [cut] {parts(16)} = Split (x) }}")
        assert (finding.node, finding.op, finding.scope) == ("cut", "Split", "main")
        assert (finding.what, finding.happens) == ("binds 17, 8 granted", "does not compile")
        assert finding.passes == ("patch_grid", "split_tree")
        assert not finding.believed

    def test_do_not_name_what_a_runtime_splits_up_itself(self) -> None:
        text = f"g (float[16] x) => (float y) {{ y = Concat <axis = 0> ({', '.join(['x'] * 16)}) }}"
        assert not inspected(text).findings
        assert the_finding(text, "webgpu-min", None).runtimes == ("web-1.22",)
        assert the_finding(text, "webgpu-min", "web-1.22").passes == ("patch_grid", "concat_tree")

    def test_know_the_limits_that_a_runtime_has_by_itself(self) -> None:
        text = f"g (float[16] x) => (float p0) {{ {parts(8)} = Split (x) }}"
        assert not inspected(text, "webgpu-desktop", WEB).findings
        assert the_finding(text, "webgpu-desktop", "web-1.23").what == "binds 9, web-1.23 takes only 8"

    def test_name_both_the_device_and_the_runtime_that_takes_less(self) -> None:
        text = f"g (float[16] x) => (float p0) {{ {parts(16)} = Split (x) }}"
        what = "binds 17, 10 granted, web-1.22 and web-1.23 take only 8"
        assert the_finding(text, "webgpu-chromium", None).what == what

    def test_name_a_missing_kernel_and_what_is_copied(self) -> None:
        text = """g (float[100] x) => (float y) { a = Relu (x) [sum] b = Sum (a, a) y = Sin (b) }"""
        finding = the_finding(text)
        assert (finding.problem, finding.what, finding.happens) == (
            Problem.NO_KERNEL,
            "no kernel for Sum",
            "runs on the CPU",
        )
        assert (finding.bytes_from_gpu, finding.bytes_to_gpu, finding.passes) == (400, 400, ("sum_to_add",))

    def test_name_a_missing_kernel_for_a_type(self) -> None:
        text = "g (int64[4] x, int64 k) => (int64 y) { [it] y = Clip (x, k, k) }"
        finding = the_finding(text)
        assert (finding.what, finding.dtype, finding.passes) == ("no kernel for int64 Clip", "int64", ())

    def test_name_a_missing_kernel_for_an_opset(self) -> None:
        text = "g (float[1,4,8,8] x) => (float y) { y = GlobalAveragePool (x) }"
        assert the_finding(text, opset=22).what == "no kernel for GlobalAveragePool as of opset 22"

    def test_say_that_bytes_are_not_known(self) -> None:
        finding = the_finding("g (float[N] x) => (float y) { a = Relu (x) b = Sum (a, a) y = Sin (b) }")
        assert (finding.bytes_from_gpu, finding.bytes_to_gpu) == (None, None)

    @pytest.mark.parametrize(
        ("elements", "what", "happens"),
        [
            (2**25, None, None),
            (2**25 + 1, "binding of 128 MiB over 128 MiB", "takes 4 bindings, which fit"),
            (2**26 + 1, "buffer of 256 MiB over 256 MiB", "cannot be allocated"),
        ],
    )
    def test_name_tensors_that_are_too_large(
        self, elements: int, what: str | None, happens: str | None
    ) -> None:
        found = inspected(f"g (float[{elements}] x) => (float y) {{ y = Relu (x) }}").findings
        assert [(each.what, each.happens) for each in found] == ([(what, happens)] if what else [])
        assert not inspected(
            f"g (float[{elements}] x) => (float y) {{ y = Relu (x) }}", "webgpu-desktop"
        ).findings

    def test_count_the_bindings_of_large_tensors(self) -> None:
        names = ", ".join(["x"] * 6)
        finding = the_finding(f"g (float[{2**26}] x) => (float y) {{ y = Max ({names}) }}")
        assert finding.happens == "takes 14 bindings: does not compile"

    def test_name_half_precision_where_there_is_none(self) -> None:
        text = "g (float16[4] x) => (float16 y) { y = Relu (x) }"
        finding = the_finding(text)
        assert (finding.what, finding.happens) == ("shader-f16 is not available", "does not compile")
        assert not inspected(text, "webgpu-desktop").findings

    def test_name_a_scatter_of_nothing(self) -> None:
        text = "g (float[4,4] x, int64[0,1] i, float[0,4] u) => (float y) { y = ScatterND (x, i, u) }"
        finding = the_finding(text, opset=18)
        assert (finding.problem, finding.passes) == (Problem.EMPTY, ("drop_empty_scatter",))
        assert not inspected(text, runtime="native-0.4.0", opset=18).findings
        assert not inspected(text.replace("0", "2"), opset=18).findings

    def test_name_what_is_taken_and_does_not_run(self) -> None:
        text = """g (float[1,1,4,4] x) => (float y) {
          s = Constant <value = float[4] {1, 1, 2, 2}> ()
          y = Resize <mode = "linear", antialias = 1> (x, , s) }"""
        assert the_finding(text, opset=18).happens == "fails: the antialias attribute is not implemented"
        assert not inspected(text.replace("antialias = 1", "antialias = 0"), opset=18).findings
        text = "g (float[1,1,4,4] x) => (float y) { y, i = MaxPool <kernel_shape = [2, 2]> (x) }"
        assert the_finding(text).problem == Problem.FAILS
        assert not inspected(text.replace("y, i", "y")).findings

    def test_say_where_it_is_so(self) -> None:
        text = "g (float[1,1,4,4] x, float[1,2,2,2] g) => (float y) { y = GridSample (x, g) }"
        finding = the_finding(text, "webgpu-min", None)
        assert finding.runtimes == ("web-1.23", "web-1.24")
        assert not finding.believed

    def test_say_what_is_believed(self) -> None:
        text = "g (float[4] x) => (float y) { y = Elu (x) z = Celu (x) }"
        assert the_finding(text).believed
        assert not the_finding(text, "webgpu-min", "native-0.4.0").believed

    def test_name_types_that_are_not_known(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "my": 1]>
        g (float[4] x) => (float y) { a = my.Op (x) b = Slice (a, x, x) y = Sin (x) }"""
        found = inspect(ir.from_proto(onnx.parser.parse_model(text)), PROFILES["webgpu-min"])
        assert [(each.op, each.problem) for each in found.findings] == [
            ("my::Op", Problem.NO_KERNEL),
            ("Slice", Problem.UNKNOWN),
        ]
        assert found.totals.undecided == 1

    def test_are_found_in_bodies(self) -> None:
        text = """g (bool c, float[4] x) => (float[4] y) {
          [if] y = If (c) <then_branch = t () => (float[4] p) { [inner] p = Sum (x, x) },
                           else_branch = e () => (float[4] q) { q = Sin (x) }> }"""
        finding = the_finding(text)
        assert (finding.node, finding.scope) == ("inner", "main/if.then_branch")

    def test_leave_constants_out(self) -> None:
        text = """g (float[4] x) => (float y) {
          a = Constant <value = int64[1] {4}> () b = Sum (c, c) c = Cast <to = 1> (a) y = Mul (x, b) }"""
        assert not inspected(text).findings


class TestRemedies:
    def test_are_declared_or_follow_from_the_op_types(self) -> None:
        ops = frozenset({"Sum"})
        assert removed_by((), ops, narrows=True) == (Removes(Problem.STORAGE_BUFFERS, ops),)
        assert {each.problem for each in removed_by((), ops, narrows=False)} == {
            Problem.NO_KERNEL,
            Problem.FAILS,
        }
        assert removed_by((), frozenset(), narrows=False) == ()
        declared = (Removes(Problem.EMPTY, ops),)
        assert removed_by(declared, ops, narrows=True) == declared

    def test_are_named_only_on_the_way_to_what_they_are_for(self) -> None:
        chain = """g (float[4,2] x, float[4,4] d) => (float y, int64 z) {
          i = Cast <to = 7> (x) k = Constant <value = int64 {0}> () j = Clip (i, k, k) y = GatherND (d, j)
          a = Cast <to = 7> (x) z = Neg (a) }"""
        found = {each.op: each.passes for each in inspected(chain).findings}
        assert found == {"Clip": ("int32_indices",), "Neg": ()}

    def test_name_passes_that_there_are(self) -> None:
        for each in PASSES.values():
            assert all(isinstance(one, Removes) for one in each.removes)


class TestGroups:
    def test_put_equal_nodes_together(self) -> None:
        text = f"""g (float[16] x) => (float p0) {{ {parts(16)} = Split (x)
          {parts(8).replace("p", "q")} = Split (p1)
          a = Sum (x, x) b = Sum (a, x) c = Sum (b, x) d = Relu (c) }}"""
        found = inspected(text, opset=13)
        assert [(each.nodes, each.op, each.what) for each in found.groups] == [
            (2, "Split", "binds 9 to 17, 8 granted"),
            (3, "Sum", "no kernel for Sum"),
        ]
        assert found.groups[1].first == "a"
        assert found.passes == ("patch_grid", "split_tree", "sum_to_add")

    def test_say_why_the_widest_is_too_wide(self) -> None:
        text = f"""g (float[8] x, float[11] z) => (float p0) {{ {parts(8)} = Split (x)
          {parts(11).replace("p", "q")} = Split (z) }}"""
        (group,) = inspected(text, "webgpu-chromium", "web-1.22").groups
        assert group.what == "binds 9 to 12, 10 granted, web-1.22 takes only 8"

    def test_count_a_tensor_once(self) -> None:
        text = """g (float[100] x) => (float y, float z) {
          a = Relu (x) b = Sum (a, a) c = Sum (a, b) y = Sin (b) z = Cos (c) }"""
        (group,) = inspected(text).groups
        assert (group.bytes_from_gpu, group.bytes_to_gpu) == (400, 800)


class TestAuto:
    SUM = "g (float[4] x) => (float[4] y) { y = Sum (x, x) }"

    def test_names_what_is_found_and_what_makes_any_file_smaller(self) -> None:
        chosen = Auto().choose(inspected(self.SUM))
        assert [each.name for each in chosen] == ["sum_to_add", "fold_constants", "compress_constants"]
        assert all(each.options == each.Options() for each in chosen)

    def test_keeps_the_order_of_the_list(self) -> None:
        model = ir.from_proto(build_model(SMALL))
        chosen = [each.name for each in Auto().choose(inspect(model, PROFILES["webgpu-min"]))]
        assert chosen == [name for name in PASSES if name in chosen]
        assert {"patch_grid", "sum_to_add", "int32_indices"} < set(chosen)

    def test_has_approximate_ones_only_where_they_are_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PASSES["sum_to_add"], "exact", False)
        found = inspected(self.SUM)
        assert "sum_to_add" not in [each.name for each in Auto().choose(found)]
        assert "sum_to_add" in [each.name for each in Auto(approximate=True).choose(found)]


class TestTotals:
    def test_count_nodes_and_copies(self) -> None:
        totals = inspected("g (float[100] x) => (float y) { a = Relu (x) b = Sum (a, a) y = Sin (b) }").totals
        assert (totals.nodes, totals.on_gpu, totals.on_cpu, totals.undecided) == (3, 2, 1, 0)
        assert (totals.copies_from_gpu, totals.copies_to_gpu) == (1, 1)
        assert (totals.bytes_from_gpu, totals.bytes_to_gpu, totals.unknown_copies) == (400, 400, 0)
        assert totals.fits_wasm is True

    def test_count_apart_what_does_not_compile(self) -> None:
        text = f"g (float[14] x) => (float p0) {{ [cut] {parts(14)} = Split (x) }}"
        for runtime in (WEB, None):
            totals = inspected(text, runtime=runtime).totals
            assert (totals.nodes, totals.on_gpu, totals.failing, totals.on_cpu) == (1, 0, 1, 0)
        assert inspected(text.replace("14", "4").replace(parts(14), parts(4))).totals.on_gpu == 1

    def test_count_apart_what_fails_on_the_cpu_too(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 22]> g (float[1,1,4,4] x, float[1,1,2,2] w,
          float[1,8,3,3] o) => (float y) { y = DeformConv (x, w, o) }"""
        model = ir.from_proto(onnx.parser.parse_model(text))
        totals = inspect(model, PROFILES["webgpu-min"], read_runtime("web-1.24")).totals
        assert (totals.on_gpu, totals.failing, totals.on_cpu) == (0, 1, 0)

    def test_of_several_runtimes_are_each_of_the_worst(self) -> None:
        given = ", ".join(f"float[4] x{number}" for number in range(20))
        names = ", ".join(f"x{number}" for number in range(20))
        totals = inspected(f"g ({given}) => (float[4] y) {{ y = Max ({names}) }}", runtime=None).totals
        assert (totals.nodes, totals.on_gpu, totals.failing, totals.on_cpu) == (1, 0, 1, 1)

    def test_do_not_guess_sizes(self) -> None:
        totals = inspected("g (float[N] x) => (float y) { a = Relu (x) b = Sum (a, a) y = Sin (b) }").totals
        assert (totals.unknown_copies, totals.unknown_sizes, totals.fits_wasm) == (2, 4, None)

    def test_compare_with_the_memory_of_webassembly(self) -> None:
        text = "g (float[1073741824] x) => (float y) { y = Relu (x) }"
        assert inspected(text).totals.fits_wasm is False


class TestRequirements:
    def test_are_in_the_words_of_webgpu(self) -> None:
        text = """g (float16[100] x) => (float16 y) {
          a = Relu (x) b = Add (a, x) c = Greater (a, b) y = Where (c, a, b) }"""
        found = webgpu_requirements(inspected(text)).model_dump(mode="json")
        assert found == {
            "requiredLimits": {
                "maxStorageBuffersPerShaderStage": 4,
                "maxStorageBufferBindingSize": 200,
                "maxBufferSize": 200,
            },
            "requiredFeatures": ["shader-f16"],
            "peakBytes": 700,
            "unknownSizes": 0,
            "declaredSizes": 0,
            "failsOn": [],
            "onCpu": {},
            "undecided": 0,
        }

    def test_of_a_summary_are_the_same(self) -> None:
        found = inspected("g (float[N] x) => (float y) { y = Relu (x) }")
        assert webgpu_requirements(found) == webgpu_requirements(found.summary())
        assert webgpu_requirements(found).requiredLimits.maxBufferSize is None


class TestEachRuntime:
    """What an app asks for the runtime that it loads, not for the worst of all."""

    GATHER_ND = """g (float[1,4,4,4,4] x, int64[1,4,2,2] at) => (float y) {
      a = Relu (x) y = GatherND <batch_dims = 2> (a, at) }"""

    def test_a_node_that_fails_is_of_the_runtime_where_it_does(self) -> None:
        needs = webgpu_requirements(inspected(self.GATHER_ND, runtime=None))
        assert needs.failsOn == ("web-1.22",)
        assert needs.onCpu == {"web-1.23": 1}
        assert webgpu_requirements(inspected(self.GATHER_ND, runtime="web-1.30")).failsOn == ()
        assert webgpu_requirements(inspected(self.GATHER_ND, runtime="web-1.22")).failsOn == ("web-1.22",)

    def test_a_runtime_is_not_charged_with_what_another_leaves_on_the_cpu(self) -> None:
        # Where Max is on the CPU, what is computed from its small result is left there as well.
        text = """g (float[4,4] x, int64[1] n) => (float z, int64[1] m) {
          s = Shape (x) t = Max (s, n) m = Add (t, n) z = Relu (x) }"""
        alone = {name: inspected(text, runtime=name).totals.on_cpu for name in runtime_names()}
        needs = webgpu_requirements(inspected(text, runtime=None))
        assert needs.onCpu == {name: count for name, count in alone.items() if count}

    def test_buffers_count_only_where_the_runtime_takes_fewer_than_the_device_grants(self) -> None:
        names = ", ".join(f"p{number}" for number in range(9))
        text = f"g (float[9] x) => (float p0) {{ {names} = Split <axis = 0> (x) }}"
        needs = webgpu_requirements(inspected(text, runtime=None))
        assert needs.requiredLimits.maxStorageBuffersPerShaderStage == 10
        assert needs.failsOn == ("web-1.22", "web-1.23")

    def test_a_device_that_grants_too_little_is_no_failure_of_a_runtime(self) -> None:
        names = ", ".join(["x"] * 12)
        needs = webgpu_requirements(inspected(f"g (float[4] x) => (float[4] y) {{ y = Max ({names}) }}"))
        assert needs.requiredLimits.maxStorageBuffersPerShaderStage == 13
        assert needs.failsOn == ()

    def test_nodes_of_which_nothing_is_known_are_counted(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "my": 1]> g (float[4] x) => (y)
        { t = my.Op (x) y = Max (t, t) }"""
        found = inspect(
            ir.from_proto(onnx.parser.parse_model(text)), PROFILES["webgpu-min"], read_runtime(WEB)
        )
        needs = webgpu_requirements(found)
        assert (needs.undecided, needs.onCpu) == (1, {WEB: 1})


class TestTheWorstRuntime:
    """What the device must grant is asked of the runtimes that use it, not of those that leave it alone."""

    def test_counts_the_buffers_of_a_node_that_others_leave_on_the_cpu(self) -> None:
        given = ", ".join(f"float[4] x{number}" for number in range(20))
        names = ", ".join(f"x{number}" for number in range(20))
        found = inspected(f"g ({given}) => (float[4] y) {{ y = Max ({names}) }}", runtime=None)
        assert found.totals.storage_buffers == 21
        assert found.totals.on_cpu == 1
        by_problem = {group.problem: group for group in found.groups}
        assert set(by_problem) == {Problem.STORAGE_BUFFERS, Problem.NO_KERNEL}
        runtimes = [set(group.runtimes) for group in found.groups]
        assert not runtimes[0] & runtimes[1]
        assert runtimes[0] | runtimes[1] == set(runtime_names())

    def test_asks_for_halves_and_sizes_too(self) -> None:
        body = """g (float16[1,64,4096,4096] x, float16[1,4,4,2] at) => (float16[1,64,4,4] y)
        { y = GridSample (x, at) }"""
        needs = webgpu_requirements(inspected(body, runtime=None))
        assert needs.requiredFeatures == ("shader-f16",)
        assert needs.requiredLimits.maxBufferSize == 2 * 64 * 4096 * 4096

    def test_counts_a_node_of_which_it_is_not_known(self) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "my": 1]> g (float[4] x) => (y)
        { t = my.Op (x) y = Max (t, t, t, t, t, t, t, t, t) }"""
        found = inspect(
            ir.from_proto(onnx.parser.parse_model(text)), PROFILES["webgpu-min"], read_runtime(WEB)
        )
        assert found.totals.undecided == 1
        assert found.totals.storage_buffers == 10

    def test_does_not_count_what_runs_on_every_cpu(self) -> None:
        body = f"g (double[2] x) => (double[24] y) {{ y = Concat <axis = 0> ({', '.join(['x'] * 12)}) }}"
        found = inspected(body, runtime=None)
        assert found.totals.on_cpu == 1
        assert found.totals.storage_buffers == 0
        assert found.fit
        assert not found.fit.too_wide


class TestFitAndFindings:
    @pytest.mark.parametrize("dtype", ["float", "int64"])
    @pytest.mark.parametrize("runtime", [*runtime_names(), None])
    @pytest.mark.parametrize("device", PROFILES)
    def test_agree_on_what_is_too_wide(self, device: str, runtime: str | None, dtype: str) -> None:
        parts = ", ".join(f"p{number}" for number in range(8))
        text = f"""<ir_version: 9, opset_import: ["": 17]> g ({dtype}[8] x) => ({dtype}[?] p0, {dtype}[?] c)
        {{ [s] {parts} = Split <axis = 0> (x) [c] c = Concat <axis = 0> ({parts}, {parts}, x) }}"""
        model = ir.from_proto(onnx.parser.parse_model(text))
        found = inspect(model, PROFILES[device], read_runtime(runtime) if runtime else None)
        wide = [each for each in found.findings if each.problem == Problem.STORAGE_BUFFERS]
        assert [(each.node, each.amount, each.allowed) for each in wide] == [
            (each.node, each.slots, each.limit) for each in found.fit.too_wide
        ]


class TestOddModels:
    FUNCTION = """<opset_import: ["": {opset}, "loc": 1], domain: "loc"> F (a) => (b) {{ {body} }}"""

    def of(self, calls: str, *functions: str) -> Inspection:
        head = '<ir_version: 9, opset_import: ["": 17, "loc": 1]>'
        text = f"{head} g (float[2] x) => (float[2] y) {{ {calls} }}"
        model = ir.from_proto(onnx.parser.parse_model("\n".join([text, *functions])))
        return inspect(model, PROFILES["webgpu-min"])

    def test_a_function_of_another_opset_is_not_looked_into(self) -> None:
        found = self.of("y = loc.F (x)", self.FUNCTION.format(opset=13, body="b = Sum (a, a)"))
        assert {group.problem for group in found.groups} == {Problem.UNKNOWN, Problem.NO_KERNEL}
        assert "was not looked into" in next(g.what for g in found.groups if g.problem == Problem.UNKNOWN)

    def test_a_function_that_calls_itself_ends(self) -> None:
        found = self.of("y = loc.F (x)", self.FUNCTION.format(opset=17, body="b = loc.F (a)"))
        assert found.totals.undecided

    def test_functions_that_become_millions_of_nodes_end(self) -> None:
        doubling = [
            f"""<opset_import: ["": 17, "loc": 1], domain: "loc"> F{n} (a) => (b)
            {{ t = loc.F{n - 1} (a) b = loc.F{n - 1} (t) }}"""
            for n in range(1, 30)
        ]
        last = '<opset_import: ["": 17], domain: "loc"> F0 (a) => (b) { b = Neg (a) }'
        assert self.of("y = loc.F29 (x)", last, *doubling).totals.undecided
        assert not self.of("y = loc.F3 (x)", last, *doubling[:3]).totals.undecided

    def test_an_attribute_of_a_wrong_type_is_not_followed(self) -> None:
        model = onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Cast <to = 1> (x) }'
        )
        del model.graph.node[0].attribute[:]
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("to", "float"))
        assert inspect(ir.from_proto(model), PROFILES["webgpu-min"]).totals.nodes == 1

    def test_a_size_that_no_memory_holds_is_not_known(self) -> None:
        shape = ",".join(["4611686018427387904"] * 20)
        found = inspected(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu (x) }}")
        assert found.totals.unknown_sizes == 2
        assert found.totals.largest is None


class TestDemo:
    def test_every_problem_has_a_pass_and_they_remove_all(self, demo: ir.Model) -> None:
        before = inspect(demo, PROFILES["webgpu-min"])
        assert all(group.passes for group in before.groups)
        for name in before.passes:
            PASSES[name]()(demo)
        after = inspect(demo, PROFILES["webgpu-min"])
        assert after
        assert (after.totals.on_cpu, after.totals.copies_from_gpu, after.totals.copies_to_gpu) == (0, 0, 0)
        assert after.totals.storage_buffers <= 8

    @pytest.fixture
    def demo(self) -> ir.Model:
        return ir.from_proto(build_model(SMALL))


OPS = ("Relu", "Sum", "Add", "Identity", "Cast", "Abs", "Concat", "Split", "Mul")
DTYPES = (ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT32, ir.DataType.FLOAT16)


@st.composite
def graphs(draw: st.DrawFn) -> ir.Model:
    lengths = draw(st.sampled_from([4, "N"]))
    values = [ir.val(f"x{n}", dtype=draw(st.sampled_from(DTYPES)), shape=[lengths]) for n in range(2)]
    inputs, nodes = list(values), []
    for _ in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(OPS))
        one, other = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        attributes = {"Cast": {"to": draw(st.sampled_from(DTYPES)).value}, "Concat": {"axis": 0}}.get(op, {})
        taken = [one, other] if op in ("Sum", "Add", "Mul", "Concat") else [one]
        node = ir.node(op, taken, attributes, num_outputs=2 if op == "Split" else 1)
        for number, value in enumerate(node.outputs):
            value.name = f"v{len(nodes)}_{number}"
        nodes.append(node)
        values += node.outputs
    graph = ir.Graph(inputs, values[-1:], nodes=nodes, opset_imports={"": 17}, name="g")
    return ir.Model(graph, ir_version=9)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from([None, *runtime_names()]))
def test_any_graph_is_inspected_alike_twice_and_left_alone(model: ir.Model, runtime: str | None) -> None:
    its = read_runtime(runtime) if runtime else None
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    found = inspect(model, PROFILES["webgpu-min"], its)
    assert found == inspect(model, PROFILES["webgpu-min"], its)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before
    assert Inspection.model_validate(json.loads(found.model_dump_json())) == found
    totals = found.totals
    placed = totals.on_gpu + totals.failing + totals.on_cpu + totals.undecided
    assert totals.nodes <= placed if runtime is None or totals.undecided else totals.nodes == placed
    assert totals.nodes <= len(list(model.graph))
    assert sum(group.nodes for group in found.groups) == len(found.findings)
    if not totals.undecided and totals.on_cpu == 0:
        assert totals.copies_to_gpu == 0
    assert np.isfinite(totals.peak_live_bytes)
