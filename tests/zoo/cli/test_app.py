"""The app: help, shell completion, errors of the system, and modules that commands import."""

import errno
import os
import resource
import subprocess
import sys

import pytest
import typer
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

import zoo as package
from tests.command import PROGRAM, Command
from zoo.cli.app import app
from zoo.cli.console import run_command, run_command_line

ORDER = ["list", "info", "export", "verify", "golden", "show", "run", "bench", "pull", "build"]
ORDER += ["embed", "search", "site", "push", "weights"]
ROOT = typer.main.get_command(app)


def test_zoo_without_arguments_prints_its_help(zoo):
    bare, requested = zoo(), zoo("--help")
    assert bare == requested
    assert bare.err == ""
    assert list(ROOT.commands) == ORDER
    positions = [bare.out.index(f"│ {name} ") for name in ORDER]
    assert positions == sorted(positions)
    assert zoo("weights").out == zoo("weights", "--help").out
    assert zoo("--version").out == f"{package.__version__}\n"


def app_that_raises(error):
    """Return an app whose only command raises an error."""
    failing_app = typer.Typer()

    @failing_app.command()
    def fail() -> None:
        raise error

    return failing_app


OUT_OF_MEMORY = "the memory of this machine"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), OUT_OF_MEMORY),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), OUT_OF_MEMORY),
        (RuntimeException("Exception during initialization: std::bad_alloc"), OUT_OF_MEMORY),
        (PermissionError(errno.EACCES, "Permission denied", "a\nb"), r"a\nb cannot be used"),
        (OSError(errno.EROFS, "Read-only file system"), "command (Read-only file system)"),
    ],
    ids=["python", "xla", "onnxruntime", "a file", "shared memory"],
)
def test_errors_of_the_system_are_one_sentence(error, words, capfd):
    assert run_command(app_that_raises(error), []) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1 and words in printed.err


def test_too_few_addresses_are_one_sentence(monkeypatch, capfd):
    """Without this check, XLA ends the process without a message."""
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (700_000_000, 700_000_000))
    assert run_command(app, ["info", "vit_digits"]) == 2
    assert "may use 700 MB of addresses" in capfd.readouterr().err


def test_a_removed_current_folder_is_one_sentence(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert run_command(app, ["info", "vit_digits"]) == 2
    assert (
        capfd.readouterr().err
        == "error: the current folder was removed: change to another folder.\n"
    )


def test_faults_of_the_package_keep_their_traceback():
    with pytest.raises(RuntimeError, match="something else"):
        run_command(app_that_raises(RuntimeError("something else")), [])


def test_commands_turn_telemetry_off(monkeypatch):
    """A program that imports the packages keeps its own setting."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setattr(sys, "argv", ["zoo", "--version"])
    with pytest.raises(SystemExit):
        run_command_line(lambda arguments, **_: 0)
    assert os.environ.pop("ORT_DISABLE_TELEMETRY") == "1"
    program = "import os, zoo, converter; assert 'ORT_DISABLE_TELEMETRY' not in os.environ"
    subprocess.run([sys.executable, "-c", program], check=True)


HEAVY_MODULES = {"onnxruntime", "torch", "huggingface_hub", "jax", "onnx_ir", "httpx2"}
IMPORT_COMMAND = "from zoo.cli.app import app; from zoo.cli.console import run_command"
IMPORT_EXPORT = "import converter, zoo.cli.export_command, zoo.export.run"


@pytest.mark.parametrize(
    ("statement", "excluded"),
    [
        ("import zoo.cli; zoo.info('dinov3_vits16')", HEAVY_MODULES | {"pydantic"}),
        (
            "from zoo.cli.command_options import complete; complete('dinov3_vits')",
            HEAVY_MODULES | {"pydantic"},
        ),
        # Typer itself reads values with pydantic.
        (f"{IMPORT_COMMAND}; run_command(app, ['list'])", HEAVY_MODULES),
        # A request is read before JAX is imported, so that a thread hashes the checkpoint then.
        (f"{IMPORT_EXPORT}; converter.OPSETS", {"jax", "onnx_ir"}),
    ],
    ids=["names", "completion", "list", "a request"],
)
def test_quick_commands_import_no_heavy_modules(statement, excluded, tmp_path):
    check = f"import zoo; {statement}; import sys; assert not set(sys.modules) & {excluded!r}"
    Command(tmp_path)(program=[sys.executable, "-c", check])


COMPLETION_REQUEST = {
    "COMP_WORDS": "zoo build vit_digits dinov3_vits",
    "COMP_CWORD": "3",
    "_ZOO_COMPLETE": "complete_bash",
}
SCRIPT = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}


@pytest.mark.parametrize(
    ("program", "arguments", "variables", "expected"),
    [
        (PROGRAM, (), COMPLETION_REQUEST, "dinov3_vits16\ndinov3_vits16plus"),
        pytest.param(
            *(
                [sys.executable, "-m", "zoo"],
                (),
                COMPLETION_REQUEST,
                "dinov3_vits16\ndinov3_vits16plus",
            ),
            marks=pytest.mark.full,
        ),
        (PROGRAM, ("--show-completion", "bash"), SCRIPT, "complete -o default -F _zoo_completion"),
        ([sys.executable, "-m", "zoo.export"], ("--help",), {}, "[MODEL]..."),
    ],
    ids=["models", "models of the module", "the script for a shell", "the module of exports"],
)
def test_programs(program, arguments, variables, expected, tmp_path):
    assert expected in Command(tmp_path)(*arguments, program=program, **variables)
    assert list(tmp_path.iterdir()) == []
