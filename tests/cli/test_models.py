"""Commands on single files: rewrite, inspect, verify, passes, devices."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from hubpublish import single
from hubpublish.devices import PROFILES
from hubpublish.devices.runtimes import runtime_names
from hubpublish.errors import UsageError
from hubpublish.passes import PASSES
from tests.cli.running import Shell, in_a_process
from tests.publication import SMALL, model_bytes

CASES_FOLDER = Path(__file__).parents[1] / "models" / "cases"
CASES: dict[str, dict[str, Any]] = json.loads((CASES_FOLDER / "cases.json").read_text("utf-8"))
CRASHES = {"r10_split_omitted_outputs"}
# They fail in the runtime as they are: an index is too large, sizes do not fit, an operator is foreign.
FAILS = {
    "p05_x_too_large_now_silent": "original_fails",
    "r01_split_num_outputs": "original_fails",
    "r08_custom_domain": "original_does_not_load",
}


def labels(model: onnx.ModelProto) -> set[str]:
    """Every node of a model by name, or else by its first output, in all graphs and functions."""
    found: set[str] = set()

    def visit(nodes: Any) -> None:
        for node in nodes:
            found.add(node.name or next(filter(None, node.output)))
            for attribute in node.attribute:
                visit(attribute.g.node)
                for graph in attribute.graphs:
                    visit(graph.node)

    visit(model.graph.node)
    for function in model.functions:
        visit(function.node)
    return found


def feeds(name: str, folder: Path) -> list[str]:
    """Options of `verify` for the inputs that a case names."""
    model = onnx.load(CASES_FOLDER / f"{name}.onnx")
    shapes = {
        each.name: [
            dim.dim_value if dim.HasField("dim_value") else -1 for dim in each.type.tensor_type.shape.dim
        ]
        for each in model.graph.input
    }
    options = []
    for key, given in (CASES[name].get("feeds") or {}).items():
        path = folder / f"{key}.npy"
        np.save(path, np.array(given["value"], dtype=given["dtype"]).reshape(shapes[key]))
        options += ["--input", f"{key}={path}"]
    return options


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_case_comes_out_as_written(shell: Shell, tmp_path: Path, name: str) -> None:
    source, target, report = CASES_FOLDER / f"{name}.onnx", tmp_path / "out.onnx", tmp_path / "report.json"
    done = shell("rewrite", source, target, "--report", report)
    assert done.code == 0, done.err
    passes = json.loads(report.read_text())["passes"]
    skipped = [each for one in passes for each in one["skipped"]]
    rewritten = [each for one in passes for each in one["rewritten"]]
    expected = CASES[name]["expect"]
    if expected.startswith("left alone"):
        assert skipped
        assert {each["node"] for each in skipped} <= labels(onnx.load(target))
        assert all(each["reason"] for each in skipped)
        assert f"left alone: {skipped[0]['op']} {skipped[0]['node']} in {skipped[0]['scope']}" in done.out
        assert not rewritten
    elif expected.startswith("rewritten"):
        # What one pass leaves alone another may rewrite.
        assert {each["node"] for each in skipped} <= {each["node"] for each in rewritten}
        assert rewritten
    else:
        assert rewritten or skipped


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_case_computes_what_it_did(shell: Shell, tmp_path: Path, name: str) -> None:
    source, target = CASES_FOLDER / f"{name}.onnx", tmp_path / "out.onnx"
    assert shell("rewrite", source, target).code == 0
    done = shell("verify", source, target, "--json", *feeds(name, tmp_path))
    if name in CRASHES:
        assert (done.code, done.error["kind"]) == (5, "original_crashed")
    elif name in FAILS:
        # That both fail is what the verdict says; a rewrite that did not would have another kind.
        assert (done.code, done.error["kind"]) == (5, FAILS[name])
    else:
        assert done.code == 0, done.err
        result = done.json["verification"]
        assert result["levels"][0]["level"] == "disabled"
        outputs = [output for each in result["levels"][0]["inputs"] for output in each["outputs"]]
        assert outputs
        assert all(output["identical"] for output in outputs)


class TestRewrite:
    def test_says_what_it_did(self, shell: Shell, model: Path) -> None:
        done = shell("rewrite", model, "out.onnx", "--device", "webgpu-min")
        lines = done.out.partition("\n\n")[0].splitlines()
        assert lines[-1] == "Wrote out.onnx"
        done_by = [line for line in lines if not line.endswith(": 0 rewritten, 0 left alone")]
        assert done_by[:-1] == [
            "concat_tree: 1 rewritten, 0 left alone",
            "split_tree: 1 rewritten, 0 left alone",
            "sum_to_add: 1 rewritten, 0 left alone",
        ]
        assert len(lines) == 1 + sum(each.by_default for each in PASSES.values())

    def test_says_what_changed_on_the_device(self, shell: Shell, model: Path) -> None:
        done = shell("rewrite", model, "out.onnx", "--device", "webgpu-min")
        rows = [re.split(" {2,}", line) for line in done.out.partition("\n\n")[2].splitlines()]
        assert rows == [
            ["on webgpu-min, the worst of every listed runtime", "before", "after"],
            ["nodes that do not compile, or fail", "2", "0"],
            ["nodes on the CPU", "1", "0"],
            ["nodes undecided", "0", "0"],
            ["copies from the GPU in a run", "1 (144 B)", "0"],
            ["copies to the GPU in a run", "2 (288 B)", "0"],
        ]
        assert "warning" not in done.err
        assert "on webgpu" not in shell("rewrite", model, "out.onnx").out

    def test_warns_of_what_keeps_the_result_from_running(self, shell: Shell, tmp_path: Path) -> None:
        given = ", ".join(f"float[4] x{number}" for number in range(9))
        names = ", ".join(f"x{number}" for number in range(9))
        # Each of other inputs: of equal nodes the runtime keeps one.
        nodes = "".join(f"n{at} = Neg (x{at}) [m{at}] y{at} = Max ({names}, n{at}) " for at in range(7))
        (tmp_path / "wide.onnx").write_bytes(
            model_bytes(f'<ir_version: 8, opset_import: ["": 13]> g ({given}) => (float[4] y0) {{ {nodes} }}')
        )
        done = shell("rewrite", tmp_path / "wide.onnx", "out.onnx", "--device", "webgpu-min",
                     "--runtime", "web-1.30")  # fmt: skip
        assert done.code == 0
        named = [f"Max m{at} in main binds 11, 8 granted: does not compile" for at in range(5)]
        start = "warning: 7 nodes still keep the model from running on webgpu-min: "
        assert done.err == f"{start}{'; '.join(named)}; and 2 more\n"
        everywhere = shell("rewrite", tmp_path / "wide.onnx", "out.onnx", "--device", "webgpu-min")
        assert "does not compile in web-" in everywhere.err

    def test_lists_no_more_than_can_be_read(self, shell: Shell, tmp_path: Path) -> None:
        split = "[s{n}] a{n}_0, a{n}_1, a{n}_2, a{n}_3, a{n}_4, a{n}_5 = Split <axis = 0> (x, sizes)"
        nodes = "\n".join(split.format(n=n) for n in range(13))
        text = f"""<ir_version: 8, opset_import: ["": 13]>
        g (float[6] x, int64[6] sizes) => (float[1] a0_0) {{ {nodes} }}"""
        (tmp_path / "many.onnx").write_bytes(model_bytes(text))
        lines = shell("rewrite", "many.onnx", "out.onnx").out.splitlines()
        assert sum(line.startswith("  left alone: Split s") for line in lines) == 10
        assert "  and 3 more; --report has them all" in lines


class TestInspect:
    def test_shows_whole_names_in_a_pipe(self, tmp_path: Path) -> None:
        model = onnx.parser.parse_model(SMALL)
        name = "/decoder/stages.0/blocks.11/attention/self/" * 4 + "[bold]Split[/bold]"
        model.graph.node[0].name = name
        onnx.save(model, tmp_path / "model.onnx")
        done = in_a_process("inspect", "model.onnx", folder=tmp_path, COLUMNS="80")
        assert f"  Split: {name}\n" in done.out
        assert "\x1b" not in done.out
        assert (
            "More storage buffers than webgpu-min grants: 2 nodes; there are passes that may narrow 2.\n"
            in done.out
        )

    def test_cuts_what_no_screen_can_show(self, shell: Shell, tmp_path: Path) -> None:
        model = onnx.parser.parse_model(SMALL)
        node = model.graph.node[0]
        node.name, node.op_type, node.domain = "n" * 3000, "O" * 2000, "d" * 500
        onnx.save(model, tmp_path / "model.onnx")
        done = shell("inspect", tmp_path / "model.onnx")
        assert max(map(len, done.out.splitlines())) < 500
        assert "ddd…" in done.out
        assert "n" * 3000 in shell("inspect", tmp_path / "model.onnx", "--json").out

    def test_shows_what_is_wrong_what_happens_and_what_helps(self, shell: Shell, tmp_path: Path) -> None:
        text = """<ir_version: 9, opset_import: ["": 17]> g (float[18] x) => (float y) {
          [cut] a, b, c, d, e, f, g, h, i = Split (x)
          [one] p = Sum (a, b) [two] q = Sum (p, c) y = Relu (q) }"""
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        lines = shell("inspect", tmp_path / "model.onnx", "--runtime", "web-1.30").out.splitlines()
        assert lines[0] == "4 nodes, opset 17; webgpu-min, web-1.30"
        rows = [line.split() for line in lines]
        cut = "1 Split binds 10, 8 granted does not compile patch_grid or split_tree"
        assert cut.split() in rows
        assert "  Split: cut" in lines
        assert ["2", "no", "kernel", "for", "Sum", "24", "B", "8", "B", "sum_to_add"] in rows
        assert "  Sum: one and 1 more" in lines
        assert "4 nodes left: 1 runs on the GPU, 1 does not compile there, 2 on the CPU" in lines
        assert "Passes that may remove some of it: patch_grid, split_tree, sum_to_add" in lines
        command = f"hubpublish rewrite {tmp_path / 'model.onnx'} out.onnx --pass auto --device webgpu-min"
        tries = "tries them, and those that make any file smaller."
        assert lines[-1] == f"`{command} --runtime web-1.30` {tries}"
        assert max(map(len, lines[:-1])) <= 100

    def test_shows_a_command_that_can_be_typed_as_it_is(self, shell: Shell, tmp_path: Path) -> None:
        text = '<ir_version: 9, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Sum (x, x) }'
        folder = tmp_path / "it's a folder"
        folder.mkdir()
        onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
        last = shell("inspect", folder / "model.onnx").out.splitlines()[-1]
        words = shlex.split(last.split("`")[1])
        assert words[:3] == ["hubpublish", "rewrite", str(folder / "model.onnx")]
        words[3] = str(tmp_path / "out.onnx")
        assert shell(*words[1:]).code == 0

    def test_does_not_name_its_own_file_to_write_to(
        self, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = '<ir_version: 9, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Sum (x, x) }'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "out.onnx")
        monkeypatch.chdir(tmp_path)
        done = shell("inspect", "out.onnx")
        assert "rewrite out.onnx rewritten.onnx --pass auto --device webgpu-min` tries" in done.out

    @pytest.mark.parametrize("opset", [6, 26])
    def test_promises_nothing_of_an_opset_that_rewrite_refuses(
        self, shell: Shell, tmp_path: Path, opset: int
    ) -> None:
        path = tmp_path / "model.onnx"
        head = f'<ir_version: 9, opset_import: ["": {opset}]>'
        path.write_bytes(model_bytes(f"{head} g (float[4] x) => (float[4] y) {{ y = Sum (x, x) }}"))
        done = shell("inspect", path)
        assert done.code == 0
        assert "Passes that may remove some of it: sum_to_add" in done.out
        assert "tries them" not in done.out
        assert f"none can be tried: the model imports opset {opset}; supported are 7 to 25" in done.out
        assert "supported are 7 to 25" in shell("inspect", path, "--json").json["refused"]
        refused = shell("rewrite", path, tmp_path / "out.onnx", "--pass", "auto", "--device", "webgpu-min")
        assert refused.code == 4

    def test_says_in_which_runtimes_where_they_differ(self, shell: Shell, tmp_path: Path) -> None:
        text = """<ir_version: 9, opset_import: ["": 17]>
        g (float[1,1,4,4] x, float[1,2,2,2] g) => (float y) { a = GridSample (x, g) y = Sum (a, a) }"""
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        lines = shell("inspect", tmp_path / "model.onnx").out.splitlines()
        (header,) = [line.split("  ") for line in lines if line.startswith("nodes")]
        assert [each.strip() for each in header if each.strip()][-2:] == ["in", "may be removed by"]
        rows = [line.split() for line in lines]
        grid = "1 no kernel for GridSample"
        assert any(row[:5] == grid.split() and "web-1.23," in row and "web-1.24" in row for row in rows)
        assert any("Sum" in row and "all" in row for row in rows)
        assert "  GridSample: a" in lines
        one = shell("inspect", tmp_path / "model.onnx", "--runtime", "web-1.24").out
        assert "  in  " not in one

    def test_keeps_what_is_undecided_apart(self, shell: Shell, tmp_path: Path) -> None:
        text = """<ir_version: 9, opset_import: ["": 17, "my": 1]> g (float[4] x) => (y)
        { t = my.Op (x) y = Max (t, t) }"""
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        lines = shell("inspect", tmp_path / "model.onnx", "--runtime", "web-1.30").out.splitlines()
        cpu, undecided = lines.index("Runs on the CPU"), lines.index("Undecided")
        row = "1 Max the element type of Max is not known may run on the CPU -"
        assert [line.split() for line in lines].index(row.split()) > undecided > cpu

    def test_states_no_figure_of_what_is_not_known(self, shell: Shell, tmp_path: Path) -> None:
        text = """<ir_version: 9, opset_import: ["": 17]> g (float[N] x, float[8] k) => (y, z) {
          a = Relu (x) b = Sum (a, a) y = Sin (b) z = Relu (k) }"""
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        lines = shell("inspect", tmp_path / "model.onnx", "--runtime", "web-1.30").out.splitlines()
        assert "Copies in a run: from the GPU 1 (of unknown size), to it 1 (of unknown size)" in lines
        assert "Largest tensor: at least 32 B (k)" in lines
        alive = "Alive at once: at least 64 B, 0 B of it weights; unknown whether below WebAssembly's 4 GiB"
        assert alive in lines
        text = '<ir_version: 9, opset_import: ["": 17]> g (float[N] x) => (y) { y = Relu (x) }'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        lines = shell("inspect", tmp_path / "model.onnx", "--runtime", "web-1.30").out.splitlines()
        assert {"Largest tensor: unknown", "Alive at once: unknown"} <= set(lines)

    def test_as_json(self, shell: Shell, model: Path) -> None:
        found = shell("inspect", model, "--device", "webgpu-chromium", "--json").json
        assert found["statistics"]["ops"]["Split"] == 1
        fit = found["fit"]
        assert (fit["profile"], fit["limit"]) == ("webgpu-chromium", 10)
        assert [(each["op"], each["slots"], each["limit"]) for each in fit["too_wide"]] == [("Split", 10, 8)]
        assert (found["widest"][0]["slots"], found["widest"][0]["limit"]) == (10, 8)
        assert found["runtimes"][0] == "web-1.22"
        assert found["totals"]["on_cpu"] == 1
        assert [(each["op"], each["passes"]) for each in found["groups"]] == [
            ("Split", ["patch_grid", "split_tree"]),
            ("Sum", ["sum_to_add"]),
        ]


class TestVerify:
    @pytest.mark.parametrize(
        ("option", "see"),
        [
            (["--gate", "exat"], "verify --help"),
            (["--gate", "max_ab=1"], "verify --help"),
            (["--ep", "cuda"], "use cpu or webgpu"),
        ],
    )
    def test_says_where_options_are_explained(
        self, shell: Shell, model: Path, option: list[str], see: str
    ) -> None:
        done = shell("verify", model, model, *option)
        assert (done.code, see in done.err) == (2, True)

    def test_says_what_held(self, shell: Shell, model: Path) -> None:
        shell("rewrite", model, "out.onnx")
        done = shell("verify", model, "out.onnx")
        assert done.code == 0
        assert done.out.startswith(
            "Passed: exact on 2 inputs (optimizations disabled and default), onnxruntime "
        )
        bounds = shell("verify", model, "out.onnx", "--gate", "max_abs=1e-3")
        assert bounds.out.startswith("Passed: max_abs 1e-3 (in fact exact) on 2 inputs (")
        assert "running the original model on noise 0, optimizations disabled\n" in done.err

    def test_says_what_differs(self, shell: Shell, model: Path, tmp_path: Path) -> None:
        (tmp_path / "other.onnx").write_bytes(model_bytes(SMALL.replace("n1 = Neg", "n1 = Abs")))
        done = shell("verify", model, "other.onnx", "--json")
        assert (done.code, done.error["kind"]) == (5, "different")
        assert "output 'y' differs in" in done.error["message"]
        assert done.error["verification"]["passed"] is False

    def test_on_another_device_is_asked_for_by_name(
        self, shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = shell("verify", model, model, "--ep", "cuda")
        assert done.code == 2
        assert "unknown execution provider 'cuda'" in done.err
        asked: dict[str, Any] = {}

        def on_webgpu(*files: Path, **options: Any) -> None:
            asked.update(options)
            raise UsageError("no device", where="here", hint="none")

        monkeypatch.setattr(single, "verify_files_on_webgpu", on_webgpu)
        options = ["--gate", "max_abs=1", "--storage-buffers", "9", "--assign-only", "--shape", "x=1"]
        done = shell("verify", model, model, "--ep", "webgpu", *options, "--value", "x=2", "--input", "x=3")
        assert "no device" in done.err
        del asked["say"], asked["cache"]
        assert asked == {
            "gate": "max_abs=1",
            "storage_buffers": 9,
            "assign_only": True,
            "shapes": ["x=1"],
            "values": ["x=2"],
            "files": ["x=3"],
        }


def test_names_stay_on_their_line(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "odd.onnx"
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {'
                                    "y = Sum (x, x) }")  # fmt: skip
    proto.graph.node[0].name = "odd\n\x1b[31m# heading"
    path.write_bytes(proto.SerializeToString())
    text = shell("inspect", str(path)).out
    assert "  Sum: odd\\n\\x1b[31m# heading\n" in text
    assert "\x1b" not in text
    assert text.startswith("1 node, opset 17")


def test_passes_are_listed_with_their_options(shell: Shell) -> None:
    found = {each["name"]: each for each in shell("passes", "--json").json["passes"]}
    assert list(found) == list(PASSES)
    assert found["split_tree"]["options"]["max_outputs"]["default"] == 5
    assert found["split_tree"]["exact"] is True
    lines = shell("passes").out.splitlines()
    assert [line.split()[0] for line in lines[1 : len(PASSES) + 1]] == list(PASSES)
    assert lines[1 + list(PASSES).index("sum_to_add")].split(maxsplit=2) == [
        "sum_to_add",
        "exact",
        "Sum as a left-to-right chain of Add; Sum of one input as Identity.",
    ]
    assert len(lines) == len(PASSES) + 3


def test_one_pass_is_shown_in_full(shell: Shell) -> None:
    found = {each["name"]: each for each in shell("passes", "--json").json["passes"]}
    assert shell("passes", "split_tree", "--json").json == {"passes": [found["split_tree"]]}
    assert shell("passes", "concat_tree").out.startswith("concat_tree (exact)\n  max_inputs = 6: ")
    text = "".join(shell("passes", name).out for name in PASSES)
    assert not [name for name, each in found.items() if each["documentation"].splitlines()[0] not in text]
    assert "``" not in text
    assert "are\n  - a constant 0 to add, as" in text
    assert "\n  - one input that may be float16: " in text
    assert "where Identity does not, and what is moved before" in " ".join(text.split())
    assert "  " not in text.partition("- one input")[2].partition("\n")[0]
    assert text.count("\n  Source: ") == text.count("Source: ")
    single = re.compile("(?<!`)`([^`]+)`(?!`)")  # which stand for passes, and not for modules
    named = {name for each in found.values() for name in single.findall(each["documentation"])}
    assert named <= set(PASSES)
    formulas = re.findall(r"^ {6}.*", text, re.MULTILINE)  # as they are written
    assert "      Sum(a, b, c, d) = Add(Add(Add(a, b), c), d)        Sum(a) = Identity(a)" in formulas
    assert all(len(line) <= 80 for line in text.splitlines() if line not in formulas)


def test_a_pass_that_there_is_not(shell: Shell) -> None:
    done = shell("passes", "split_tre")
    assert (done.code, "did you mean 'split_tree'?" in done.err) == (2, True)


def test_devices_are_listed_with_their_limits(shell: Shell) -> None:
    found = shell("devices", "--json").json["devices"]
    assert [each["name"] for each in found] == list(PROFILES)
    lines = shell("devices").out.splitlines()
    assert lines[1].split()[:4] == ["webgpu-min", "8", "128", "MiB"]
    assert lines[len(PROFILES) + 1] == ""
    assert [line.split()[0] for line in lines[len(PROFILES) + 3 :]] == list(runtime_names())
