"""Python files in the current folder that have the names of our packages and so shadow them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Command

ROOT = Path(__file__).parents[2]
FAILING_MODULE = "raise RuntimeError('a module of the current folder was run')\n"


def write_modules(folder, *names):
    """Write modules that fail when they are imported."""
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(FAILING_MODULE)


@pytest.mark.parametrize("name", ["converter.py", "converter/__init__.py", "weights/__init__.py"])
def test_errors_name_the_file_that_shadows_a_package(name, tmp_path):
    """`python -m` ends with exit code 2. In a script, `import` raises an ImportError."""
    write_modules(tmp_path, name)
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    for program in (["-m", "zoo", "list"], ["-m", "zoo.export"], ["-c", "import zoo"]):
        command = [sys.executable, *program]
        process = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        *earlier_lines, last = process.stderr.splitlines()
        assert f"{tmp_path / name} is in the way" in last
        if "-m" in program:
            assert (process.returncode, earlier_lines, process.stdout) == (2, [], "")
            assert last.startswith("error: ")
        else:
            assert last.startswith("ImportError: ")


@pytest.mark.full
def test_the_command_runs_beside_modules_with_our_names(tmp_path):
    """The script `zoo` lies in another folder, so that Python searches there first. The export
    starts further Python processes."""
    write_modules(tmp_path, "converter.py", "weights/__init__.py", "zoo.py")
    script = tmp_path / "bin" / "zoo"
    script.parent.mkdir()
    script.write_text("import sys\nfrom zoo.cli import main\nsys.exit(main())\n")
    command = Command(tmp_path)
    program = [sys.executable, str(script)]
    process = command.start("export", "vit_digits", program=program, PYTHONPATH=str(ROOT))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (tmp_path / "vit_digits-opset23.onnx").is_file(), out


def test_a_folder_without_modules_shadows_no_package(tmp_path):
    """A folder `weights/` with checkpoints is no package, so Python imports ours."""
    (tmp_path / "weights").mkdir()
    command = [sys.executable, "-m", "zoo", "--version"]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
