"""Built folders, each made once in a run of the tests, and programs run on them."""

import json
import os
import re
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
from zoo import info
from zoo.checkpoints.settings.library_configs import portable_config
from zoo.checkpoints.settings.processors import transformers_processor
from zoo.images.photograph import photograph
from zoo.images.preprocessing import Preprocessing

REPOSITORY = HERE.parent.parent
"""What a page makes of outputs that say where things are."""


@dataclass(frozen=True)
class Folder:
    """A folder that `zoo build` wrote."""

    path: Path

    @property
    def name(self) -> str:
        """The model's."""
        return self.path.name

    @property
    def preprocessing(self) -> Preprocessing:
        """The model's."""
        return info(self.name).preprocessing

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """What JAX makes of `pixel_values`, which is among them."""
        return load_file(self.path / "golden.safetensors")

    @cached_property
    def variants(self) -> dict[str, str]:
        """The file of every variant."""
        manifest = json.loads((self.path / "manifest.json").read_text())
        return {name: variant["files"][0] for name, variant in manifest["variants"].items()}

    def request(self, **more: object) -> dict[str, object]:
        """What programs are asked: to run the folder on the golden pixels."""
        return {
            "folder": str(self.path),
            "pixel_values": encode(self.outputs["pixel_values"]),
        } | more

    def snippet(self, language: str) -> str:
        """The program in that language on the card, to the letter."""
        card = (self.path / "README.md").read_text()
        (found,) = re.findall(rf"```{language}\n(.*?)```", card, re.DOTALL)
        return found


def build(root: Path, model: str, *options: str) -> Folder:
    """`zoo build MODEL --weights random`, once for all workers that share `root`."""
    command = [sys.executable, "-m", "zoo", "build", model, "--weights", "random", *options]
    folder = root / "-".join(["built", *options]) / model
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "README.md").exists():
            call([*command, "--out", str(folder.parent)], REPOSITORY)
    return Folder(folder)


def disguise(root: Path, model: str, network: Folder) -> Path:
    """A folder with the settings of one model and the network of another."""
    folder = root / "settings" / model
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").symlink_to(network.path / "onnx" / "model.onnx")
    entry = info(model)
    config = portable_config(entry.config, entry.class_names, entry.family)
    (folder / "config.json").write_text(json.dumps(config))
    processor = transformers_processor(entry.preprocessing)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def fitting(how: Preprocessing, path: Path) -> Path:
    """Write the photograph in a size that needs no resizing, only the crop if there is one."""
    height, width = how.size
    # An odd rest to crop, and never more on one side than resizing to the edge would leave.
    size = (width, height) if how.resize is None else (how.resize + 45, how.resize)
    photograph().resize(size, Image.Resampling.BICUBIC).save(path)
    return path


def node_folder(root: Path, environment: Path) -> Path:
    """`root`, with the programs in JavaScript, from where they find their packages."""
    with FileLock(root / "node.lock"):
        if not (root / "node_modules").exists():
            for program in HERE.glob("*.mjs"):
                shutil.copyfile(program, root / program.name)
            (root / "node_modules").symlink_to(environment / "node_modules")
    return root


def ask(command: Sequence[str | Path], request: object, **environ: str) -> Any:
    """What a program that reads JSON answers."""
    return json.loads(call(command, HERE, json.dumps(request), **environ))


def ask_and_stop(command: Sequence[str | Path], request: object) -> Any:
    """The same of one that does not end after it has answered, in one line."""
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
    """Run a program in a folder; what it prints. An error says what it complained of."""
    how: dict[str, Any] = {"cwd": folder, "input": text, "env": os.environ | environ}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **how)
    assert not done.returncode, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
