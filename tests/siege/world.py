"""Where the commands work: files of every kind that they take, and files of somebody else."""

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
MODULE = "open('executed', 'w')\n"
"""What a module in the current folder does to whoever imports it."""

Run = Callable[[Order], Outcome]
State = dict[str, str]
"""By path below a folder, what there is."""

PREPARED = (
    "export vit_digits --out good.onnx",
    "build vit_digits --variant fp32 --out built",
    "weights convert digits.safetensors digits.eqx",
    "embed pictures --model built/vit_digits --out digits.lance --with thumbnail",
    "export vit_digits --weights adapter --base digits.safetensors --out adapted.onnx",
)

OUTPUTS = """
import numpy as np, zoo
answers = zoo.load("vit_digits", folder="built/vit_digits")("photo.png")
np.savez("reference.npz", **answers)
"""
"""What a network of somebody else would give for the picture."""


@contextmanager
def watched() -> Iterator[Run]:
    """Runs commands, beside a hub that has one model's folder and one's checkpoint."""
    files = folders.published(folders.contents())
    folder, checkpoint = f"somebody/{folders.MODEL}", info(folders.MODEL).repository
    held = {f"{folder}@{COMMIT}/{name}": content for name, content in files.items()}
    held[f"{checkpoint}@{COMMIT}/model.safetensors"] = DIGITS.read_bytes()
    branches = {f"{repository}@main": [COMMIT] for repository in (folder, checkpoint)}
    with (
        serving(Hub(held, branches=branches)) as hub,
        commands(HF_ENDPOINT=hub.url, ZOO_HUB="somebody") as run,
    ):
        yield run


def prepare(place: Path, run: Run) -> Path:
    """Make the files once that every world begins with."""
    made = place / TEMPLATE
    made.mkdir()
    photograph().save(made / "photo.png")
    shutil.copy(DIGITS, made / "digits.safetensors")
    for number in range(8):
        pictures = made / "pictures" / f"{number % 2}"
        pictures.mkdir(parents=True, exist_ok=True)
        photograph().rotate(45 * number).save(pictures / f"{number}.png")
    _write_adapter(made / ADAPTER)
    with suppress(ZooError):
        for package in (ONNXRUNTIME_WEB, TRANSFORMERS_JS):
            write_package(package, None, place / "dist", place, LogProgress())
        (made / RUNTIME).mkdir()
        shutil.move(place / "dist", made / RUNTIME)
    for words in (*(line.split() for line in PREPARED), ["-c", OUTPUTS]):
        done = run(Order(str(made), words, output=str(place / "prepared")))
        assert done.status == 0, (words, (place / "prepared.err").read_text())
    _with_tokenizer(made)
    for name in ("multiprocessing.py", "numpy.py", "json.py", "onnxruntime.py"):
        (made / name).write_text(MODULE)
    return made


def _write_adapter(folder: Path) -> None:
    """As peft writes one, for a layer of the network for digits."""
    folder.mkdir()
    told = {"peft_type": "LORA", "lora_alpha": 2}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    layer = "base_model.model.blocks.0.attn.proj.lora"
    factors = {f"{layer}_A.weight": np.ones((1, 64)), f"{layer}_B.weight": np.ones((64, 1))}
    small = {name: 1e-3 * values.astype(np.float32) for name, values in factors.items()}
    save_file(small, folder / "adapter_model.safetensors")


def _with_tokenizer(made: Path) -> None:
    """A folder to a site, which has pages for texts where there is a tokenizer."""
    shutil.copytree(made / FOLDER, made / TOWERS)
    path = made / TOWERS / MANIFEST
    told = json.loads(path.read_text())
    for name in (WORDS, SETTINGS):
        (made / TOWERS / name).write_text("{}")
        digest = hashlib.sha256(b"{}").hexdigest()
        told["files"].append({"name": name, "bytes": 2, "sha256": digest})
    path.write_text(json.dumps(told))


def fresh(template: Path, place: Path) -> Path:
    """A new world; returns the folder that commands work in."""
    shutil.copytree(template, place / HERE, symlinks=True)
    elsewhere = place / OUTSIDE
    elsewhere.mkdir()
    (elsewhere / "precious.txt").write_text("precious\n")
    (elsewhere / "manifest.json").write_text("{}")
    return place / HERE


def state(place: Path) -> State:
    """What there is below a folder; no link is followed."""
    found: State = {}
    for folder, names, files in os.walk(place):
        for name in (*names, *files):
            path = Path(folder, name)
            found[str(path.relative_to(place))] = _kind(path)
    return found


def _kind(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {os.readlink(path)}"
    if not stat.S_ISREG(mode):
        return stat.filemode(mode)[0]
    size = path.stat().st_size
    if size > 1 << 30:
        return f"{size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()
