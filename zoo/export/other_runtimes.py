"""Find the oldest installed version of ONNX Runtime in which a file is right.

The environment variable `ZOO_ONNXRUNTIMES` names a folder of Python environments, each with another
version of ONNX Runtime.
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
from zoo.export.verify import Sample, to_comparison

ENVIRONMENTS = "ZOO_ONNXRUNTIMES"
"""Environment variable with the folder of Python environments."""

RUNTIME_PROGRAM = Path(__file__).with_name("run_elsewhere.py")
"""Program that runs a file once in another environment."""

INTERPRETERS = ("bin/python", "Scripts/python.exe")
"""Paths of the Python interpreter inside an environment, on Linux and on Windows."""


def find_minimum_runtime(file: Path, sample: Sample, limit: Limit) -> str:
    """Return the oldest version of ONNX Runtime in which the outputs of a file are within a limit.

    The versions of the environments in `ZOO_ONNXRUNTIMES` are tried on one sample. A version
    between the result and this process's may fail. The caller has verified the file in this
    process's version, which is returned if no older version passes.
    """
    oldest = runtime.RELEASE
    for version, python in find_runtimes(os.environ.get(ENVIRONMENTS, "")).items():
        if is_older(version, oldest) and _is_right(file, sample, limit, python):
            oldest = version
    return oldest


@cache
def find_runtimes(folder: str) -> Mapping[str, Path]:
    """Return the Python interpreters of the environments in a folder, by their version of ONNX
    Runtime.

    Environments without ONNX Runtime are left out. The result is empty for an empty folder name.
    """
    pythons = {}
    for environment in sorted(Path(folder).iterdir()) if folder else ():
        for python in (environment / name for name in INTERPRETERS):
            if python.exists():
                result = run_program([str(python), "-P", str(RUNTIME_PROGRAM)], environment)
                if result.returncode == 0:
                    pythons[result.stdout.strip()] = python
    return pythons


def _is_right(file: Path, sample: Sample, limit: Limit, python: Path) -> bool:
    """Run a file once with the ONNX Runtime of another Python interpreter. Return whether all
    outputs are within the limit.

    False also if the run fails or an output has another shape.
    """
    with TemporaryDirectory() as scratch:
        inputs, outputs = (Path(scratch, f"{name}.npz") for name in ("inputs", "outputs"))
        arrays: dict[str, Any] = {name: np.asarray(array) for name, array in sample.feeds.items()}
        np.savez(inputs, **arrays)
        names = [str(path) for path in (file.absolute(), inputs, outputs)]
        process = run_program([str(python), "-P", str(RUNTIME_PROGRAM), *names], Path(scratch))
        if process.returncode:
            return False
        with np.load(outputs) as results:
            outputs_by_name: dict[str, Any] = dict(results)
    expected = jax.tree.leaves(sample.outputs)
    try:
        errors = [
            to_comparison(sample.named_sizes, name, compare(array, np.asarray(expected_output)))
            for (name, array), expected_output in zip(
                outputs_by_name.items(), expected, strict=True
            )
        ]
    except CheckError:
        return False
    return all(map(limit.allows, errors))
