"""Tests of files in other versions of ONNX Runtime than the installed one.

`python -m tests.onnxruntimes make FOLDER` makes an environment for each version in a folder. With
`ONNXRUNTIMES=FOLDER` the full tier runs files in these environments, and
`python -m tests.onnxruntimes table` writes the table of `docs/how-to/runtimes.md`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

VERSIONS = (
    *("1.18.1", "1.20.1", "1.22.1", "1.23.1"),
    INTEL_MAC := "1.23.2",
    DIRECTML := "1.24.4",
    *("1.26.0", "1.31.1", "1.32.0"),
)
"""The versions in which files are run: the oldest for which they are written, and later ones.

Two of them are the last with wheels for Intel Macs and the last of `onnxruntime-directml`."""

FOLDER = "ONNXRUNTIMES"

CHILD = Path(__file__).with_name("child.py")


def find_python(version: str) -> Path | None:
    """Return the interpreter of the environment with this version, or None if there is none."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder) / f"onnxruntime-{version}" / "bin" / "python"
    return path if path.exists() else None


def make_environments(folder: Path) -> None:
    """Make an environment for each version. The oldest has no wheels for Python 3.13."""
    for version in VERSIONS:
        environment = folder / f"onnxruntime-{version}"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        numpy_requirement = "numpy<2" if version < "1.19" else "numpy"
        pip = [environment / "bin" / "python", "-m", "pip", "install", "-q"]
        subprocess.run([*pip, f"onnxruntime=={version}", numpy_requirement], check=True)


def store_case(
    folder: Path,
    name: str,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float,
) -> None:
    """Store the inputs, expected outputs and tolerance of a file in its folder."""
    np.savez(folder / f"{name}.inputs.npz", *inputs)
    np.savez(folder / f"{name}.wanted.npz", *expected)
    (folder / f"{name}.json").write_text(json.dumps(tolerance))


def run_all(version: str, folder: Path) -> Mapping[str, str]:
    """Run the files of a folder in a version. Return the fault of each, or an empty text."""
    python = find_python(version)
    assert python is not None
    files, faults = sorted(folder.glob("*.onnx")), dict[str, str]()
    while len(faults) < len(files):
        remaining = files[len(faults) :]
        process = subprocess.run(
            [python, CHILD, *remaining], capture_output=True, text=True, check=False
        )
        results = [json.loads(line) for line in process.stdout.splitlines()]
        if process.returncode:
            results.append(f"the process failed: {process.stderr[-200:]}")
        faults |= zip((file.stem for file in remaining), results, strict=False)
    return faults
