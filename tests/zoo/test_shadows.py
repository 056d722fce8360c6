"""Files of a user's folder that are called as our packages are."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Command

ROOT = Path(__file__).parents[2]
THEIRS = "raise RuntimeError('a module of the current folder was run')\n"


def put(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(THEIRS)


@pytest.mark.parametrize("name", ["converter.py", "converter/__init__.py", "weights/__init__.py"])
def test_a_program_names_the_file_that_is_in_the_way(name, tmp_path):
    """What `python -m` starts leaves with 2; a script gets an error, which it may catch."""
    put(tmp_path, name)
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    for program in (["-m", "zoo", "list"], ["-m", "zoo.export"], ["-c", "import zoo"]):
        command = [sys.executable, *program]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        *before, last = done.stderr.splitlines()
        assert f"{tmp_path / name} is in the way" in last
        if "-m" in program:
            assert (done.returncode, before, done.stdout) == (2, [], "")
            assert last.startswith("error: ")
        else:
            assert last.startswith("ImportError: ")


@pytest.mark.full
def test_the_command_runs_beside_all_of_them(tmp_path):
    """The script `zoo`, which is in a folder of its own; it starts processes of Python."""
    put(tmp_path, "converter.py", "weights/__init__.py", "zoo.py")
    script = tmp_path / "bin" / "zoo"
    script.parent.mkdir()
    script.write_text("import sys\nfrom zoo.cli import main\nsys.exit(main())\n")
    command = Command(tmp_path)
    program = [sys.executable, str(script)]
    process = command.start("export", "vit_digits", program=program, PYTHONPATH=str(ROOT))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (tmp_path / "vit_digits-opset23.onnx").is_file(), out


def test_a_folder_of_files_is_not_in_the_way(tmp_path):
    """`weights/` with checkpoints in it is no package, so ours is found."""
    (tmp_path / "weights").mkdir()
    command = [sys.executable, "-m", "zoo", "--version"]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
