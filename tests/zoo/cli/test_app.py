"""The whole vocabulary: every command's help, completion, and what loading it costs."""

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


def test_bare_zoo_is_its_help(zoo):
    bare, asked = zoo(), zoo("--help")
    assert bare == asked
    assert bare.err == ""
    assert list(ROOT.commands) == ORDER
    places = [bare.out.index(f"│ {name} ") for name in ORDER]
    assert places == sorted(places)
    assert zoo("weights").out == zoo("weights", "--help").out
    assert zoo("--version").out == f"{package.__version__}\n"


def failing(error):
    found = typer.Typer()

    @found.command()
    def fail() -> None:
        raise error

    return found


FULL = "the memory of this machine"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), FULL),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), FULL),
        (RuntimeException("Exception during initialization: std::bad_alloc"), FULL),
        (PermissionError(errno.EACCES, "Permission denied", "a\nb"), r"a\nb cannot be used"),
        (OSError(errno.EROFS, "Read-only file system"), "command (Read-only file system)"),
    ],
    ids=["python", "xla", "onnxruntime", "a file", "shared memory"],
)
def test_what_the_system_refuses_is_one_sentence(error, words, capfd):
    assert run_command(failing(error), []) == 2
    told = capfd.readouterr()
    assert told.out == "" and told.err.startswith("error: ")
    assert told.err.count("\n") == 1 and words in told.err


def test_too_few_addresses_are_one_sentence(monkeypatch, capfd):
    """XLA would end the process without a word."""
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (700_000_000, 700_000_000))
    assert run_command(app, ["info", "vit_digits"]) == 2
    assert "may use 700 MB of addresses" in capfd.readouterr().err


def test_a_current_folder_that_is_gone_is_one_sentence(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert run_command(app, ["info", "vit_digits"]) == 2
    assert (
        capfd.readouterr().err
        == "error: the current folder was removed: change to another folder.\n"
    )


def test_mistakes_of_ours_keep_their_traceback():
    with pytest.raises(RuntimeError, match="something else"):
        run_command(failing(RuntimeError("something else")), [])


def test_commands_turn_telemetry_off(monkeypatch):
    """A program that only imports the packages decides for itself."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setattr(sys, "argv", ["zoo", "--version"])
    with pytest.raises(SystemExit):
        run_command_line(lambda arguments, **_: 0)
    assert os.environ.pop("ORT_DISABLE_TELEMETRY") == "1"
    program = "import os, zoo, converter; assert 'ORT_DISABLE_TELEMETRY' not in os.environ"
    subprocess.run([sys.executable, "-c", program], check=True)


AT_ONCE = {"onnxruntime", "torch", "huggingface_hub", "jax", "onnx_ir", "httpx2"}
CALL = "from zoo.cli.app import app; from zoo.cli.console import run_command"
READ = "import converter, zoo.cli.export_command, zoo.export.run"


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import zoo.cli; zoo.info('dinov3_vits16')", AT_ONCE | {"pydantic"}),
        (
            "from zoo.cli.command_options import complete; complete('dinov3_vits')",
            AT_ONCE | {"pydantic"},
        ),
        # Typer itself reads values with pydantic.
        (f"{CALL}; run_command(app, ['list'])", AT_ONCE),
        # A request is read before JAX is imported, so that a thread hashes the checkpoint then.
        (f"{READ}; converter.OPSETS", {"jax", "onnx_ir"}),
    ],
    ids=["names", "completion", "list", "a request"],
)
def test_what_answers_at_once_loads_nothing_heavy(statement, heavy, tmp_path):
    check = f"import zoo; {statement}; import sys; assert not set(sys.modules) & {heavy!r}"
    Command(tmp_path)(program=[sys.executable, "-c", check])


COMPLETED = {
    "COMP_WORDS": "zoo build vit_digits dinov3_vits",
    "COMP_CWORD": "3",
    "_ZOO_COMPLETE": "complete_bash",
}
SCRIPT = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}


@pytest.mark.parametrize(
    ("program", "asked", "variables", "told"),
    [
        (PROGRAM, (), COMPLETED, "dinov3_vits16\ndinov3_vits16plus"),
        pytest.param(
            *([sys.executable, "-m", "zoo"], (), COMPLETED, "dinov3_vits16\ndinov3_vits16plus"),
            marks=pytest.mark.full,
        ),
        (PROGRAM, ("--show-completion", "bash"), SCRIPT, "complete -o default -F _zoo_completion"),
        ([sys.executable, "-m", "zoo.export"], ("--help",), {}, "[MODEL]..."),
    ],
    ids=["models", "models of the module", "the script for a shell", "the module of exports"],
)
def test_programs(program, asked, variables, told, tmp_path):
    assert told in Command(tmp_path)(*asked, program=program, **variables)
    assert list(tmp_path.iterdir()) == []
