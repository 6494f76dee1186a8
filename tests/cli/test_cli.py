"""The command line itself: help, usage errors, JSON, interruptions, faults."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import typer

import hubpublish
from hubpublish import single
from hubpublish.cli import output
from hubpublish.cli.main import app
from hubpublish.errors import HubError
from tests.cli.running import COMMAND, Shell, environment, in_a_process

COMMANDS = [str(each.callback.__name__) for each in app.registered_commands if each.callback]
HEAVY = ("huggingface_hub", "onnxruntime", "onnx", "onnx_ir", "numpy", "httpx2", "jinja2", "yaml")


def test_the_commands_are_these() -> None:
    assert COMMANDS == [
        "run",
        "new",
        "status",
        "bump",
        "rollback",
        "reproduce",
        "rewrite",
        "inspect",
        "verify",
        "passes",
        "devices",
        "hub",
        "demo",
    ]


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_of_every_command_has_examples(self, shell: Shell, command: str) -> None:
        done = shell(command, "--help")
        assert done.code == 0
        assert re.search(rf"\n  Examples:\n    .*hubpublish {command}", done.out)
        assert done.out.startswith(f"Usage: hubpublish {command} [OPTIONS]")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_examples_name_options_that_there_are(self, shell: Shell, command: str) -> None:
        done = shell(command, "--help")
        options, _, examples = done.out.partition("Examples:")
        assert set(re.findall(r"--[a-z-]+", examples)) <= set(re.findall(r"--[a-z-]+", options))

    def test_without_a_command_is_shown(self, shell: Shell) -> None:
        assert shell().out == shell("--help").out
        assert shell().code == 0
        assert all(f"\n  {command}" in shell().out for command in COMMANDS)

    def test_fits_a_narrow_terminal(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        for command in COMMANDS:
            text = shell(command, "--help").out.partition("Examples:")[0]
            assert max(map(len, text.splitlines())) <= 80

    def test_imports_nothing_heavy(self, tmp_path: Path) -> None:
        script = "import sys; from hubpublish.cli.main import run; run(sys.argv[1:])\n"
        script += f"print('imported:', [name for name in {HEAVY} if name in sys.modules])"
        for arguments in (["--help"], ["run", "--help"], ["--version"]):
            done = subprocess.run(
                [sys.executable, "-c", script, *arguments],
                env=environment(tmp_path, PYTHONPATH=str(Path(hubpublish.__file__).parents[1])),
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout.endswith("imported: []\n")

    def test_version(self, shell: Shell) -> None:
        assert shell("--version").out == f"hubpublish {hubpublish.__version__}\n"


class TestUsageErrors:
    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (["frobnicate"], "No such command 'frobnicate'"),
            (["run"], "Missing argument 'RECIPE'"),
            (["run", "a.yaml", "b.yaml"], "b.yaml"),
            (["run", "a.yaml", "--frob"], "--frob"),
            (["run", "a.yaml", "--out"], "--out"),
            (["hub", "--port", "many"], "--port"),
            (["hub", "--port", "70000"], "65535"),
            (["inspect"], "Missing argument 'MODEL'"),
            (["--frob"], "--frob"),
        ],
    )
    def test_are_two_lines(self, shell: Shell, arguments: list[str], named: str) -> None:
        done = shell(*arguments)
        assert (done.code, done.out) == (2, "")
        first, second = done.err.splitlines()
        assert first.startswith("error: ")
        assert named in first
        assert second.strip().startswith("see hubpublish")
        assert second.endswith("--help")

    def test_are_one_json_document_if_asked(self, shell: Shell) -> None:
        for arguments in (["frobnicate"], ["run"], ["inspect", "--frob"]):
            done = shell(*arguments, "--json")
            assert done.code == 2
            assert done.error["kind"] == "usage"
            assert done.error["hint"]


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["inspect", "none.onnx"], 3),
            (["inspect", "model.onnx", "--device", "webgpu-mni"], 2),
            (["rewrite", "model.onnx", "model.onnx"], 2),
            (["rewrite", "model.onnx", "out.onnx", "--pass", "sum_to_add", "--device", "webgpu-min"], 4),
            (["verify", "model.onnx", "none.onnx"], 3),
            (["verify", "model.onnx", "model.onnx", "--gate", "exat"], 2),
            (["run", "none.yaml"], 2),
            (["demo", "--recipe", "none.yaml"], 2),
            (["new", "not a repo"], 2),
            (["new", "acme/none", "--endpoint", "http://127.0.0.1:9"], 3),
        ],
    )
    def test_are_two_lines_and_a_code(
        self, shell: Shell, model: Path, arguments: list[str], code: int
    ) -> None:
        done = shell(*arguments)
        assert (done.code, done.out) == (code, "")
        first, second = done.err.splitlines()[-2:]
        assert first.startswith("error: ")
        assert second.startswith("       ")

    def test_have_no_markup(self, shell: Shell) -> None:
        done = shell("inspect", "[bold]none[/bold] [red].onnx")
        assert "error: [bold]none[/bold] [red].onnx: " in done.err

    def test_are_not_wrapped(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        name = "a-rather-long-name-of-a-file-" * 4
        assert len(shell("inspect", name).err.splitlines()) == 2


class TestInternalErrors:
    def test_are_one_line_and_a_log_without_secrets(
        self, shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(
            "tempfile.tempdir", str(tmp_path)
        )  # where the log goes, so that no test leaves one behind

        def broken(*_: object) -> None:
            raise ZeroDivisionError("hf_" + "x" * 34 + " in\na message")

        monkeypatch.setattr(single, "inspect_file", broken)
        done = shell("inspect", model, "--json")
        assert (done.code, done.error["kind"]) == (1, "internal")
        assert "ZeroDivisionError" in done.error["message"]
        assert len(done.err.splitlines()) == 2
        (log,) = tmp_path.glob("hubpublish-*.log")
        assert done.error["log"] == str(log)
        assert str(log) in done.err
        assert "Traceback" in log.read_text()
        assert "xxxx" not in log.read_text() + done.out + done.err

    def test_need_no_disk(self, shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def buggy(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        def short(*_: object) -> None:
            raise EOFError("marshal data too short")  # as of a compiled module, written to a full disk

        monkeypatch.setattr("tempfile.NamedTemporaryFile", broken)
        monkeypatch.setattr(single, "inspect_file", buggy)
        done = shell("inspect", model, "--json")
        assert (done.code, done.error["kind"], done.error["log"]) == (1, "internal", None)
        monkeypatch.setattr(single, "inspect_file", short)
        done = shell("inspect", model, "--json")
        assert (done.code, done.error["kind"]) == (1, "internal")
        assert "marshal data too short" in done.error["message"]
        monkeypatch.setattr(single, "inspect_file", broken)
        done = shell("inspect", model, "--json")
        assert (done.code, done.error["kind"]) == (2, "cannot_write")
        assert "No space left" in done.error["message"]


class TestInterruption:
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, typer.Abort])
    def test_is_told_in_a_line(
        self, shell: Shell, model: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
    ) -> None:
        def interrupted(*_: object) -> None:
            raise kind

        monkeypatch.setattr(single, "inspect_file", interrupted)
        done = shell("inspect", model)
        assert (done.code, done.out) == (130, "")
        assert done.err.startswith("interrupted")
        assert shell("inspect", model, "--json").error["kind"] == "interrupted"

    def test_ends_the_local_hub(self, tmp_path: Path) -> None:
        process = subprocess.Popen(
            [*COMMAND, "hub", "--root", "hub"],
            cwd=tmp_path,
            env=environment(tmp_path, PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found
            with urllib.request.urlopen(f"{found[0]}/api/models", timeout=30) as answer:
                assert answer.read() == b"[]"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
        assert process.returncode == 0  # it serves until interrupted: that is how it ends
        assert "Traceback" not in err


class TestPipes:
    def test_a_reader_that_leaves_is_no_error(self, model: Path, tmp_path: Path) -> None:
        done = subprocess.run(
            ["sh", "-c", f"'{sys.executable}' -m hubpublish passes | head -n 1"],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == ["pass", "what", "it", "does"]
        assert done.stderr == ""

    def test_json_is_all_there_is_on_stdout(self, model: Path, tmp_path: Path) -> None:
        done = in_a_process("inspect", model, "--json", folder=tmp_path)
        assert done.code == 0
        assert done.json["statistics"]["nodes"] == 8
        assert done.err == ""


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_behind_stdout_is_no_traceback(json: bool, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "hubpublish", "devices", *(["--json"] if json else [])]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_what_others_named_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """An escape sequence, or at the start of a line a command to the machine that runs a workflow."""
    output.note("one\x1b[31m")
    output.emit("two\x9b31m\nthree")
    output.emit_error(HubError("a\x1b]0;b", where="c\x07d", hint="e\nf"), as_json=False)
    out, err = capsys.readouterr()
    assert not {character for character in out + err if not character.isprintable()} - {"\n"}
    assert "two" in out
    assert out.endswith("three\n")
