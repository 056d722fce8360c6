"""The whole vocabulary: every command's help, completion, and what loading it costs."""

import subprocess
import sys

import pytest
import typer
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

import zoo as package
from tests.command import PROGRAM, Command
from zoo.cli.app import app
from zoo.cli.console import call

HEAVY = ("jax", "onnxruntime", "torch", "huggingface_hub", "onnx_ir", "converter", "httpx2")
ORDER = ["list", "info", "export", "verify", "show", "bench", "pull", "build", "site", "push"]
ORDER += ["report", "weights", "cache", "golden"]
ROOT = typer.main.get_command(app)


def commands(group=ROOT, path=()):
    """Every command that does something, by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())
NO_DETECTION = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}


def test_bare_zoo_is_its_help(zoo):
    bare, asked = zoo(), zoo("--help")
    assert bare == asked
    assert bare.err == ""
    assert list(ROOT.commands) == ORDER
    places = [bare.out.index(f"│ {name} ") for name in ORDER]
    assert places == sorted(places)
    for group in ("weights", "cache", "golden"):
        assert zoo(group).out == zoo(group, "--help").out


def test_version(zoo):
    assert zoo("--version").out == f"{package.__version__}\n"


def failing(error):
    found = typer.Typer()

    @found.command()
    def fail() -> None:
        raise error

    return found


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"),
        RuntimeException("Exception during initialization: std::bad_alloc"),
    ],
    ids=["python", "xla", "onnxruntime"],
)
def test_no_memory_is_one_sentence(error, capfd):
    assert call(failing(error), []) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: the memory of this machine")
    assert told.err.count("\n") == 1


def test_mistakes_of_ours_keep_their_traceback():
    with pytest.raises(RuntimeError, match="something else"):
        call(failing(RuntimeError("something else")), [])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_whole_sentences_with_an_example(words, zoo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = zoo(*words, "--help").out
    command = COMMANDS[words]
    assert command.help.split("\n\n")[0].endswith(".")
    assert f"zoo {' '.join(words)}" in command.epilog
    assert command.epilog.splitlines()[0] in ("Example:", "Examples:")
    assert max(map(len, told.splitlines())) <= 80
    assert "…" not in told
    for param in command.params:
        if param.name != "help":
            assert param.help and param.help.endswith("."), param.name
            assert param.help[0].isupper() or param.name in ("attention_layout", "input")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_more_than_eight_options_are_grouped(words):
    options = [each for each in COMMANDS[words].params if each.param_type_name == "option"]
    ungrouped = [each for each in options if each.rich_help_panel is None]
    assert len(ungrouped) <= 8


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_speaks_json(words):
    assert "json" in {param.name for param in COMMANDS[words].params}


def test_an_option_is_called_the_same_and_means_the_same():
    """What a text begins with; what follows may be about the command.

    `--out` names a folder, but for what writes one file.
    """
    texts: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for param in command.params:
            is_file = (param.name, param.metavar) == ("out", "FILE")
            if param.param_type_name == "option" and param.name not in ("batch", "size"):
                texts.setdefault("out FILE" if is_file else param.name, set()).add(param.help)
    assert {"out", "json", "weights", "offline", "dry_run", "revision", "variant"} <= set(texts)
    differing = {name: found for name, found in texts.items() if len(found) > 1}
    assert set(differing) == {"out"}
    for found in differing.values():
        shortest = min(found, key=len).rstrip(".")
        assert all(text.startswith(shortest) for text in found)
    assert "dest" not in texts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("exprt",), "Did you mean 'export'"),
        (("--frobnicate",), "--frobnicate"),
        (("export", "--offlin"), "--offline"),
        (("export", "--attention-layout", "5d"), "'5d' is not one of '4d', '3d'."),
        (("export", "vit_digits", "--opset"), "requires an argument"),
        (("build", "vit_digits", "--jobs", "x"), "--jobs"),
        (("build", "vit_digits", "--jobs", "0"), "--jobs"),
        (("build", "vit_digits", "--variant", "fp32,fp8"), "--variant fp8"),
        (("build", "vit_digit"), "did you mean vit_digits"),
        (("pull",), "MODEL"),
        (("info", "dinov3_vits61"), "did you mean dinov3_vits16"),
        (("verify", "nothing.onnx"), "does not exist"),
    ],
)
def test_a_typing_mistake_is_one_sentence(arguments, words, zoo):
    said = zoo(*arguments, code=2)
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert said.err.rstrip().endswith((".", "?"))
    assert words in said.err


@pytest.mark.parametrize("code", ["import zoo", "import zoo.cli", "LIST", "COMPLETE"])
def test_what_answers_at_once_loads_nothing_heavy(code, tmp_path):
    """Typer itself reads values with pydantic, so only imports are without it."""
    run = "from zoo.cli.app import app; from zoo.cli.console import call; call(app, ['list'])"
    complete = "from zoo.cli.options import complete; assert len(complete('dinov3_vits')) == 2"
    statement = {"LIST": run, "COMPLETE": complete}.get(code, code)
    heavy = HEAVY + (() if code == "LIST" else ("pydantic",))
    check = f"{statement}; import sys; assert not set(sys.modules) & set({heavy!r})"
    command = Command(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", check], env=command.environment(), cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_request_is_read_before_jax_is_imported():
    """So that the checkpoint is hashed by a thread while that goes on."""
    statement = "import converter, zoo.cli.export, zoo.export.run; converter.OPSETS"
    check = f"{statement}; import sys; assert not set(sys.modules) & {{'jax', 'onnx_ir'}}"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("program", [PROGRAM, [sys.executable, "-m", "zoo"]], ids=["zoo", "-m"])
@pytest.mark.parametrize("words", ["zoo info dinov3_vits", "zoo build vit_digits dinov3_vits"])
def test_shells_complete_models(program, words, tmp_path):
    variables = {"_ZOO_COMPLETE": "complete_bash", "COMP_WORDS": words}
    variables["COMP_CWORD"] = str(len(words.split()) - 1)
    done = Command(tmp_path).start(program=program, **variables)
    out, err = done.communicate(timeout=60)
    assert out.split() == ["dinov3_vits16", "dinov3_vits16plus"], err


def test_the_script_for_a_shell(tmp_path):
    process = Command(tmp_path).start("--show-completion", "bash", **NO_DETECTION)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "complete -o default -F _zoo_completion zoo" in out


def test_the_module_is_the_command(tmp_path):
    process = Command(tmp_path).start("--help", program=[sys.executable, "-m", "zoo.export"])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "[MODEL]..." in out
    assert list(tmp_path.iterdir()) == []
