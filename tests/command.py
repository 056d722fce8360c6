"""Run the `zoo` command in a process, as a user does: in its own home folder, with a hub on
loopback."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAM = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'zoo'; from zoo.cli import main; main()",
]

PASSED = ("PATH", "LANG", "JAX_", "XLA_FLAGS", "PYTHONWARNINGS")
"""Prefixes of the environment variables that the command inherits: those of a user's shell, and
those of the tests, with which no function is compiled twice."""


@dataclass(frozen=True)
class Command:
    """The `zoo` command in a folder, which is its home and its working directory. `url` is the
    address of its hub; nothing listens at the default one."""

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
