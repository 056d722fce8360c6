"""Files in other versions of ONNX Runtime than the one that is installed here.

`python -m tests.onnxruntimes make FOLDER` makes an environment for each version in a folder. With
`ONNXRUNTIMES=FOLDER` the full tier runs files in those that it holds, and
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
"""Those that files are run in: the oldest they are written for, and what came after it, among it
the last that has wheels for Intel Macs and the last of `onnxruntime-directml`."""

FOLDER = "ONNXRUNTIMES"

CHILD = Path(__file__).with_name("child.py")


def python_of(version: str) -> Path | None:
    """The interpreter of an environment with this version, if there is one."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder) / f"onnxruntime-{version}" / "bin" / "python"
    return path if path.exists() else None


def make(folder: Path) -> None:
    """An environment for each version. The oldest has no wheels for Python 3.13."""
    for version in VERSIONS:
        place = folder / f"onnxruntime-{version}"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        numpy = "numpy<2" if version < "1.19" else "numpy"
        pip = [place / "bin" / "python", "-m", "pip", "install", "-q"]
        subprocess.run([*pip, f"onnxruntime=={version}", numpy], check=True)


def keep(
    folder: Path,
    name: str,
    inputs: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    tolerance: float,
) -> None:
    """Store what a file gets and what it has to give beside it."""
    np.savez(folder / f"{name}.inputs.npz", *inputs)
    np.savez(folder / f"{name}.wanted.npz", *wanted)
    (folder / f"{name}.json").write_text(json.dumps(tolerance))


def run_all(version: str, folder: Path) -> Mapping[str, str]:
    """By file of a folder what is wrong with it in a version; nothing where it is right."""
    python = python_of(version)
    assert python is not None
    files, found = sorted(folder.glob("*.onnx")), dict[str, str]()
    while len(found) < len(files):
        left = files[len(found) :]
        done = subprocess.run([python, CHILD, *left], capture_output=True, text=True, check=False)
        texts = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode:
            texts.append(f"the process ends: {done.stderr[-200:]}")
        found |= zip((file.stem for file in left), texts, strict=False)
    return found
