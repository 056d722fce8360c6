"""Environments with the programs that run exported files: Node.js packages, Optimum, torchvision.

An environment is a folder below `$ZOO_CACHE` or the user's cache folder. It is made once for its
lock file or requirements, from the caches of npm and pip if possible, and is kept.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

HERE = Path(__file__).parent
READY = "ready"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

NO_NETWORK = re.compile(
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT"
    "|Failed to establish a new connection|Failed to resolve|NameResolutionError"
    "|Temporary failure in name resolution|Network is unreachable|Connection refused|timed out"
)
"""Messages of npm and pip without a network."""


def node() -> Path:
    """Return a folder with the `node_modules` of the lock file. Skip the test without Node.js."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing: transformers.js and onnxruntime-web need Node.js")
    names = ("package.json", "package-lock.json", ".npmrc")

    def make(folder: Path) -> None:
        for name in names:
            shutil.copyfile(HERE / name, folder / name)
        # Scripts of packages are not run: onnxruntime-node would download libraries for CUDA.
        retry_options = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
        options = (
            "--ignore-scripts",
            "--prefer-offline",
            "--no-audit",
            "--no-fund",
            *retry_options,
        )
        install(["npm", "ci", *options], folder)

    return environment("node", [HERE / name for name in names], make)


def optimum() -> Path:
    """Return the Python of an environment with Optimum, which needs an older transformers."""
    requirements = HERE / "optimum.txt"

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        pip = [*PIP, "--python", str(folder / "bin" / "python"), "install", "-q", "--no-compile"]
        install([*pip, "-r", str(requirements)], folder)

    return environment("optimum", [requirements], make) / "bin" / "python"


def torchvision() -> Path:
    """Return a folder with torchvision for `PYTHONPATH`.

    Skip the test if the installed torch is not the version for which torchvision was released.
    """
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"torchvision 0.28 is for torch 2.13, installed is {torch.__version__}")
    requirements = HERE / "torchvision.txt"

    def make(folder: Path) -> None:
        pip = [*PIP, "install", "-q", "--no-deps", "--no-compile", "--target", str(folder)]
        install([*pip, "-r", str(requirements)], folder)

    return environment("torchvision", [requirements], make)


def environment(name: str, requirement_files: list[Path], make: Callable[[Path], None]) -> Path:
    """Return the folder of an environment, filled by `make` on first use.

    It depends on the content of `requirement_files` and on the version of Python.
    """
    digest = hashlib.sha256(f"{sys.version} {sys.platform}".encode())
    for file in requirement_files:
        digest.update(file.read_bytes())
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("ZOO_CACHE") or Path(user_cache) / "jax-onnx-zoo")
    folder = cache / "clients" / f"{name}-{digest.hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / READY).touch()
    return folder


def install(command: list[str], folder: Path) -> None:
    """Run npm or pip in a folder. Skip the test without a network, and fail at other errors."""
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if process.returncode and (reason := NO_NETWORK.search(process.stdout + process.stderr)):
        pytest.skip(f"no network to install {folder.name} with ({reason[0]})")
    assert not process.returncode, f"{' '.join(command)}\n{process.stdout}\n{process.stderr}"
