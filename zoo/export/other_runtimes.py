"""Which versions of ONNX Runtime a file was run in: that of this installation, and others.

`ZOO_ONNXRUNTIMES` names a folder of Python environments, each with some version of it.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from converter.errors import CheckError
from converter.model.verdict import compare
from converter.opsets import is_older
from zoo.common import runtime
from zoo.common.processes import run_program
from zoo.export.precisions import Limit
from zoo.export.verify import Sample, compared

ENVIRONMENTS = "ZOO_ONNXRUNTIMES"

RUNTIME_PROGRAM = Path(__file__).with_name("run_elsewhere.py")

INTERPRETERS = ("bin/python", "Scripts/python.exe")


def minimum_runtime(file: Path, sample: Sample, limit: Limit) -> str:
    """The oldest version that a file was run in with errors within a limit.

    In this installation it was, so that its version is given where no older one is.
    """
    oldest = runtime.RELEASE
    for version, python in other_runtimes(os.environ.get(ENVIRONMENTS, "")).items():
        if is_older(version, oldest) and _is_right(file, sample, limit, python):
            oldest = version
    return oldest


@cache
def other_runtimes(folder: str) -> Mapping[str, Path]:
    """Interpreters by the version of ONNX Runtime that they have, of a folder of environments."""
    pythons = {}
    for environment in sorted(Path(folder).iterdir()) if folder else ():
        for python in (environment / name for name in INTERPRETERS):
            if python.exists():
                done = run_program([str(python), "-P", str(RUNTIME_PROGRAM)], environment)
                if done.returncode == 0:
                    pythons[done.stdout.strip()] = python
    return pythons


def _is_right(file: Path, sample: Sample, limit: Limit, python: Path) -> bool:
    """Whether one run gives what JAX does."""
    with TemporaryDirectory() as scratch:
        inputs, outputs = (Path(scratch, f"{name}.npz") for name in ("inputs", "outputs"))
        arrays: dict[str, Any] = {name: np.asarray(array) for name, array in sample.fed.items()}
        np.savez(inputs, **arrays)
        names = [str(path) for path in (file.absolute(), inputs, outputs)]
        done = run_program([str(python), "-P", str(RUNTIME_PROGRAM), *names], Path(scratch))
        if done.returncode:
            return False
        with np.load(outputs) as results:
            got: dict[str, Any] = dict(results)
    expected = jax.tree.leaves(sample.outputs)
    try:
        errors = [
            compared(sample.sides, name, compare(array, np.asarray(right)))
            for (name, array), right in zip(got.items(), expected, strict=True)
        ]
    except CheckError:
        return False
    return all(map(limit.holds, errors))
