"""The `zoo` command as a user runs it: a home of its own, and a hub on loopback."""

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
"""Variables that a user has, and those of the tests, by which no function is compiled twice."""


@dataclass(frozen=True)
class Command:
    """The command in a folder, which is its home and where it works."""

    folder: Path
    url: str = "http://127.0.0.1:9"

    def environment(self, **variables: str) -> dict[str, str]:
        """What it gets to see."""
        own = {key: value for key, value in os.environ.items() if key.startswith(PASSED)}
        own |= {"HOME": str(self.folder), "HF_ENDPOINT": self.url, "ZOO_HUB": "somebody"}
        return own | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables

    def start(self, *arguments: str, program: list[str] = PROGRAM, **variables: str):
        """Run it, without waiting."""
        how = {"cwd": self.folder, "env": self.environment(**variables), "text": True}
        pipe = subprocess.PIPE
        return subprocess.Popen([*program, *arguments], stdout=pipe, stderr=pipe, **how)

    def __call__(self, *arguments: str, code: int = 0, **variables: str) -> str:
        """What it prints: on stdout, or the one sentence of an error."""
        process = self.start(*arguments, **variables)
        out, err = process.communicate(timeout=300)
        assert process.returncode == code, err
        assert "Traceback" not in err
        if not code:
            return out
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, err
        return errors[0]
