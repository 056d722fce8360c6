"""Whether a program is right where ONNX Runtime takes subnormal numbers for zero, as XLA does.

Only the first session of a process can ask for that, so this runs in one of its own.
"""

import logging
import pickle
import subprocess
import sys

import jax.numpy as jnp

import converter
from converter.verify.sessions import session
from tests.fuzz.program import Program


def right_if_flushed(program: Program) -> bool:
    command = [sys.executable, "-m", "tests.fuzz.flushed"]
    done = subprocess.run(command, input=pickle.dumps(program), capture_output=True, check=False)
    return done.returncode == 0


def main() -> int:
    from tests.fuzz.judge import judge  # which imports this module

    logging.disable(logging.ERROR)
    first = converter.to_onnx(jnp.sin, [((1,), "float32")])
    session(first, settings={"session.set_denormal_as_zero": "1"})
    program = pickle.loads(sys.stdin.buffer.read())
    return 0 if judge(program, is_flushed=True).kind in ("right", "deviates") else 1


if __name__ == "__main__":
    sys.exit(main())
