"""Worlds: a working folder with files of every kind that commands read, and a folder outside."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests import folders
from tests.hub_server import COMMIT, Hub, serving
from tests.killed import Order, Outcome, commands
from tests.siege.doors import ADAPTER, FOLDER, RUNTIME, TOWERS
from tests.siege.things import OUTSIDE
from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, TRANSFORMERS_JS, write_package
from zoo.artifacts.schema import MANIFEST
from zoo.common.errors import ZooError
from zoo.common.progress import LogProgress
from zoo.images.photograph import photograph
from zoo.registry.lookup import info
from zoo.texts.tokenizer import SETTINGS, WORDS

HERE, TEMPLATE = "here", "template"
DIGITS = Path(__file__).parents[2] / "zoo" / "data" / "vit_digits.safetensors"
LOGGING_MODULE = "open('executed', 'w')\n"
"""A Python module in the current folder that leaves a file when it is imported."""

Run = Callable[[Order], Outcome]
State = dict[str, str]
"""The description of everything below a folder, by path."""

PREPARING_COMMANDS = (
    "export vit_digits --out good.onnx",
    "build vit_digits --variant fp32 --out built",
    "weights convert digits.safetensors digits.eqx",
    "embed pictures --model built/vit_digits --out digits.lance --with thumbnail",
    "export vit_digits --weights adapter --base digits.safetensors --out adapted.onnx",
)

REFERENCE_PROGRAM = """
import numpy as np, zoo
answers = zoo.load("vit_digits", folder="built/vit_digits")("photo.png")
np.savez("reference.npz", **answers)
"""
"""A program that writes reference outputs for the picture."""


@contextmanager
def watched() -> Iterator[Run]:
    """Yield a function that runs commands, with a local hub of a built folder and a checkpoint."""
    files = folders.published(folders.contents())
    folder, checkpoint = f"somebody/{folders.MODEL}", info(folders.MODEL).repository
    files_of_hub = {f"{folder}@{COMMIT}/{name}": content for name, content in files.items()}
    files_of_hub[f"{checkpoint}@{COMMIT}/model.safetensors"] = DIGITS.read_bytes()
    branches = {f"{repository}@main": [COMMIT] for repository in (folder, checkpoint)}
    with (
        serving(Hub(files_of_hub, branches=branches)) as hub,
        commands(HF_ENDPOINT=hub.url, ZOO_HUB="somebody") as run,
    ):
        yield run


def prepare(folder: Path, run: Run) -> Path:
    """Make the template folder, whose files every world copies. Return its path."""
    template = folder / TEMPLATE
    template.mkdir()
    photograph().save(template / "photo.png")
    shutil.copy(DIGITS, template / "digits.safetensors")
    for number in range(8):
        pictures = template / "pictures" / f"{number % 2}"
        pictures.mkdir(parents=True, exist_ok=True)
        photograph().rotate(45 * number).save(pictures / f"{number}.png")
    _write_adapter(template / ADAPTER)
    with suppress(ZooError):
        for package in (ONNXRUNTIME_WEB, TRANSFORMERS_JS):
            write_package(package, None, folder / "dist", folder, LogProgress())
        (template / RUNTIME).mkdir()
        shutil.move(folder / "dist", template / RUNTIME)
    for arguments in (*(line.split() for line in PREPARING_COMMANDS), ["-c", REFERENCE_PROGRAM]):
        outcome = run(Order(str(template), arguments, output=str(folder / "prepared")))
        assert outcome.status == 0, (arguments, (folder / "prepared.err").read_text())
    _copy_with_tokenizer(template)
    for name in ("multiprocessing.py", "numpy.py", "json.py", "onnxruntime.py"):
        (template / name).write_text(LOGGING_MODULE)
    return template


def _write_adapter(folder: Path) -> None:
    """Write an adapter in the format of peft, for a layer of the network of digits."""
    folder.mkdir()
    settings = {"peft_type": "LORA", "lora_alpha": 2}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    layer = "base_model.model.blocks.0.attn.proj.lora"
    factors = {f"{layer}_A.weight": np.ones((1, 64)), f"{layer}_B.weight": np.ones((64, 1))}
    arrays = {name: 1e-3 * values.astype(np.float32) for name, values in factors.items()}
    save_file(arrays, folder / "adapter_model.safetensors")


def _copy_with_tokenizer(template: Path) -> None:
    """Copy the built folder and add a tokenizer, so that its site has pages for texts."""
    shutil.copytree(template / FOLDER, template / TOWERS)
    path = template / TOWERS / MANIFEST
    manifest = json.loads(path.read_text())
    for name in (WORDS, SETTINGS):
        (template / TOWERS / name).write_text("{}")
        digest = hashlib.sha256(b"{}").hexdigest()
        manifest["files"].append({"name": name, "bytes": 2, "sha256": digest})
    path.write_text(json.dumps(manifest))


def create_world(template: Path, world: Path) -> Path:
    """Create a world from the template. Return its working folder."""
    shutil.copytree(template, world / HERE, symlinks=True)
    outside = world / OUTSIDE
    outside.mkdir()
    (outside / "precious.txt").write_text("precious\n")
    (outside / "manifest.json").write_text("{}")
    return world / HERE


def read_state(folder: Path) -> State:
    """Return the description of everything below a folder, without following links."""
    entries: State = {}
    for parent, names, files in os.walk(folder):
        for name in (*names, *files):
            path = Path(parent, name)
            entries[str(path.relative_to(folder))] = _describe(path)
    return entries


def _describe(path: Path) -> str:
    """Describe a path: the target of a link, the type of a special file, or size or digest."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {os.readlink(path)}"
    if not stat.S_ISREG(mode):
        return stat.filemode(mode)[0]
    size = path.stat().st_size
    if size > 1 << 30:
        return f"{size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()
