"""`.ci/run` changes no files of a developer, and its output names the tests that it could not run.
Programs that it calls are replaced by a stub."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

STUB = """#!/bin/sh
# Stands in for Python and all that it installs.
case "$*" in
  "-m venv "*)
    mkdir -p "$3/bin"
    for name in python pip ruff mypy lint-imports; do cp "$0" "$3/bin/$name"; done ;;
  "-m zoo.export") touch vit_digits-opset23.onnx dinov3_vits16-opset23.onnx ;;
esac
"""

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and (ROOT / ".ci" / "run").exists()),
    reason="git or .ci/run is missing",
)


@pytest.fixture
def checkout(tmp_path):
    """A repository with the files that `.ci/run` reads, in which a developer has an environment."""
    for name in (".ci/run", "README.md", "tests/newest.txt"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    for name in ("python3", "apt-get", "sudo", "chromium-headless-shell"):
        _program(tmp_path / "bin" / name, STUB)
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]
    for arguments in (["init", "-q"], ["add", "."], commit):
        subprocess.run(["git", *arguments], cwd=tmp_path / "tree", check=True)
    (tmp_path / "tree" / ".venv").mkdir()
    (tmp_path / "tree" / ".venv" / "mine").touch()
    return tmp_path / "tree"


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(("newest", "is_reported"), [("exit 1", True), ("", False)])
def test_ci_keeps_a_developers_environment(newest, is_reported, checkout):
    programs = checkout.parent / "bin"
    _program(programs / "python3.13", STUB + newest)
    variables = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYENV_ROOT": str(programs)}
    process = subprocess.run(
        [".ci/run"], cwd=checkout, env=os.environ | variables, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    last_line = process.stdout.splitlines()[-1]
    assert last_line.startswith("::warning::NOT TESTED: the newest JAX") == is_reported
    assert os.listdir(checkout / ".venv") == ["mine"]
    assert sorted(os.listdir(checkout)) == [".ci", ".git", ".venv", "README.md", "tests"]
