"""Run the `zoo` command: in this process, or in its own process and home folder as a user does."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from zoo.cli.app import app
from zoo.cli.console import run_command

PROGRAM = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'zoo'; from zoo.cli import main; main()",
]

PASSED = ("PATH", "LANG", "JAX_", "XLA_FLAGS", "PYTHONWARNINGS")
"""Prefixes of the environment variables that the command inherits: those of a user's shell, and
those of the tests, with which no function is compiled twice."""


def call_zoo(*words: object) -> int:
    """Run the `zoo` command in this process. Return its exit code."""
    return run_command(app, [str(word) for word in words], "zoo")


@dataclass(frozen=True)
class Command:
    """The `zoo` command in its own process and a folder, its home and working directory. `url` is
    the address of its hub; nothing listens at the default one."""

    folder: Path
    url: str = "http://127.0.0.1:9"

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the command's environment variables, with `variables` added."""
        environment = {key: value for key, value in os.environ.items() if key.startswith(PASSED)}
        environment |= {"HOME": str(self.folder), "HF_ENDPOINT": self.url, "ZOO_HUB": "somebody"}
        return environment | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables

    def start(self, *arguments: str, program: list[str] = PROGRAM, **variables: str):
        """Start the command, or `program` in its place, without waiting for it."""
        options = {"cwd": self.folder, "env": self.environment(**variables), "text": True}
        pipe = subprocess.PIPE
        return subprocess.Popen([*program, *arguments], stdout=pipe, stderr=pipe, **options)

    def __call__(self, *arguments: str, code: int = 0, **variables: str) -> str:
        """Run the command and check its exit code. Return what it printed on stdout if `code` is 0,
        otherwise its one line that starts with `error: `."""
        process = self.start(*arguments, **variables)
        out, err = process.communicate(timeout=300)
        assert process.returncode == code, err
        assert "Traceback" not in err
        if not code:
            return out
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, err
        return errors[0]
