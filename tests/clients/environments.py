"""What people run our files with, installed where nothing else is touched.

An environment is a folder below `$ZOO_CACHE` or the user's cache folder. It is made once for what
its lock file or requirements say, from npm's and pip's own caches where they have it, and stays.
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
"""How npm and pip say that they reach nothing."""


def node() -> Path:
    """A folder whose `node_modules` are those of the lock file. Skips where Node is missing."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing: transformers.js and onnxruntime-web need Node.js")
    names = ("package.json", "package-lock.json", ".npmrc")

    def make(folder: Path) -> None:
        for name in names:
            shutil.copyfile(HERE / name, folder / name)
        # No script of a package is run: onnxruntime-node would fetch libraries for CUDA.
        patience = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
        options = ("--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", *patience)
        install(["npm", "ci", *options], folder)

    return environment("node", [HERE / name for name in names], make)


def optimum() -> Path:
    """The Python of an environment with Optimum, which wants an older transformers than we."""
    requirements = HERE / "optimum.txt"

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        pip = [*PIP, "--python", str(folder / "bin" / "python"), "install", "-q", "--no-compile"]
        install([*pip, "-r", str(requirements)], folder)

    return environment("optimum", [requirements], make) / "bin" / "python"


def torchvision() -> Path:
    """A folder for `PYTHONPATH`. Skips beside another torch than that release is for."""
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"torchvision 0.28 is for torch 2.13, here is {torch.__version__}")
    requirements = HERE / "torchvision.txt"

    def make(folder: Path) -> None:
        pip = [*PIP, "install", "-q", "--no-deps", "--no-compile", "--target", str(folder)]
        install([*pip, "-r", str(requirements)], folder)

    return environment("torchvision", [requirements], make)


def environment(name: str, asked: list[Path], make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, unless somebody did so for the same files and Python."""
    digest = hashlib.sha256(f"{sys.version} {sys.platform}".encode())
    for file in asked:
        digest.update(file.read_bytes())
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = Path(os.environ.get("ZOO_CACHE") or Path(users) / "jax-onnx-zoo")
    folder = chosen / "clients" / f"{name}-{digest.hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / READY).touch()
    return folder


def install(command: list[str], folder: Path) -> None:
    """Run npm or pip in a folder. Skips without a network, fails with anything else."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode and (reason := NO_NETWORK.search(done.stdout + done.stderr)):
        pytest.skip(f"no network to install {folder.name} with ({reason[0]})")
    assert not done.returncode, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
