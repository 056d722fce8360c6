"""Judge a program with subnormal numbers flushed to zero in ONNX Runtime, as XLA does.

Only the first session of a process can enable this, so a program is judged in a process of its own.
"""

import logging
import pickle
import subprocess
import sys

import jax.numpy as jnp

import converter
from converter.verify.sessions import session
from tests.forms.program import Program


def right_if_flushed(program: Program) -> bool:
    """Return whether the file is right, or deviates as its report says, if subnormal numbers are
    flushed to zero."""
    command = [sys.executable, "-m", "tests.fuzz.flushed"]
    process = subprocess.run(command, input=pickle.dumps(program), capture_output=True, check=False)
    return process.returncode == 0


def main() -> int:
    """Judge the pickled program on stdin. Return 0 if its file is right or deviates as reported,
    otherwise 1."""
    from tests.fuzz.judge import judge  # which imports this module

    logging.disable(logging.ERROR)
    export = converter.to_onnx(jnp.sin, [((1,), "float32")])
    session(export, settings={"session.set_denormal_as_zero": "1"})
    program = pickle.loads(sys.stdin.buffer.read())
    return 0 if judge(program, is_flushed=True).kind in ("right", "deviates") else 1


if __name__ == "__main__":
    sys.exit(main())
