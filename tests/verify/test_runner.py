from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from hubpublish.errors import VerificationError
from hubpublish.verify import runner
from hubpublish.verify.runner import Feed, RunLimits, run

from .conftest import CRASHING, CRASHING_SIZES, ENDLESS, OnnxFile

LIMITS = RunLimits(seconds=60)


def feed(folder: Path, name: str, array: np.ndarray) -> Feed:
    file = folder / f"{name}.in"
    file.write_bytes(array.tobytes())
    return Feed(name, array.dtype.name, 0, array.dtype.name, array.shape, file)


def endless(onnx_file: OnnxFile, folder: Path) -> tuple[Path, list[Feed]]:
    feeds = [feed(folder, "x", np.zeros(1, np.float32)), feed(folder, "n", np.zeros(1, np.int64))]
    return onnx_file(ENDLESS), feeds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def test_outputs_are_on_disk_with_dtype_shape_and_hash(
    onnx_file: OnnxFile, tmp_path: Path, folder: Path
) -> None:
    model = onnx_file("g (float[2,3] x) => (float[2,3] y, int64[2] s) { y = Neg(x) s = Shape(x) }")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = run(model, "disabled", [feed(tmp_path, "x", x)], folder, LIMITS)
    assert made.status == "ok"
    assert [(output.name, output.dtype, output.shape) for output in made.outputs] == [
        ("y", "float32", (2, 3)),
        ("s", "int64", (2,)),
    ]
    assert made.outputs[0].file is not None
    assert np.fromfile(made.outputs[0].file, np.float32).tolist() == [-0.0, -1, -2, -3, -4, -5]


def test_peak_memory_is_the_childs_not_this_process(
    onnx_file: OnnxFile, tmp_path: Path, folder: Path
) -> None:
    ballast = np.ones(60_000_000, np.float32)  # 240 MB, several times what the child needs
    model = onnx_file("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    made = run(model, "disabled", [feed(tmp_path, "x", np.ones(1, np.float32))], folder, LIMITS)
    assert made.peak_bytes is not None
    assert 10_000_000 < made.peak_bytes < ballast.nbytes


def test_a_crash_is_a_result(onnx_file: OnnxFile, tmp_path: Path, folder: Path) -> None:
    model = onnx_file(CRASHING, opset=17, ir=8, sizes=CRASHING_SIZES)
    made = run(model, "disabled", [feed(tmp_path, "x", np.zeros(20, np.float32))], folder, LIMITS)
    assert (made.status, made.phase) == ("crashed", "running")
    assert "SIGSEGV" in str(made.error)


def test_a_model_that_does_not_load(onnx_file: OnnxFile, folder: Path) -> None:
    model = onnx_file("g (float[1] x) => (float[1] y) { y = com.acme.Foo(x) }")
    made = run(model, "disabled", [], folder, LIMITS)
    assert made.status == "does_not_load"
    assert "com.acme" in str(made.error)


def test_an_error_at_run_time(onnx_file: OnnxFile, tmp_path: Path, folder: Path) -> None:
    model = onnx_file("g (int64[1] i) => (float[1] y) { y = Gather(w, i) }", w=np.zeros(3, np.float32))
    made = run(model, "default", [feed(tmp_path, "i", np.array([7]))], folder, LIMITS)
    assert made.status == "fails"
    assert "Gather" in str(made.error)


def test_an_allocation_that_cannot_be(onnx_file: OnnxFile, tmp_path: Path, folder: Path) -> None:
    model = onnx_file("g (int64[1] n) => (float[N] y) { y = ConstantOfShape(n) }")
    made = run(model, "disabled", [feed(tmp_path, "n", np.array([2**50]))], folder, LIMITS)
    assert made.status == "out_of_memory"


def test_the_time_limit_ends_a_run(onnx_file: OnnxFile, tmp_path: Path, folder: Path) -> None:
    model, feeds = endless(onnx_file, tmp_path)
    assert run(model, "disabled", feeds, folder, RunLimits(seconds=0.5)).status == "timeout"


def test_the_memory_limit_ends_a_run(onnx_file: OnnxFile, tmp_path: Path, folder: Path) -> None:
    model, feeds = endless(onnx_file, tmp_path)
    made = run(model, "disabled", feeds, folder, RunLimits(seconds=60, memory=30_000_000))
    assert made.status == "out_of_memory"
    assert made.peak_bytes is not None
    assert made.peak_bytes > 30_000_000


def test_nothing_of_the_runtime_reaches_the_terminal(
    onnx_file: OnnxFile, tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = onnx_file("g (int64[1] i) => (float[1] y) { y = Gather(w, i) }", w=np.zeros(3, np.float32))
    run(model, "default", [feed(tmp_path, "i", np.array([7]))], folder, LIMITS)
    assert capfd.readouterr() == ("", "")


def test_a_child_that_cannot_start_is_an_error_of_the_machine(
    onnx_file: OnnxFile, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "child.py"
    broken.write_text("import no_such_module_anywhere")
    monkeypatch.setattr(runner, "CHILD", broken)
    with pytest.raises(VerificationError, match="no_such_module_anywhere") as caught:
        run(onnx_file("g (float[1] x) => (float[1] y) { y = Neg(x) }"), "disabled", [], folder, LIMITS)
    assert caught.value.kind == "runner"


def test_an_interrupt_leaves_no_child(
    onnx_file: OnnxFile, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def interrupted(pid: int) -> tuple[None, None]:
        seen.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_memory", interrupted)
    model, feeds = endless(onnx_file, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(model, "disabled", feeds, folder, LIMITS)
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the parent's death signal is Linux's")
def test_a_killed_parent_takes_the_child_with_it(onnx_file: OnnxFile, tmp_path: Path, folder: Path) -> None:
    model, feeds = endless(onnx_file, tmp_path)
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import numpy as np
        from pathlib import Path
        from hubpublish.verify import runner
        feeds = [runner.Feed(n, d, 0, d, (1,), Path(f)) for n, d, f in
                 {[(f.name, f.dtype, str(f.file)) for f in feeds]!r}]
        limits = runner.RunLimits(seconds=60)
        runner.run(Path({str(model)!r}), "disabled", feeds, Path({str(folder)!r}), limits)
        """)
    )
    parent = subprocess.Popen([sys.executable, str(script)])
    try:
        phase = folder / "phase"
        wait_for(lambda: phase.exists() and phase.read_text() == "running")
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        assert len(children) == 1
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_for(lambda: gone(int(children[0])))


def gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return True


def wait_for(condition: object, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)
