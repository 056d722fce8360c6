"""Built folders, which are made once in a run of the tests, and programs that run on them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock
from PIL import Image
from safetensors.numpy import load_file

from tests.clients.environments import HERE
from tests.clients.tensors import encode
from tests.code_blocks import code_blocks
from zoo import info
from zoo.checkpoints.settings.library_configs import portable_config
from zoo.checkpoints.settings.processors import transformers_processor
from zoo.images.photograph import photograph
from zoo.images.preprocessing import Preprocessing

REPOSITORY = HERE.parent.parent
"""The root of the repository."""


@dataclass(frozen=True)
class Folder:
    """A folder that `zoo build` wrote."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.path.name

    @property
    def preprocessing(self) -> Preprocessing:
        """The preprocessing of the model."""
        return info(self.name).preprocessing

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """The golden `pixel_values`, and the outputs that JAX computed for them."""
        return load_file(self.path / "golden.safetensors")

    @cached_property
    def variants(self) -> dict[str, str]:
        """The file of every variant, by its name."""
        manifest = json.loads((self.path / "manifest.json").read_text())
        return {name: variant["files"][0] for name, variant in manifest["variants"].items()}

    def request(self, **entries: object) -> dict[str, object]:
        """Return a request to run the folder on the golden pixels, with more entries."""
        return {
            "folder": str(self.path),
            "pixel_values": encode(self.outputs["pixel_values"]),
        } | entries

    def snippet(self, language: str) -> str:
        """Return the program in a language on the card, unchanged."""
        card = (self.path / "README.md").read_text()
        (program,) = code_blocks(card, language)
        return program


def build(root: Path, model: str, *options: str) -> Folder:
    """Run `zoo build MODEL --weights random`, once for all workers that share `root`."""
    command = [sys.executable, "-m", "zoo", "build", model, "--weights", "random", *options]
    folder = root / "-".join(["built", *options]) / model
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "README.md").exists():
            call([*command, "--out", str(folder.parent)], REPOSITORY)
    return Folder(folder)


def disguise(root: Path, model: str, network: Folder) -> Path:
    """Make a folder with the settings of one model and the network of another. Return its path."""
    folder = root / "settings" / model
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").symlink_to(network.path / "onnx" / "model.onnx")
    entry = info(model)
    config = portable_config(entry.config, entry.class_names, entry.family)
    (folder / "config.json").write_text(json.dumps(config))
    processor = transformers_processor(entry.preprocessing)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def fitting(preprocessing: Preprocessing, path: Path) -> Path:
    """Write the photograph in a size that needs no resizing, but a crop if there is one.

    Return its path.
    """
    height, width = preprocessing.size
    # The cropped remainder is odd, and at most what resizing to the edge leaves on one side.
    size = (
        (width, height)
        if preprocessing.resize is None
        else (preprocessing.resize + 45, preprocessing.resize)
    )
    photograph().resize(size, Image.Resampling.BICUBIC).save(path)
    return path


def node_folder(root: Path, environment: Path) -> Path:
    """Copy the JavaScript programs to `root` and link their packages. Return `root`."""
    with FileLock(root / "node.lock"):
        if not (root / "node_modules").exists():
            for program in HERE.glob("*.mjs"):
                shutil.copyfile(program, root / program.name)
            (root / "node_modules").symlink_to(environment / "node_modules")
    return root


def ask(command: Sequence[str | Path], request: object, **environ: str) -> Any:
    """Send a request as JSON to a program. Return its answer."""
    return json.loads(call(command, HERE, json.dumps(request), **environ))


def ask_and_stop(command: Sequence[str | Path], request: object) -> Any:
    """Send a request to a program that does not end. Return its answer, which is one line."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*map(str, command)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(request))
        process.stdin.close()
        answer = process.stdout.readline()
        process.kill()
    assert answer, f"{command} gave no answer"
    return json.loads(answer)


def call(command: Sequence[str | Path], folder: Path, text: str = "", **environ: str) -> str:
    """Run a program in a folder with `text` on stdin. Return what it prints.

    An AssertionError shows its output if it fails.
    """
    options: dict[str, Any] = {"cwd": folder, "input": text, "env": os.environ | environ}
    process = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert not process.returncode, f"{command}\n{process.stdout[-2000:]}\n{process.stderr[-4000:]}"
    return process.stdout
