"""Every place on the command line that takes a path, and a line that reaches it.

`{}` is the path. Which parameters there are is asked of the commands themselves.
"""

import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

import converter
import weights
import zoo
from zoo.cli.app import app

ZOO = typer.main.get_command(app)
PATHS = re.compile("FILE|DIR|FOLDER|PATH|SRC|DST|IMAGE|PICTURE|DATASET")
"""What the help calls a value that is a path."""


class Door(NamedTuple):
    """A line, a path that it ends well with, what its paths end in, and whether it writes there."""

    line: str
    sound: str
    suffix: str = ""
    writes: bool = False

    def words(self, path: str) -> list[str]:
        """The line with a path."""
        return [path if word == "{}" else word for word in shlex.split(self.line)]


def writes(line: str, suffix: str = "") -> Door:
    """A path that is written."""
    return Door(line, f"thing{suffix}", suffix, True)


NEW = "--out new"
EXPORT = "export vit_digits --no-verify"
MADE = "golden vit_digits new.safetensors"
READ = f"{MADE} --reference reference.npz --weights"
BUILD = "build vit_digits --variant fp32"
INT8, BUILD8 = f"{EXPORT} --precision int8", "build vit_digits --variant int8"
EMBED = "embed pictures"
MODEL, FOLDER, DIGITS = "good.onnx", "built/vit_digits", "digits.safetensors"
TOWERS = "built/with_tokenizer"
ADAPTER = "adapter"
"""Of peft, on `DIGITS`."""
DATASET = "digits.lance"
"""Made of the pictures in `pictures`, with thumbnails."""
GIVEN = f"{MADE} --weights {DIGITS}"
GOLDEN = f"{FOLDER}/golden.safetensors"
RUNTIME = "runtime"
PACKAGES = f"--runtime {RUNTIME} --transformers {RUNTIME}"
"""What the pages run models with; a world has it where npm can fetch it."""

DOORS = {
    "export --weights": Door(f"{EXPORT} {NEW} --weights {{}}", DIGITS),
    "export --base": Door(f"{EXPORT} {NEW} --weights {ADAPTER} --base {{}}", DIGITS),
    "build --base": Door(f"{BUILD} {NEW} --weights {ADAPTER} --base {{}}", DIGITS),
    "export --calibrate": Door(f"{INT8} {NEW} --calibrate {{}}", "pictures"),
    "export --out": writes(f"{EXPORT} --out {{}}"),
    "verify FILE|DIR": Door("verify {}", FOLDER),
    "verify --weights": Door(f"verify {MODEL} --weights {{}}", DIGITS),
    "verify --base": Door(f"verify adapted.onnx --weights {ADAPTER} --base {{}}", DIGITS),
    "verify --onnx": Door(f"verify {GOLDEN} --onnx {{}}", MODEL),
    "verify --plot": writes(f"verify {MODEL} --plot {{}}", ".png"),
    "show MODEL|FILE|FOLDER": Door("show {} photo.png --out new.png", MODEL, ".onnx"),
    "show IMAGE": Door("show vit_digits {} --out new.png", "photo.png", ".png"),
    "show --weights": Door("show vit_digits photo.png --out new.png --weights {}", DIGITS),
    "show --out": writes("show vit_digits photo.png --out {}", ".png"),
    "info MODEL|FILE|FOLDER": Door("info {}", MODEL, ".onnx"),
    "run MODEL|FILE|FOLDER": Door("run {} photo.png --json", MODEL, ".onnx"),
    "run [PICTURE]...": Door("run vit_digits {} --json", "photo.png", ".png"),
    "run --weights": Door("run vit_digits photo.png --weights {}", DIGITS),
    "run --out": Door("run depth_digits photo.png --out {}", "new", writes=True),
    "bench FILE": Door("bench {} --rounds 1", MODEL, ".onnx"),
    "bench --plot": writes(f"bench {MODEL} --rounds 1 --plot {{}}", ".png"),
    "pull --out": writes("pull dinov3_vits16 --variant fp32 --out {}"),
    "build --weights": Door(f"{BUILD} {NEW} --weights {{}}", DIGITS),
    "build --calibrate": Door(f"{BUILD8} {NEW} --calibrate {{}}", "pictures"),
    "build --out": writes(f"{BUILD} --out {{}}"),
    "embed --model": Door(f"{EMBED} --model {{}} --out new.lance", FOLDER),
    "embed --out": writes(f"{EMBED} --model {FOLDER} --out {{}}", ".lance"),
    "site FOLDER": Door(f"site {{}} {NEW} {PACKAGES}", FOLDER),
    "site --out": writes(f"site {FOLDER} --out {{}} {PACKAGES}"),
    "site --runtime": Door(f"site {FOLDER} {NEW} --transformers {RUNTIME} --runtime {{}}", RUNTIME),
    "site --transformers": Door(
        f"site {TOWERS} {NEW} --runtime {RUNTIME} --transformers {{}}", RUNTIME
    ),
    "site --dataset": Door(f"site {FOLDER} {NEW} {PACKAGES} --dataset {{}}", DATASET),
    "search DATASET": Door("search {} photo.png --json", DATASET),
    "search IMAGE": Door(f"search {DATASET} {{}} --json", "photo.png", ".png"),
    "search --model": Door(f"search {DATASET} photo.png --model {{}}", FOLDER),
    "search --pictures": Door(
        f"search {DATASET} photo.png --out new.png --pictures {{}}", "pictures"
    ),
    "search --out": writes(f"search {DATASET} photo.png --out {{}}", ".png"),
    "push DIR": Door("push {} --repo somebody/thing --dry-run", FOLDER),
    "weights inspect SRC": Door("weights inspect {}", DIGITS),
    "weights convert SRC": Door("weights convert {} new.eqx", DIGITS),
    "weights convert --base": Door(f"weights convert {ADAPTER} new.eqx --base {{}}", DIGITS),
    "weights inspect --base": Door(f"weights inspect {ADAPTER} --base {{}}", DIGITS),
    "weights convert DST": writes(f"weights convert {DIGITS} {{}}", ".eqx"),
    "weights download --out": writes("weights download dinov3_vits16 --out {}"),
    "golden DST": writes("golden vit_digits {}", ".pth"),
    "golden --weights": Door(f"{READ} {{}}", DIGITS),
    "golden --image": Door(f"{READ} {DIGITS} --image {{}}", "photo.png", ".png"),
    "golden --reference": Door(f"{GIVEN} --reference {{}}", "reference.npz", ".npz"),
}


CONVERTED = "model = converter.to_onnx(lambda x: x + 1, [(3,)]).model"
SAVED = "converter.save(model, path)"
"""As other libraries do, it replaces what is there; so it is given only what is not."""

FUNCTIONS = {
    "zoo.embed": "zoo.embed('pictures', model=path, out='new.lance')",
    "zoo.load": "zoo.load('dinov3_vits16', folder=path)",
    "zoo.from_pretrained": "zoo.from_pretrained('vit_digits', path)",
    "zoo.to_onnx": "zoo.to_onnx(zoo.create('vit_digits'), path, verify=False)",
    "zoo.preprocess": "zoo.preprocess('vit_digits', path)",
    "zoo.search": "zoo.search('digits.lance', path)",
    "weights.open_checkpoint": "weights.open_checkpoint(pathlib.Path(path))",
    "converter.session": "converter.session(path)",
    "converter.run": "converter.run(path, [])",
    "converter.check": "converter.check(path, lambda x: x, [1.0])",
    "converter.to_onnx": "os.path.lexists(path) or converter.to_onnx(abs, [(3,)], path=path)",
    "converter.save": f"{CONVERTED}; os.path.lexists(path) or {SAVED}",
}
"""Every public function that takes a path, called with one."""

PROGRAM = """
import os, pathlib, sys, weights, zoo, converter
from converter.errors import ConverterError
from weights.errors import WeightsError
from zoo.common.terminal import print_stderr
from zoo.common.errors import ZooError
from zoo.common.runtime import ERRORS

path = sys.argv[2]
try:
    {}
except (ConverterError, WeightsError, ZooError, OSError, *ERRORS) as error:
    print_stderr("error: " + str(error).strip().splitlines()[0] + ".")
    sys.exit(2)
"""
"""What a program does with what it expects a function to raise."""


def functions() -> Iterator[str]:
    """Every public function with a parameter that is a path by its type."""
    for module in (zoo, weights, converter):
        for name in module.__all__:
            found = getattr(module, name)
            hints = getattr(found, "__annotations__", {}) if inspect.isfunction(found) else {}
            if any("Path" in str(hint) for key, hint in hints.items() if key != "return"):
                yield f"{module.__name__}.{name}"


def parameters(command: Any = ZOO, names: tuple[str, ...] = ()) -> Iterator[str]:
    """Every parameter of a command that takes a path, as `DOORS` call it."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from parameters(inner, (*names, name))
    for parameter in command.params:
        metavar = parameter.metavar or ""
        if PATHS.search(metavar.replace("PATTERN", "")):
            options = [opt for opt in parameter.opts if opt.startswith("--")]
            yield " ".join((*names, *(options[:1] or [metavar])))
